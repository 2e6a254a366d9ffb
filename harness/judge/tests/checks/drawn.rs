//! backlog.

use hookproof_judge::check::exact::{least_burst, peak};
use hookproof_judge::check::{Status, Strictness, Witness, judge};
use hookproof_judge::report::{self, Report, SubscriberReport};
use hookproof_judge::scenario::{SECOND, Scenario};
use hookproof_judge::trace::{Lack, Process, ProcessEvent, Trace};

use crate::build::{deliver, end, header, offer, scenario, scenario_with, trace};

fn report(scenario: &Scenario, trace: &Trace) -> Report {
    let judgement = judge(scenario, trace, Strictness::Usual);
    Report::new(scenario, trace, judgement, "again".to_owned())
}

fn accused(scenario: &Scenario, trace: &Trace, check: &str, witness: (u64, u64, &str, &[u64])) -> Report {
    let mut judgement = judge(scenario, trace, Strictness::Usual);
    let (from, until, what, arrivals) = witness;
    let (subscriber, what) = (Some("a".to_owned()), what.to_owned());
    judgement.verdicts.truncate(1);
    judgement.verdicts[0].id = check.to_owned();
    judgement.verdicts[0].status = Status::Fail;
    judgement.verdicts[0].witness =
        vec![Witness { subscriber, from, until, what, arrivals: arrivals.to_vec() }];
    Report::new(scenario, trace, judgement, "again".to_owned())
}

/// An event at 1 s is delivered at once, and one at 2 s at 8 s.
fn silent() -> Trace {
    let mut trace = Trace::of(header(&scenario("rate = \"10/s\", burst = 5").text));
    trace.trailer = crate::build::trace(&scenario("rate = \"10/s\", burst = 5"), &[]).trailer;
    for (token, t, heard) in [(1, SECOND, SECOND), (2, 2 * SECOND, 8 * SECOND)] {
        offer(&mut trace, token, t, &["a"]);
        deliver(&mut trace, "a", token, heard, 204);
    }
    end(&mut trace, 9 * SECOND);
    trace
}

fn silences(more: &str, change: fn(&mut Trace)) -> Vec<(u64, u64, u64)> {
    let (scenario, mut trace) = (scenario_with(more), silent());
    change(&mut trace);
    let drawn = report(&scenario, &trace).course.drawn;
    drawn.silences.iter().map(|one| (one.from / SECOND, one.until / SECOND, one.waited)).collect()
}

#[test]
fn a_subscriber_that_is_well_and_hears_nothing_is_named_from_when_something_waited() {
    assert_eq!(silences("", |_| {}), [(2, 8, 1)]);
}

#[test]
fn an_explained_pause_is_no_silence() {
    let failing = "[[subscriber.behaviour]]\nat = \"3s\"\nlasts = \"2s\"\nanswer = 500";
    assert_eq!(silences(failing, |_| {}), [(5, 8, 1)], "an endpoint that misbehaves is not well");
    assert_eq!(silences("", |trace| trace.accepted[1].t = 8 * SECOND), [], "nothing waited");
    assert_eq!(silences("", |trace| trace.answers[0].status = 500), [], "it had failed");
    let asked = |trace: &mut Trace| {
        trace.answers[0].status = 204;
        trace.answers[0].retry_after = Some("6".into());
    };
    assert_eq!(silences("", asked), [(7, 8, 1)], "it had asked for a pause of 6 s");
    assert_eq!(silences("", |trace| trace.answers[0].end = 5 * SECOND), [(5, 8, 1)], "a request was open");
}

#[test]
fn a_rate_that_lets_little_through_makes_no_silence() {
    let slow = scenario("rate = \"1/3s\", burst = 1");
    assert!(report(&slow, &silent()).course.drawn.silences.is_empty());
}

