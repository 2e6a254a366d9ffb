use hookproof_judge::check::{Status, Strictness, judge};
use hookproof_judge::trace::{
    Accepted, Answer, Cut, CutKind, End, Ended, Record, Trace, TraceError, TraceFile, Unoffered, Writer,
};

use crate::build;

fn written() -> Vec<u8> {
    let scenario = build::scenario("rate = \"10/s\", burst = 5");
    let trace = build::trace(&scenario, &[1_000_000_000, 2_000_000_000, 9_000_000_000]);
    let mut writer = Writer::new(Vec::new(), trace.header).expect("memory");
    for (arrival, answer) in trace.arrivals.into_iter().zip(trace.answers) {
        let offer = trace.offers[usize::try_from(arrival.n).expect("small")].clone();
        let token = offer.token;
        let (t, taken) = (arrival.t, Accepted { t: arrival.t, token, status: 202, matched: None });
        let offered = hookproof_judge::trace::Offer { t, intended: t, ..offer };
        let records = [
            Record::Offer(offered),
            Record::Accepted(taken),
            Record::Arrival(arrival),
            Record::Answer(answer),
        ];
        for record in records {
            writer.write(&record).expect("memory");
        }
    }
    let end = End { t: 10_000_000_000, ended: Ended::Done, dead_listed: true, late: 0, dropped: 0 };
    writer.finish(end).expect("memory")
}

fn lines() -> Vec<String> {
    let text = String::from_utf8(written()).expect("JSON");
    text.lines().map(str::to_owned).collect()
}

fn read(lines: &[String]) -> Result<Trace, TraceError> {
    Trace::read(lines.iter().map(|line| format!("{line}\n")).collect::<String>().as_bytes())
}

#[test]
fn a_written_trace_reads_back() {
    let trace = read(&lines()).expect("a trace");
    assert_eq!((trace.offers.len(), trace.arrivals.len(), trace.answers.len()), (3, 3, 3));
    assert_eq!(trace.trailer.expect("whole").lines, 13);
}

#[test]
fn every_line_that_goes_missing_is_noticed() {
    let lines = lines();
    for missing in 0..lines.len() - 1 {
        let mut rest = lines.clone();
        rest.remove(missing);
        assert!(read(&rest).is_err(), "without line {missing}");
    }
}

/// Reads the trace without these lines. Its trailer counts the rest, and reports `dropped` records.
fn lacking(missing: &[usize], dropped: u64) -> Result<Trace, TraceError> {
    let mut lines = lines();
    let mut trailer: serde_json::Value =
        serde_json::from_str(&lines.pop().expect("a trailer")).expect("JSON");
    for at in missing.iter().rev() {
        let line: serde_json::Value = serde_json::from_str(&lines.remove(*at)).expect("JSON");
        let own = match line["k"].as_str() {
            Some("offer") => Some("offers"),
            Some("arrival") => Some("arrivals"),
            _ => None,
        };
        for count in own.into_iter().chain(["lines"]) {
            trailer[count] = (trailer[count].as_u64().expect("a count") - 1).into();
        }
    }
    trailer["dropped"] = dropped.into();
    lines.push(trailer.to_string());
    read(&lines)
}

#[test]
fn a_trace_that_says_which_lines_it_lacks_is_judged_and_neither_passes_nor_fails() {
    let scenario = build::scenario("rate = \"10/s\", burst = 5");
    let (whole, count) = (lacking(&[], 0).expect("a trace"), lines().len());
    assert!(judge(&scenario, &whole, Strictness::Usual).count(Status::Pass) > 0);
    for missing in 1..count - 1 {
        let trace = lacking(&[missing], 1).expect("what is there is read");
        let judgement = judge(&scenario, &trace, Strictness::Strict);
        let sentence = &judgement.sentence;
        assert_eq!(judgement.status, Status::Inconclusive, "without line {missing}: {sentence}");
        assert!(sentence.starts_with("records missing from the trace: 1;"), "{sentence}");
        for status in [Status::Pass, Status::Warn, Status::Fail] {
            assert_eq!(judgement.count(status), 0, "{status} without line {missing}: {sentence}");
        }
    }
}

#[test]
fn a_record_that_refers_to_a_dropped_line_is_left_out() {
    let trace = lacking(&[1, 7], 2).expect("what is there is read");
    assert_eq!(trace.accepted.iter().map(|one| one.token).collect::<Vec<_>>(), [1, 2]);
    let arrivals: Vec<_> = trace.arrivals.iter().map(|one| (one.n, one.token)).collect();
    assert_eq!(arrivals, [(0, Some(0)), (1, Some(2))]);
    let answers: Vec<_> = trace.answers.iter().map(|one| (one.n, one.t)).collect();
    assert_eq!(answers, [(0, 1_000_000_000), (1, 9_000_000_000)]);
    for missing in [1, 2, 3, 9, 10, 11] {
        assert!(lacking(&[missing], 0).is_err(), "nothing is said to lack, and line {missing} does");
    }
}

