//! Randomly mutated traces: the reader refuses one and says which line is wrong, or returns all of its records.

use std::io::BufReader;

use hookproof_judge::check::{Status, Strictness, judge};
use hookproof_judge::scenario::Scenario;
use hookproof_judge::trace::{End, Record, Trace, Trailer, Writer};

use crate::fuzzing::{Random, Target};

/// The most bytes of a refusal: a terminal shows it.
const REFUSAL_BYTES_MAX: usize = 1_000;

const GOOD: &str = include_str!("../../../../scenarios/traces/good.jsonl");

/// Lines of the kinds that the golden traces lack.
const OTHERS: [&str; 15] = [
    r#"{"k":"refused","t":6000000,"token":0,"status":429,"retry_after":"1","unknown":true,"why":"full"}"#,
    r#"{"k":"cut","t":6000000,"endpoint":"a","n":0,"how":"reset-after-read","began":1,"token":0}"#,
    r#"{"k":"fault","t":1,"do":"kill","until":9,"detail":"x","delay":1,"plan":0}"#,
    r#"{"k":"process","t":1,"worker":0,"event":"killed"}"#,
    r#"{"k":"undone","t":2,"do":"kill","why":"gone"}"#,
    r#"{"k":"depth","t":1,"subscriber":"a","waiting":1,"kept":{"listed":true}}"#,
    r#"{"k":"dead","t":1,"subscriber":"a","token":0,"reason":"attempts"}"#,
    r#"{"k":"shared-secret","t":1,"endpoint":"a","with":"b"}"#,
    r#"{"k":"clock-set","from":1,"until":2,"ns":-1}"#,
    r#"{"k":"declared","lacks":["kept"],"schedule":[1,2],"told":[{"subscriber":"a","what":"x"}]}"#,
    r#"{"k":"unoffered","t":1,"intended":0,"token":0,"why":"no file"}"#,
    r#"{"k":"offset","t":1,"ns":-5,"error":1}"#,
    r#"{"k":"handshake","t":1,"until":2,"connection":1}"#,
    r#"{"k":"stray","t":1,"kind":"request","said":"GET /","count":1}"#,
    r#"{"k":"stall","thread":"endpoints","from":1,"until":2}"#,
];

/// The same records from the writer.
fn written(trace: &[u8]) -> Vec<u8> {
    let lines = trace.split(|byte| *byte == b'\n');
    // The last line of a run that died may be incomplete.
    let mut records = lines.map_while(|line| serde_json::from_slice(line).ok());
    let Some(Record::Header(header)) = records.next() else { panic!("no header") };
    let mut text = Vec::new();
    let mut writer = Writer::new(&mut text, *header).expect("memory");
    for record in records {
        if let Record::Trailer(Trailer { t, ended, dead_listed, late, dropped, .. }) = record {
            writer.finish(End { t, ended, dead_listed, late, dropped }).expect("memory");
            break;
        }
        writer.write(&record).expect("memory");
    }
    text
}

fn outcome(input: &[u8], random: &mut Random) -> String {
    let read = Trace::read(input).map_err(|error| error.to_string());
    let in_pieces = Trace::read(BufReader::with_capacity(1 + random.below(64), input));
    assert_eq!(format!("{read:?}"), format!("{:?}", in_pieces.map_err(|error| error.to_string())));
    let trace = match read {
        Err(refusal) => {
            assert!(refusal.len() <= REFUSAL_BYTES_MAX, "{} bytes: {refusal}", refusal.len());
            assert!(!refusal.chars().any(char::is_control), "{refusal:?}");
            // Numbers and quoted words differ in each input.
            let words = refusal.split(|letter: char| !letter.is_alphabetic()).filter(|word| !word.is_empty());
            return words.take(9).collect::<Vec<_>>().join(" ");
        }
        Ok(trace) => trace,
    };
    let again = Trace::read(written(input).as_slice()).expect("its own records");
    assert_eq!(format!("{trace:?}"), format!("{again:?}"));
    let scenario = Scenario::from_text(&trace.header.scenario_toml, "golden").expect("the same scenario");
    let verdicts = judge(&scenario, &trace, Strictness::Usual).verdicts.into_iter();
    let failed = verdicts.filter(|verdict| verdict.status == Status::Fail).map(|verdict| verdict.id);
    format!("accepted {} {}", trace.trailer.is_some(), failed.collect::<Vec<_>>().join(" "))
}

fn target() -> Target<'static> {
    // Two events, each delivered.
    let begin: String = GOOD.split_inclusive('\n').take(9).collect();
    let header = GOOD.lines().next().expect("a header");
    let end = |dropped: u64| {
        format!(
            r#"{{"k":"trailer","t":900000000,"ended":"done","lines":9,"offers":2,"arrivals":2,"late":0,"dropped":{dropped}}}"#
        )
    };
    let again = GOOD.lines().nth(1).expect("an offer");
    let corpus = [
        begin.clone(),
        format!("{begin}{}\n", end(0)),
        format!("{begin}{}\n", end(1)),
        format!("{begin}{again}\n{}\n", OTHERS.join("\n")),
        format!("{header}\n{}\n", OTHERS[2..].join("\n")),
    ];
    let corpus = corpus.map(String::into_bytes).into();
    let words = &[
        "\n",
        "null",
        "{\"k\":\"",
        "\"token\":",
        "\"t\":",
        ",\"n\":",
        "\"done\"",
        "kill",
        "\"a\"",
        "\\ud800",
        "[[[[",
        "}\n{",
    ];
    Target { quick: 20_000, corpus, words, check: &outcome }
}

#[test]
fn each_trace_of_the_corpus_is_accepted() {
    for input in target().corpus {
        Trace::read(input.as_slice()).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn any_trace_is_read_whole_or_refused_with_its_line() {
    target().try_some();
}

#[test]
#[ignore = "takes HOOKPROOF_SECONDS"]
fn any_trace_is_read_whole_or_refused_with_its_line_at_length() {
    target().try_at_length();
}
