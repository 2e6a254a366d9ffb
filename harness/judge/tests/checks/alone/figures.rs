use hookproof_judge::trace::{Ceiling, ClockKind, ENDPOINTS, Public, Stall, Stray, StrayKind};

use super::Row;
use super::run::{Run, calm, crowded};

pub(super) const ROWS: [Row; 5] = [
    Row {
        check: "latency.first-attempt",
        broken: "a delivery comes after half a second; a tenth is the most",
        good: || calm("[expect.latency]\na = { max = \"100ms\" }"),
        breaks: |run| {
            run.moved(1, 2_500);
        },
    },
    Row {
        check: "efficiency",
        broken: "three deliveries take half a minute on a machine that does two a second",
        good: measured,
        breaks: |run| {
            run.moved(2, 33_000);
        },
    },
    Row {
        check: "harness.schedule",
        broken: "the generator releases each event half a second late",
        good: || calm(""),
        breaks: |run| run.trace.offers.iter_mut().for_each(|offer| offer.intended -= 500_000_000),
    },
    Row {
        check: "harness.stall",
        broken: "seven requests are stamped at the end of a stall of the harness, and may have come before",
        good: stalled,
        breaks: |run| {
            (0..7).for_each(|n| {
                run.moved(n, 6_000);
            });
        },
    },
    Row {
        check: "harness.strays",
        broken: "a handshake with an endpoint comes to nothing",
        good: called_by_the_world,
        breaks: |run| {
            let said = "received fatal alert: UnknownCA".to_owned();
            let stray = Stray { t: 1, kind: StrayKind::Handshake, token: None, said, count: 1 };
            run.trace.reached.strays.push(stray);
        },
    },
];

fn called_by_the_world() -> Run {
    let mut run = calm("");
    let (url, path) = ("https://h.example/hooks/{endpoint}".to_owned(), "/hooks/{endpoint}".to_owned());
    run.trace.reached.public = Some(Public { url, path });
    run
}

/// Three deliveries on a machine that makes two a second, to an endpoint without a rate.
fn measured() -> Run {
    let mut run = Run::limited("in_flight = 10", "[expect]\nefficiency_min = 0.35");
    run.delivery(0, 1_000).delivery(1, 2_000).delivery(2, 3_000);
    run.trace.host.ceiling = Some(Ceiling { t: 0, per_second: 2 });
    run
}

/// Seven requests keep their contract, and the harness's endpoints stall for a second.
fn stalled() -> Run {
    let mut run = crowded("", 7);
    run.trace.header.clock = ClockKind::Real;
    let (thread, from, until) = (ENDPOINTS.to_owned(), 5_000_000_000, 6_000_000_000);
    run.trace.stalls.push(Stall { thread, from, until });
    run
}
