use hookproof_judge::trace::Refused;

use super::Row;
use super::run::{Run, calm};

pub(super) const ROWS: [Row; 7] = [
    Row {
        check: "queue.bounded",
        broken: "1,900 bytes wait; the bound is a thousand",
        good: waited,
        breaks: |run| run.trace.depths[0].bytes = Some(1_900),
    },
    Row {
        check: "queue.visible",
        broken: "an event that a full queue has no room for is answered 429 without `Retry-After`",
        good: turned_away,
        breaks: |run| run.trace.refused[0].retry_after = None,
    },
    Row {
        check: "queue.memory",
        broken: "memory grows by 400 MiB, and next to nothing waits",
        good: || {
            let mut run = calm("");
            run.resident(500, 50).resident(5_000, 60);
            run
        },
        breaks: |run| {
            run.resident(6_000, 450);
        },
    },
    Row {
        check: "queue.expires",
        broken: "a delivery is sent at the age of nine seconds; its time to live is five",
        good: expired,
        breaks: |run| {
            run.request(0, 10_000, 500);
        },
    },
    Row {
        check: "queue.truth",
        broken: "an event for one subscriber is said to match two",
        good: || {
            let mut run = calm("");
            run.trace.accepted.iter_mut().for_each(|one| one.matched = Some(1));
            run
        },
        breaks: |run| run.trace.accepted[1].matched = Some(2),
    },
    Row {
        check: "queue.retention",
        broken: "a delivery made 59 s ago is kept; five seconds are declared",
        good: || {
            let mut run = calm("[expect]\nkept = { age = \"5s\" }");
            run.keeps(60_000, 56_000);
            run
        },
        breaks: |run| {
            run.keeps(60_000, 1_010);
        },
    },
    Row {
        check: "emit.accepted",
        broken: "an event that was offered is never answered",
        good: turned_away,
        breaks: |run| (run.trace.refused[0].status, run.trace.refused[0].unknown) = (None, true),
    },
];

fn waited() -> Run {
    let mut run = Run::new("queue = { bytes = \"1KB\" }");
    run.event(0, 1_000).request(0, 2_000, 204).waiting(1_500, 1).waiting(10_000, 0);
    (run.trace.depths[0].bytes, run.trace.depths[1].bytes) = (Some(900), Some(0));
    run
}

/// A queue that refuses is full at the last of four events.
fn turned_away() -> Run {
    let mut run = calm("queue = { rows = 1, when_full = \"refuse\" }");
    let taken = run.event(3, 3_000).trace.accepted.pop().expect("taken");
    run.trace.refused.push(Refused {
        t: taken.t,
        token: taken.token,
        status: Some(429),
        retry_after: Some("1".to_owned()),
        unknown: false,
        cut_off: false,
        why: String::new(),
    });
    run
}

fn expired() -> Run {
    let retry = "retry = { base = \"20s\", ttl = \"5s\" }";
    let mut run = Run::new(&format!("{retry}\n[[subscriber.behaviour]]\nanswer = 500"));
    run.event(0, 1_000).request(0, 1_010, 500).dead(0, 6_000, "expired");
    run
}
