use hookproof_judge::scenario::Scenario;
use hookproof_simulator::plan::{Plan, PlanRequest, plan};

use crate::plan::plan_request;

fn broken(text: &str, slos: &[&str]) -> Vec<String> {
    let breaches = planned(text, slos).breaches;
    breaches.iter().map(|one| format!("{} {}: {}", one.subscriber, one.objective, one.figure)).collect()
}

fn planned(text: &str, slos: &[&str]) -> Plan {
    let scenario = Scenario::from_text(text, "owed.toml").unwrap();
    plan(&scenario, &PlanRequest { headroom: false, ..plan_request(slos) }).unwrap()
}

const STEADY: &str = "name = \"owed\"\ndrain = \"30s\"\n\
    [[traffic]]\nshape = \"steady\"\nrate = \"40/s\"\nlasts = \"2s\"\n\
    [[subscriber]]\nname = \"a\"\n";

#[test]
fn an_endpoint_that_takes_nothing_has_no_percentile() {
    let failing = STEADY.to_owned()
        + "limit = { rate = \"100/s\", burst = 100 }\nretry = { attempts = 2, base = \"100ms\", cap = \"200ms\" }\n\
           [[subscriber.behaviour]]\nanswer = 500\n";
    assert_eq!(broken(&failing, &["a.p95<60s"]), ["a a.p95<60s: never"]);
}

#[test]
fn a_shed_delivery_never_arrives() {
    let shedding = STEADY.to_owned()
        + "limit = { rate = \"20/s\", burst = 5 }\nqueue = { rows = 10, when_full = \"shed-oldest\" }\n";
    // More than half is delivered, less than 95 %.
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

#[test]
fn an_event_that_is_refused_counts_against_the_queue_that_is_full() {
    let two = STEADY.to_owned()
        + "limit = { rate = \"1000/s\", burst = 1000 }\n[[subscriber]]\nname = \"full\"\n\
           limit = { rate = \"5/s\", burst = 5 }\nqueue = { rows = 20, when_full = \"refuse\" }\n";
    let plan = planned(&two, &["shed=0"]);
    assert_eq!(plan.lanes[0].shed, 0, "the queue of a has no bound");
    assert_eq!(plan.lanes[1].shed, plan.refused, "{:?}", plan.lanes[1]);
    let whom: Vec<&str> = plan.breaches.iter().map(|one| one.subscriber.as_str()).collect();
    assert_eq!(whom, ["full"]);
}

#[test]
fn events_that_no_sender_hears_count_against_no_queue() {
    let down = STEADY.to_owned()
        + "limit = { rate = \"100/s\", burst = 50 }\n[[fault]]\nat = \"500ms\"\ndo = \"kill\"\nlasts = \"500ms\"\n";
    let plan = planned(&down, &["shed=0"]);
    assert!(plan.refused > 10, "{}", plan.refused);
    assert_eq!((plan.lanes[0].shed, plan.breaches.len()), (0, 0));
}

#[test]
fn a_peak_of_a_moment_is_seen() {
    let burst = STEADY.replace("shape = \"steady\"\nrate = \"40/s\"\nlasts = \"2s\"", PEAK)
        + "limit = { rate = \"2000/s\", burst = 400 }\n";
    let plan = planned(&burst, &["backlog<150"]);
    assert_eq!((plan.lanes[0].peak_rows, plan.lanes[0].owed), (200, 200));
    assert_eq!(plan.breaches.len(), 1, "{:?}", plan.breaches);
    assert_eq!(plan.model_errors, [""; 0]);
}

/// Between two samples of the queue.
const PEAK: &str = "shape = \"pause\"\nlasts = \"1010ms\"\n[[traffic]]\nshape = \"burst\"\nevents = 200";