#[test]
fn a_cut_of_a_request_that_could_not_be_kept_is_left_out_and_no_number_stands_for_two() {
    let mut trace = build::trace(&build::scenario("rate = \"10/s\""), &[1, 2, 3]);
    trace.trailer.as_mut().expect("whole").dropped = 1;
    trace.arrivals.remove(0);
    let cut =
        |n| Cut { t: 3, endpoint: "a".into(), n, how: CutKind::Close, began: None, token: None, why: None };
    trace.cuts.extend([Some(0), Some(2), None].map(cut));
    trace.settle().expect("what is there is read");
    assert_eq!(trace.cuts.iter().map(|cut| cut.n).collect::<Vec<_>>(), [Some(1), None]);
    trace.settle().expect("once more");
    trace.arrivals[1].n = 0;
    assert!(matches!(trace.settle(), Err(TraceError::Contradiction(_))));
}

#[test]
fn every_line_that_is_there_twice_is_noticed() {
    let lines = lines();
    for twice in 0..lines.len() {
        let mut more = lines.clone();
        more.insert(twice, lines[twice].clone());
        assert!(read(&more).is_err(), "with line {twice} twice");
    }
}

#[test]
fn wherever_a_trace_is_cut_it_passes_nothing() {
    let whole = written();
    let scenario = build::scenario("rate = \"10/s\", burst = 5");
    for length in 0..whole.len() - 1 {
        let Ok(trace) = Trace::read(&whole[..length]) else { continue };
        let judgement = judge(&scenario, &trace, Strictness::Usual);
        assert_eq!(judgement.count(Status::Pass), 0, "{length} bytes");
        assert_ne!(judgement.status, Status::Pass, "{length} bytes");
    }
}

#[test]
fn an_answer_to_nothing_is_refused() {
    let mut trace = build::trace(&build::scenario("rate = \"10/s\""), &[5]);
    trace.answers.push(Answer { t: 9, end: 9, n: 7, status: 204, retry_after: None, whole: true });
    assert!(matches!(trace.settle(), Err(TraceError::Contradiction(_))));
}

#[test]
fn a_repeated_missing_or_late_record_is_refused() {
    type Change = fn(&mut Trace);
    let rows: [(&str, Change); 6] = [
        ("two answers to arrival 1", |trace| trace.answers.push(trace.answers[1].clone())),
        ("more outcomes for event 1", |trace| trace.accepted.push(trace.accepted[1].clone())),
        ("no outcome for event 2", |trace| {
            trace.accepted.pop();
        }),
        ("the run ended", |trace| trace.arrivals[2].read += 3_000_000_000),
        ("the run ended", |trace| trace.answers[2].end += 3_000_000_000),
        ("the run ended", |trace| trace.offers[2].t += 6_000_000_000),
    ];
    for (why, change) in rows {
        let mut trace = build::trace(&build::scenario("rate = \"10/s\""), &[1, 2, 3]);
        trace.settle().expect("whole");
        change(&mut trace);
        let error = trace.settle().expect_err(why);
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn only_a_run_that_was_done_has_an_outcome_for_every_event() {
    let mut trace = build::trace(&build::scenario("rate = \"10/s\""), &[1, 2, 3]);
    trace.accepted.pop();
    trace.trailer.as_mut().expect("whole").ended = Ended::Interrupted;
    trace.settle().expect("the events on their way have none");
}

fn unoffered(token: u64, intended: u64) -> Unoffered {
    Unoffered { t: 4, intended, token, why: "no file is left".to_owned() }
}

#[test]
fn an_event_that_the_harness_could_not_send_was_not_offered() {
    let mut trace = build::trace(&build::scenario("rate = \"10/s\""), &[1, 2, 3]);
    // The third event, a fourth that was never written, and a repeat of the second.
    trace.accepted.pop();
    let again = hookproof_judge::trace::Offer { intended: 2, ..trace.offers[1].clone() };
    let intended = trace.offers[2].intended;
    trace.offers.push(again);
    trace.unoffered.extend([unoffered(2, intended), unoffered(3, 3), unoffered(1, 2)]);
    for _ in 0..2 {
        trace.settle().expect("whole");
        assert_eq!(trace.offers.iter().map(|offer| offer.token).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(trace.unoffered.len(), 3);
    }
}

#[test]
fn another_scenario_than_was_played_is_refused() {
    let mut lines = lines();
    lines[0] = lines[0].replace("burst = 5", "burst = 9");
    assert!(matches!(read(&lines), Err(TraceError::Contradiction(_))));
}

#[test]
fn a_compressed_file_is_read_like_a_plain_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let scenario = build::scenario("rate = \"10/s\"");
    let header = build::header(&scenario.text);
    for name in ["a.jsonl", "a.jsonl.zst"] {
        let path = folder.path().join(name);
        let writer = Writer::new(TraceFile::create(&path).expect("a file"), header.clone()).expect("written");
        let end = End { t: 1, ended: Ended::Done, dead_listed: false, late: 0, dropped: 0 };
        writer.finish(end).expect("written").close().expect("closed");
        assert!(Trace::open(&path).expect("a trace").trailer.is_some(), "{name}");
    }
}
