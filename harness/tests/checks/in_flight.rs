//! A cap on what is open holds in each of its times.

use hookproof::check::Status;
use hookproof::trace::{Fault, Trace};

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
