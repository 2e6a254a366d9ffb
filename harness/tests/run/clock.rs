//! Without libfaketime a line is printed, unless `HOOKPROOF_DEMANDS` names it.

use std::path::Path;
use std::process::Command;

use hookproof::fault::WallClock;
use hookproof_judge::check::{Status, Strictness, judge};
use hookproof_judge::scenario::Scenario;

use super::{served_by_two, start};

fn skewed() -> String {
    let more = r#"
retry = { base = "500ms", cap = "1s", attempts = 5, ttl = "60s" }
[[fault]]
at     = "1s"
do     = "clock-skew"
worker = 1
by     = "-90s"
lasts  = "4s"
"#;
    served_by_two("skewed", 16) + more
}

const SECOND: u64 = 1_000_000_000;

fn is_there(test: &str) -> bool {
    let found = WallClock::library().is_some();
    if !found {
        let demands = std::env::var("HOOKPROOF_DEMANDS").unwrap_or_default();
        assert!(!demands.split(',').any(|demand| demand == "faketime"), "{test}: no libfaketime");
        eprintln!("{test}: skipped: no libfaketime");
    }
    found
}

#[test]
fn a_process_whose_clock_is_wrong_stamps_by_it_and_is_otherwise_as_good_as_any() {
    if !is_there("a_process_whose_clock_is_wrong") {
        return;
    }
    let (_, said, trace, _) = start("skewed", &skewed(), &[]).end();
    let trace = trace.unwrap();
    let scenario = Scenario::from_text(&skewed(), "skewed.toml").unwrap();
    let verdicts = judge(&scenario, &trace, Strictness::Usual).verdicts;
    for check in ["fault.clock-skew", "format.timestamp", "format.signature", "loss.none"] {
        let verdict = verdicts.iter().find(|one| one.id == check).unwrap();
        assert_eq!(verdict.status, Status::Pass, "{check}: {}: {said}", verdict.sentence);
    }
    let [fault] = &trace.faults[..] else { panic!("{said}") };
    assert_eq!(fault.until, Some(5 * SECOND), "{said}");
    // Timestamps 90 s back appear only while its clock was wrong.
    let wrong = trace.arrivals.iter().filter(|arrival| {
        let second = (trace.header.began_unix_ns + arrival.t) / SECOND;
        let stamp: u64 = arrival.signed.timestamp.as_deref().unwrap().parse().unwrap();
        second.abs_diff(stamp) > 60
    });
    let times: Vec<u64> = wrong.map(|arrival| arrival.t).collect();
    assert!(!times.is_empty() && times.iter().all(|t| (SECOND..7 * SECOND).contains(t)), "{times:?}: {said}");
}

#[test]
fn without_the_library_the_scenario_is_refused_and_nothing_is_played() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.toml");
    std::fs::write(&file, skewed()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hookproof"));
    command.arg("run").arg(&file).arg("--out").arg(folder.path());
    let output = command.env("HOOKPROOF_FAKETIME", "/nowhere/libfaketimeMT.so.1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(64) && said.contains("install faketime"), "{output:?}");
    assert!(!Path::exists(&folder.path().join("skewed/trace.jsonl")), "{said}");
}
