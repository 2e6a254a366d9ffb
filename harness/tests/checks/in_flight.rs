//! A cap on what is open holds in each of its times.

use hookproof::check::Status;
use hookproof::trace::{Fault, Process, ProcessEvent, Trace};

use crate::build;

const SECOND: u64 = 1_000_000_000;

const LOWERED: &str = "[[fault]]\nat = \"5s\"\ndo = \"limit\"\nwithin = \"1s\"\nlimit = { rate = \"10/s\", burst = 50, in_flight = 4 }";

/// So many requests come at that moment, and stay open for half a second.
fn open_at(t: u64, count: u64) -> impl Fn(&mut Trace) {
    move |trace| {
        trace.faults.push(Fault {
            t: 5 * SECOND,
            action: "limit".to_owned(),
            until: None,
            detail: None,
            plan: Some(0),
        });
        for place in 0..count {
            build::deliver(trace, "a", place % 3, t + place, 500);
            let answer = trace.answers.last_mut().expect("answered");
            (answer.t, answer.end) = (t + SECOND / 2, t + SECOND / 2);
        }
        build::end(trace, 30 * SECOND);
    }
}

#[test]
fn a_cap_that_was_lowered_binds_from_then_on() {
    let text = build::scenario("rate = \"100/s\", burst = 50, in_flight = 20").text;
    let scenario = build::named(&format!("{text}{LOWERED}\n"));
    for (t, expected) in [(4 * SECOND, Status::Pass), (8 * SECOND, Status::Fail)] {
        let mut trace = build::trace(&scenario, &[SECOND, 2 * SECOND, 3 * SECOND]);
        open_at(t, 10)(&mut trace);
        build::verdict("rate.in-flight", &scenario, &trace, expected);
    }
}

/// Four requests are read when an endpoint that stood still for 20 s goes on, and all are answered. Where their cap is
/// two they were open at once, unless a stopped process left two of them behind.
#[test]
fn what_a_stopped_process_left_open_past_its_deadline_is_not_held_against_who_took_over() {
    let text = build::scenario("rate = \"100/s\", burst = 50, in_flight = 2").text;
    let stall =
        "timeout = \"3s\"\n[[subscriber.behaviour]]\nat = \"5s\"\nlasts = \"20s\"\nanswer = \"stall\"\n";
    let scenario = build::named(&format!("{text}{stall}"));
    // They may have been sent from the fifth second on, so that the earliest deadline is in the eighth.
    for (stopped, until, expected) in [(6, 30, Status::Pass), (9, 30, Status::Pass), (6, 7, Status::Fail)] {
        let mut trace = build::trace(&scenario, &[SECOND, 2 * SECOND, 3 * SECOND, 4 * SECOND]);
        for token in 0..4 {
            build::deliver(&mut trace, "a", token, 25 * SECOND + token, 500);
            let answer = trace.answers.last_mut().expect("answered");
            (answer.t, answer.end) = (26 * SECOND, 26 * SECOND);
        }
        for (t, event) in [(stopped, ProcessEvent::Stopped), (until, ProcessEvent::Continued)] {
            trace.processes.push(Process { t: t * SECOND, worker: 0, event, status: None });
        }
        build::end(&mut trace, 40 * SECOND);
        build::verdict("rate.in-flight", &scenario, &trace, expected);
    }
}
