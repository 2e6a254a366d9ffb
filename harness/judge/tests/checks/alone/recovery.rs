use super::Row;
use super::run::{Run, calm};

pub(super) const ROWS: [Row; 6] = [
    Row {
        check: "recovery.drains",
        broken: "a delivery waits to the end of the run, as the sender says itself",
        good: || {
            let mut run = calm("");
            run.waiting(50_000, 0);
            run
        },
        breaks: |run| run.unsent().trace.depths[0].waiting = Some(1),
    },
    Row {
        check: "recovery.gap",
        broken: "after a restart nothing comes for three seconds, and there was work and room",
        good: restarted,
        breaks: |run| {
            run.moved(1, 5_000);
        },
    },
    Row {
        check: "breaker.opens",
        broken: "a request comes to an endpoint after its second failure in a row; two open the breaker",
        good: opened,
        breaks: |run| {
            run.request(2, 5_000, 500);
        },
    },
    Row {
        check: "breaker.one-probe",
        broken: "a second request comes while a probe is open",
        good: opened,
        breaks: |run| {
            run.moved(5, 32_150);
        },
    },
    Row {
        check: "breaker.cooldown",
        broken: "after a failed probe the next comes after half of the doubled cooldown",
        good: opened,
        breaks: |run| {
            run.request(0, 22_100, 500);
        },
    },
    Row {
        check: "liveness.served",
        broken: "a delivery waits for twenty seconds, until another event wakes its lane",
        good: seldom,
        breaks: |run| {
            run.moved(1, 22_005);
        },
    },
];

/// Three deliveries, ten seconds apart, of a sender that takes a lane over within two.
fn seldom() -> Run {
    // At such a rate nothing can be said of how much of it is used.
    let more = "timeout = \"1s\"\n[sender]\ntakeover_within = \"2s\"";
    let mut run = Run::limited("rate = \"1/s\", burst = 5", more);
    run.delivery(0, 1_000).delivery(1, 2_000).delivery(2, 22_000);
    run
}

/// The sender is killed at 1.5 s while an event waits, and sends it right after its restart.
fn restarted() -> Run {
    let limit = "rate = \"10/s\", burst = 8, in_flight = 4";
    let mut run = Run::limited(limit, "[[fault]]\nat = \"1500ms\"\ndo = \"kill\"\nlasts = \"500ms\"");
    run.delivery(0, 1_000).event(1, 1_400).request(1, 2_010, 204).killed(1_500, 2_000);
    run
}

/// Two failures open the breaker for ten seconds, a failed probe for twenty more, and a successful probe closes it.
fn opened() -> Run {
    let retry = "retry = { base = \"60s\" }\nbreaker = { failures = 2, cooldown = \"10s\" }";
    let mut run = Run::new(&format!("{retry}\n[[subscriber.behaviour]]\nlasts = \"30s\"\nanswer = 500"));
    run.event(0, 1_000).request(0, 1_010, 500);
    run.event(1, 2_000).request(1, 2_010, 500);
    run.event(2, 3_000);
    run.request(0, 12_100, 500);
    run.request(0, 32_110, 204).answered(3, 32_200);
    run.request(1, 33_000, 204).request(2, 33_100, 204);
    run
}
