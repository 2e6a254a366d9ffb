use std::collections::BTreeSet;

use hookproof_judge::check::{Status, Strictness};
use hookproof_judge::trace::Trace;
use hookproof_simulator::sim::{Keep, judged, simulate, skipped};

use crate::sim::{options, read, scenario, shipped};

/// Too long for the test command; `hookproof sim scenarios/` runs them.
const LONG: [&str; 7] = [
    "day-at-scale",
    "eurovision",
    "many-subscribers",
    "outage-24h",
    "skateboard",
    "throughput",
    "week-of-flapping",
];

/// They need late requests that no endpoint accepted, which virtual time lacks.
const UNMODELLED: [&str; 1] = ["lease-lost"];

/// What these incidents must show.
const SUBJECTS: [(&str, &[&str]); 3] = [
    ("eurovision-mini", &["rate.envelope", "duplicate.dedupe", "coalesce.window", "network.refused"]),
    ("skateboard-mini", &["rate.envelope", "coalesce.window", "retry.after-429", "retry.after-503"]),
    ("skateboard-minutes", &["rate.utilisation", "coalesce.window", "retry.after-429", "retry.after-503"]),
];
const INCIDENT: [&str; 6] = [
    "breaker.opens",
    "breaker.one-probe",
    "breaker.cooldown",
    "recovery.no-storm",
    "queue.bounded",
    "latency.first-attempt",
];

#[test]
fn signatures_over_the_url_hold() {
    for sign in ["hubspot", "square", "twilio"] {
        let text = "[[traffic]]\nshape = \"burst\"\nevents = 3\n[[subscriber]]\nname = \"a\"\nsign = ";
        let scenario = scenario("x", &format!("{text}\"{sign}\""));
        let simulated = simulate(&scenario, &options(Keep::Trace)).unwrap();
        let trace = Trace::read(simulated.trace.as_slice()).unwrap();
        let judgement = judged(&scenario, &trace, Strictness::Usual);
        let failed = judgement.verdicts.iter().filter(|one| one.status == Status::Fail);
        let failed: Vec<_> = failed.map(|one| format!("{}: {}", one.id, one.sentence)).collect();
        assert_eq!(failed, Vec::<String>::new(), "{sign}");
    }
}

#[test]
fn every_scenario_passes_and_what_virtual_time_cannot_show_is_named() {
    let listed = std::fs::read_dir(shipped()).unwrap().map(|entry| entry.unwrap().path());
    let files = listed.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    let mut wrong = Vec::new();
    let (mut played, mut incidents) = (0, 0);
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
        if let Some((_, subjects)) = SUBJECTS.iter().find(|(name, _)| *name == scenario.name) {
            incidents += 1;
            for id in subjects.iter().chain(&INCIDENT) {
                let verdict = judgement.verdicts.iter().find(|one| one.id == *id).unwrap();
                assert_eq!(verdict.status, Status::Pass, "{}: {id}: {}", scenario.name, verdict.sentence);
            }
        }
        if scenario.name == "overflow" {
            let skipped: BTreeSet<&str> = skipped(&judgement).map(|(id, _)| id).collect();
            assert_eq!(
                skipped,
                BTreeSet::from(["format.http", "format.post-json", "harness.schedule", "queue.memory"])
            );
        }
    }
    assert!(played > 12, "only {played} scenarios were found");
    assert_eq!(incidents, SUBJECTS.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A burst of 1 waits for each answer, because the limit holds at the receiver.
#[test]
fn an_even_pace_reaches_the_full_rate_that_a_burst_of_one_does_not() {
    let used = |limit: &str| {
        let text = format!(
            "[[traffic]]\nshape = \"burst\"\nevents = 300\n[[subscriber]]\nname = \"a\"\nanswers = \"50ms..50ms\"\n\
             limit = {{ rate = \"10/s\", {limit} }}\n[expect]\nutilisation_min = 0.98\n"
        );
        let scenario = scenario("paced", &format!("drain = \"10min\"\n{text}"));
        let simulated = simulate(&scenario, &options(Keep::Trace)).unwrap();
        let trace = Trace::read(simulated.trace.as_slice()).unwrap();
        let judgement = judged(&scenario, &trace, Strictness::Strict);
        let failed = judgement.verdicts.iter().filter(|one| one.status == Status::Fail);
        let gaps: Vec<u64> = trace.arrivals.windows(2).map(|two| two[1].t - two[0].t).collect();
        (failed.map(|one| one.id.clone()).collect::<Vec<_>>(), gaps)
    };
    let (failed, gaps) = used("burst = 2, in_flight = 2, pace = true");
    assert_eq!(failed, Vec::<String>::new());
    assert!(
        gaps.iter().all(|gap| (80_000_000..120_000_000).contains(gap)),
        "even, but for the network: {gaps:?}"
    );
    let took = |gaps: &[u64]| gaps.iter().sum::<u64>();
    assert!(took(&gaps) * 98 / 100 <= 100_000_000 * gaps.len() as u64, "the full rate");
    let (_, gaps) = used("burst = 1, in_flight = 1");
    assert!(took(&gaps) >= 145_000_000 * gaps.len() as u64, "each waits for the answer before it");
    let (_, gaps) = used("burst = 8, in_flight = 4");
    assert!(gaps.iter().any(|gap| *gap < 10_000_000), "without a pace a burst goes out at once");
}

/// The least pace is one attempt a minute.
#[test]
fn an_endpoint_that_is_well_again_gets_its_backlog() {
    let text = "drain = \"5min\"\n[[traffic]]\nshape = \"steady\"\nrate = \"30/min\"\nlasts = \"5min\"\n\
                [[subscriber]]\nname = \"a\"\nlimit = { rate = \"60/min\", burst = 20, in_flight = 10 }\n\
                breaker = { failures = 60, cooldown = \"1min\" }\n[[subscriber.behaviour]]\nat = \"80s\"\nlasts = \"2min\"\n\
                answer = 504\nlatency = \"1s..3s\"\n";
    let scenario = scenario("outage", text);
    let simulated = simulate(&scenario, &options(Keep::Trace)).unwrap();
    let trace = Trace::read(simulated.trace.as_slice()).unwrap();
    let judgement = judged(&scenario, &trace, Strictness::Strict);
    let verdict = judgement.verdicts.iter().find(|one| one.id == "recovery.drains").unwrap();
    assert_eq!(verdict.status, Status::Pass, "{}", verdict.sentence);
}