#[test]
fn a_silence_after_a_kill_is_told_in_a_row_with_the_kill_beside_it() {
    let (scenario, mut trace) = (scenario("rate = \"10/s\", burst = 5"), silent());
    for (t, event) in [(2, ProcessEvent::Killed), (4, ProcessEvent::Ready)] {
        trace.processes.push(Process { t: t * SECOND, worker: 0, event, status: None });
    }
    let page = report::html(&report(&scenario, &trace), &[]);
    let texts: Vec<&str> =
        page.split('<').filter_map(|tag| tag.split_once('>')).map(|(_, text)| text).collect();
    let text = texts.into_iter().filter(|text| !text.trim().is_empty()).collect::<Vec<_>>().join(" ");
    for row in ["a received nothing 2.00 8.00 6.00 1", "worker 0 killed 2.00 4.00 2.00"] {
        assert!(text.contains(row), "{row}: {text}");
    }
}

/// The chart's peak needs the same burst as the check's.
#[test]
fn the_level_around_a_violation_is_that_of_the_check() {
    let limited = scenario("rate = \"10/s\", burst = 5");
    let times: Vec<u64> =
        (0..30).map(|at| at * SECOND / 2).chain((0..9).map(|at| 20 * SECOND + at)).collect();
    let mut sorted = times.clone();
    sorted.sort_unstable();
    let report = report(&limited, &trace(&limited, &sorted));
    let drawn = report.course.drawn.closeups.iter().find(|one| one.check == "rate.envelope").expect("drawn");
    let rate = limited.subscribers[0].limit.bucket.expect("a bucket").rate;
    let needed = least_burst(peak(&sorted, rate).expect("arrivals").level, rate);
    let highest = drawn.level.iter().map(|(_, level)| *level).max().expect("a level");
    assert_eq!((u128::from(highest.div_ceil(1_000)), drawn.bound), (needed, Some(5_000)));
    assert!(drawn.until - drawn.from < SECOND, "it is looked at from close up");
}

#[test]
fn idle_subscribers_by_the_thousand_take_no_room_in_a_report() {
    let text = "name = \"idle\"\n[[traffic]]\nshape = \"steady\"\nrate = \"1/s\"\nlasts = \"1h\"\n[[subscriber]]\nname = \"a\"\n\
                count = 20000\n";
    let idle = Scenario::from_text(text, "idle.toml").expect("valid");
    let mut hour = trace(&idle, &[]);
    offer(&mut hour, 1, SECOND, &["a-7000"]);
    deliver(&mut hour, "a-7000", 1, 2 * SECOND, 204);
    end(&mut hour, 3_600 * SECOND);
    let small = scenario("rate = \"10/s\", burst = 5");
    let judgement = judge(&small, &silent(), Strictness::Usual);
    let report = Report::new(&idle, &hour, judgement, "again".to_owned());
    assert_eq!((report.subscribers.len(), report.course.lasted), (20_000, 3_600 * SECOND));
    let series =
        |one: &SubscriberReport| [&one.arriving, &one.taken, &one.held, &one.failed].map(|one| one.0.len());
    let entries: usize = report.subscribers.iter().flat_map(series).sum();
    assert_eq!(entries, 4 * 100 * 3_601, "each second of the hundred worst");
    let busy = &report.subscribers[6_999];
    assert_eq!((busy.arrivals, busy.arriving.0.iter().sum::<u64>()), (1, 1), "where something arrived");
    let markdown = report::markdown(&[report], &[], &report::Regressions::new());
    assert!(markdown.contains("a-7000 (no limit), by second"), "{markdown}");
}

#[test]
fn waiting_is_counted_from_the_acknowledgement_to_the_answer() {
    let drawn = report(&scenario("rate = \"10/s\", burst = 5"), &silent()).course.drawn;
    let at = |t: u64| drawn.waiting.iter().rfind(|(from, _)| *from <= t).map(|(_, rows)| *rows);
    assert_eq!([at(SECOND / 2), at(5 * SECOND), at(8 * SECOND + SECOND / 2)], [Some(0), Some(1), Some(0)]);
    assert_eq!(drawn.attempts.0, [0, 2]);
}

