//! What was never delivered counts.

use hookproof::plan::{Asked, Plan, plan};
use hookproof::scenario::Scenario;

use crate::asked;

/// The objectives that a small scenario does not meet, as they are told.
fn broken(text: &str, slos: &[&str]) -> Vec<String> {
    let breaches = planned(text, slos).breaches;
    breaches.iter().map(|one| format!("{} {}: {}", one.subscriber, one.objective, one.figure)).collect()
}

fn planned(text: &str, slos: &[&str]) -> Plan {
    let scenario = Scenario::from_text(text, "owed.toml").unwrap();
    plan(&scenario, &Asked { headroom: false, ..asked(slos) }).unwrap()
}

const STEADY: &str = "name = \"owed\"\ndrain = \"30s\"\n\
    [[traffic]]\nshape = \"steady\"\nrate = \"40/s\"\nlasts = \"2s\"\n\
    [[subscriber]]\nname = \"a\"\n";

#[test]
fn an_endpoint_that_takes_nothing_has_no_percentile() {
    let failing = STEADY.to_owned()
        + "limit = { rate = \"100/s\", burst = 100 }\nretry = { attempts = 2, base = \"100ms\", cap = \"200ms\" }\n\
           [[subscriber.behaviour]]\nanswer = 500\n";
    assert_eq!(broken(&failing, &["p95<60s"]), ["a p95<60s: never"]);
}

#[test]
fn what_was_shed_takes_for_ever() {
    let shedding = STEADY.to_owned() + "limit = { rate = \"20/s\", burst = 5 }\nqueue = { rows = 10 }\n";
    // More than half of it gets through: its median is a time, and its 95th percentile is not.
    assert_eq!(broken(&shedding, &["p50<20s", "p95<20s"]), ["a p95<20s: never"]);
}

#[test]
fn a_backlog_is_followed_for_as_long_as_its_objective_allows() {
    let slow = STEADY.to_owned() + "limit = { rate = \"1/s\", burst = 10 }\n";
    assert_eq!(broken(&slow, &["drain<40s"]), ["a drain<40s: never"]);
    assert_eq!(broken(&slow, &["drain<10m"]), [""; 0]);
    let drained = planned(&slow, &["drain<10m"]).lanes[0].drain_ns.unwrap() / 1_000_000_000;
    assert!((60..75).contains(&drained), "70 deliveries at 1/s: {drained}");
}
