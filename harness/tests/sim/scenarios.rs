//! Every scenario that comes with the project, in virtual time.

use std::collections::BTreeSet;

use hookproof::check::{Status, Strictness};
use hookproof::sim::{Keep, judged, simulate, skipped};
use hookproof::trace::Trace;

use crate::{options, read, shipped};

/// Too long for the test command; `hookproof sim scenarios/` plays them.
const LONG: [&str; 7] = [
    "day-at-scale",
    "eurovision",
    "many-subscribers",
    "outage-24h",
    "skateboard",
    "throughput",
    "week-of-flapping",
];

/// Played for real alone: requests that nobody accepts are not sent late in virtual time, which is what these are about.
const UNMODELLED: [&str; 1] = ["lease-lost"];

#[test]
fn every_scenario_passes_and_what_virtual_time_cannot_show_is_named() {
    let listed = std::fs::read_dir(shipped()).unwrap().map(|entry| entry.unwrap().path());
    let files = listed.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    let mut wrong = Vec::new();
    let mut played = 0;
    for path in files {
        let scenario = read(&path);
        if LONG.contains(&scenario.name.as_str()) || UNMODELLED.contains(&scenario.name.as_str()) {
            continue;
        }
        let simulated = simulate(&scenario, &options(Keep::Trace)).unwrap();
        let trace = Trace::read(simulated.trace.as_slice()).unwrap();
        let judgement = judged(&scenario, &trace, Strictness::Usual);
        played += 1;
        if judgement.status != Status::Pass {
            wrong.push(format!("{}: {}: {}", scenario.name, judgement.status, judgement.sentence));
        }
        if scenario.name == "overflow" {
            let skipped: BTreeSet<&str> = skipped(&judgement).map(|(id, _)| id).collect();
            assert_eq!(skipped, BTreeSet::from(["format.post-json", "harness.schedule", "queue.memory"]));
        }
    }
    assert!(played > 12, "only {played} scenarios were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