#[test]
fn figures_stand_beside_those_of_older_runs() {
    let limited = scenario("rate = \"10/s\", burst = 5");
    let (now, mut before) = (report(&limited, &silent()), report(&limited, &silent()));
    before.subscribers[0].latency = [1; 4];
    let page = report::html(&now, &[before.clone()]);
    assert!(page.contains("Comparison with the baseline") && page.contains(">worse<"), "{page}");
    before.scenario = "another".to_owned();
    assert!(!report::html(&now, &[before]).contains("Comparison with the baseline"));
}

#[test]
fn a_request_at_the_end_of_a_drawing_fills_the_bucket_once() {
    let limited = scenario("rate = \"10/s\", burst = 5");
    let mut trace = trace(&limited, &[SECOND, SECOND, SECOND]);
    end(&mut trace, SECOND);
    let report = accused(&limited, &trace, "rate.envelope", (SECOND, SECOND, "too many", &[0, 1, 2]));
    let drawn = &report.course.drawn.closeups[0];
    assert_eq!((drawn.until, drawn.level.last()), (SECOND, Some(&(SECOND, 3_000))));
}

#[test]
fn a_drawing_that_ends_early_says_how_many_requests_it_shows() {
    let limited = scenario("rate = \"10/s\", burst = 5");
    let trace = trace(&limited, &(SECOND..SECOND + 700).collect::<Vec<_>>());
    let report = accused(&limited, &trace, "rate.envelope", (SECOND, SECOND + 699, "too many", &[0]));
    assert!(report::html(&report, &[]).contains("the first 600 of 700 requests"));
}

#[test]
fn a_late_attempt_is_drawn_with_its_number() {
    let limited = scenario("rate = \"10/s\", burst = 5");
    let mut trace = trace(&limited, &[]);
    offer(&mut trace, 1, 0, &["a"]);
    (1..=12).for_each(|at| deliver(&mut trace, "a", 1, at * 10 * SECOND, 500));
    end(&mut trace, 130 * SECOND);
    let witness = (110 * SECOND, 110 * SECOND, "too early", &[10][..]);
    let report = accused(&limited, &trace, "retry.backoff-bounds", witness);
    let drawn = &report.course.drawn.closeups[0];
    let steps: Vec<&str> = drawn.course.iter().map(|step| step.what.as_str()).collect();
    assert_eq!(steps, ["attempt 11 at 110 s: 500"]);
    assert_eq!(drawn.what, "event 1 and 1 of its 12 attempts");
    let report = accused(&limited, &trace, "retry.backoff-bounds", (0, 130 * SECOND, "too early", &[11]));
    let drawn = &report.course.drawn.closeups[0];
    let attempts = drawn.course.iter().filter(|step| step.came.is_some());
    assert_eq!(attempts.count(), 8, "{:?}", drawn.course);
    assert!(drawn.course.iter().any(|step| step.what.starts_with("attempt 12 ")), "{:?}", drawn.course);
}

/// A refused connection leaves no exchange, but a sender that backs off is not silent.
#[test]
fn a_pause_after_attempts_that_no_endpoint_saw_is_no_silence() {
    let refusing = "[[subscriber.behaviour]]\nat = \"3s\"\nlasts = \"2s\"\nanswer = \"refuse\"";
    let retry = "retry = { base = \"100ms\", cap = \"1s\" }\n";
    let breaker = "breaker = { cooldown = \"1s\", cooldown_max = \"1s\" }\n";
    assert_eq!(silences(refusing, |_| {}), [], "it may back off for longer than the run");
    assert_eq!(silences(&format!("{retry}{refusing}"), |_| {}), [(6, 8, 1)], "no backoff is longer than 1 s");
    let broken = format!("{retry}{breaker}{refusing}");
    assert_eq!(silences(&broken, |_| {}), [(7, 8, 1)], "its breaker may be open for 1 s more");
    let later = |trace: &mut Trace| trace.accepted[1].t = 11 * SECOND / 2;
    assert_eq!(
        silences(&format!("{retry}{refusing}"), later),
        [(5, 8, 1)],
        "what came later was never refused"
    );
    assert_eq!(silences(&broken, later), [(6, 8, 1)], "a breaker holds back what came later too");
}

