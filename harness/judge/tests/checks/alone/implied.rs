//! Checks that cannot break alone: each break, by its meaning, breaks another check too.

use hookproof_judge::scenario::FaultKind;
use hookproof_judge::trace::{ProcessEvent, Verified};

use super::Row;
use super::run::{Run, calm, crowded};

pub(super) struct Implied {
    pub(super) row: Row,
    pub(super) other: &'static str,
    pub(super) because: &'static str,
}

pub(super) const IMPLIED: [Implied; 8] = [
    Implied {
        row: Row {
            check: "format.signature",
            broken: "one signature does not verify",
            good: || calm(""),
            breaks: |run| {
                let why = "no signature was made with a known key".into();
                run.trace.arrivals[1].signed.verified = Verified::No(why);
            },
        },
        other: "identity.secret",
        because: "a signature that no secret of the subscriber verifies is not seen to be made with one",
    },
    Implied {
        row: Row {
            check: "rate.after-idle",
            broken: "after a rest six come at once, and five are allowed",
            good: rested,
            breaks: |run| {
                run.moved(5, 5_010);
            },
        },
        other: "rate.envelope",
        because: "the span after a rest is a window like any other",
    },
    Implied {
        row: Row {
            check: "rate.across-restart",
            broken: "after five at once, a process that was started anew sends a sixth within 50 ms",
            good: || {
                let mut run = crowded("[[fault]]\nat = \"5020ms\"\ndo = \"kill\"\nlasts = \"20ms\"", 6);
                run.killed(5_020, 5_040);
                run
            },
            breaks: |run| {
                run.moved(5, 5_060);
            },
        },
        other: "rate.envelope",
        because: "a window with the end of a process in it is a window like any other",
    },
    Implied {
        row: Row {
            check: "rate.across-workers",
            broken: "two workers send six at once, and five are allowed",
            good: || {
                let mut run = crowded("[sender]\nworkers = 2", 6);
                for (worker, event) in [(0, ProcessEvent::Ready), (1, ProcessEvent::Ready)] {
                    run.process(worker, 0, ProcessEvent::Started).process(worker, 0, event);
                }
                run
            },
            breaks: |run| {
                run.moved(5, 5_010);
            },
        },
        other: "rate.envelope",
        because: "the contract is the endpoint's, for all workers together",
    },
    Implied {
        row: Row {
            check: "rate.retries-count",
            broken: "two retries come 50 ms after five first attempts at once",
            good: || {
                let mut run = crowded("[[subscriber.behaviour]]\nattempts = \"1\"\nanswer = 500", 5);
                (run.trace.answers[0].status, run.trace.answers[1].status) = (500, 500);
                run.request(0, 5_110, 204).request(1, 5_210, 204);
                run
            },
            breaks: |run| {
                run.moved(5, 5_060).moved(6, 5_060);
            },
        },
        other: "rate.envelope",
        because: "the envelope counts requests, and a retry is one",
    },
    Implied {
        row: Row {
            check: "rate.live-change",
            broken: "after the limit was lowered to one a second, two come in half of one",
            good: lowered,
            breaks: |run| {
                run.moved(2, 5_010);
            },
        },
        other: "rate.envelope",
        because: "once it holds, the lowered limit is the contract",
    },
    Implied {
        row: Row {
            check: "recovery.no-storm",
            broken: "when an endpoint is well again six wait for it and come at once; five are allowed",
            good: recovered,
            breaks: |run| {
                run.moved(5, 5_010);
            },
        },
        other: "rate.envelope",
        because: "the contract that the backlog has to keep is the one that always holds",
    },
    Implied {
        row: Row {
            check: "retry.after-date",
            broken: "told to come back at a date, a delivery comes back in a tenth of a second",
            good: dated,
            breaks: |run| {
                run.moved(1, 1_110);
            },
        },
        other: "retry.after-503",
        because: "a date is one of the two forms of the `Retry-After` of a 429 or a 503",
    },
];

/// The limit is lowered at 2 s, with effect from 3 s.
fn lowered() -> Run {
    let change = "[[fault]]\nat = \"2s\"\ndo = \"limit\"\nlimit = { rate = \"1/s\", burst = 1 }";
    let mut run = Run::new(change);
    run.delivery(0, 1_000).delivery(1, 4_500).event(2, 5_000).request(2, 5_510, 204);
    run.fault(2_000, FaultKind::Limit, 0);
    run
}

fn recovered() -> Run {
    let behaviour = "[[subscriber.behaviour]]\nat = \"1s\"\nlasts = \"4s\"\nanswer = 500";
    let mut run = crowded(&format!("retry = {{ base = \"10s\" }}\n{behaviour}"), 6);
    run.event(6, 1_000).request(6, 1_010, 500).request(6, 7_000, 204);
    run
}

fn dated() -> Run {
    let mut run =
        Run::new("[[subscriber.behaviour]]\nlasts = \"2s\"\nanswer = 503\nretry_after_date = \"4s\"");
    run.event(0, 1_000).request(0, 1_010, 503).retry_after("Thu, 01 Jan 1970 00:00:05 GMT");
    run.request(0, 5_010, 204);
    run
}

/// One delivery, a pause in which the bucket fills, and a crowd.
fn rested() -> Run {
    let mut run = crowded("[[traffic]]\nshape = \"pause\"\nlasts = \"3s\"", 6);
    run.delivery(6, 1_000);
    run
}