#[test]
fn a_settled_delivery_no_longer_waits() {
    let long = "[[subscriber.behaviour]]\nat = \"0s\"\nanswer = \"huge-answer\"";
    let failed = |status: u16| {
        let mut trace = silent();
        trace.answers[1].status = status;
        trace.answers[1].whole = false;
        trace.declared.lacks = vec![Lack::DeadLetters];
        end(&mut trace, 20 * SECOND);
        trace
    };
    let rows = [
        (long, 204, 2, [0, 1, 0], "it need not read the answer to its end"),
        ("", 500, 1, [0, 1, 1], "it may be tried again"),
        ("retry = { ttl = \"10s\" }", 500, 1, [0, 1, 0], "it was given up at 12 s"),
        ("retry = { attempts = 1 }", 500, 1, [0, 1, 0], "it was tried as often as declared"),
    ];
    for (more, status, delivered, expected, why) in rows {
        let report = report(&scenario_with(more), &failed(status));
        let waiting = &report.course.drawn.waiting;
        let at = |t: u64| waiting.iter().rfind(|(from, _)| *from <= t * SECOND).map_or(0, |(_, rows)| *rows);
        assert_eq!((report.subscribers[0].delivered, [0, 5, 13].map(at)), (delivered, expected), "{why}");
    }
}

#[test]
fn text_of_a_sender_does_not_control_the_page() {
    let limited = scenario("rate = \"10/s\", burst = 5");
    let said = "gone\u{202e}\u{2066}\u{1b}\u{1}";
    let report = accused(&limited, &silent(), "rate.envelope", (SECOND, SECOND, said, &[0]));
    for shown in [report::html(&report, &[]), report::picture(&report).expect("a picture")] {
        assert!(shown.contains("gone\\u{202e}\\u{2066}\\u{1b}\\u{1}"), "{shown}");
        assert!(!shown.contains(['\u{202e}', '\u{2066}', '\u{1b}', '\u{1}']), "{shown}");
    }
}

#[test]
fn arrivals_that_are_not_listed_are_counted() {
    let limited = scenario("rate = \"10/s\", burst = 5");
    let trace = trace(&limited, &(1..=9).map(|at| at * SECOND).collect::<Vec<_>>());
    for (count, expected) in [(8, "(arrivals 0, 1, 2, 3, 4, 5, 6, 7)"), (9, "5, 6, 7 and 1 more)")] {
        let arrivals: Vec<u64> = (0..count).collect();
        let report = accused(&limited, &trace, "rate.envelope", (SECOND, 9 * SECOND, "too many", &arrivals));
        assert!(report::html(&report, &[]).contains(expected), "{expected}");
    }
}

#[test]
fn a_page_names_every_inconclusive_check_the_first_three_with_the_reason() {
    let mut report = report(&scenario("rate = \"10/s\", burst = 5"), &silent());
    report.judgement.status = Status::Inconclusive;
    report.judgement.verdicts.truncate(5);
    for verdict in &mut report.judgement.verdicts {
        verdict.status = Status::Inconclusive;
    }
    let ids: Vec<_> = report.judgement.verdicts.iter().map(|verdict| verdict.id.clone()).collect();
    let page = report::html(&report, &[]);
    assert!(page.contains(&format!("Inconclusive: {}: ", ids[2])), "{page}");
    assert!(page.contains(&format!("Inconclusive as well: {}, {}.", ids[3], ids[4])), "{page}");
}
