//! The sender's report excuses only its own lane, and only as far as the scenario explains.

use hookproof_judge::check::Status;
use hookproof_judge::scenario::Scenario;
use hookproof_judge::trace::{Dead, Depth, Trace};

use crate::build::{self, verdict as check};

const SECOND: u64 = 1_000_000_000;

/// Two lanes get ten events each, a second apart. With `ill`, lane `b` answers 503 from 5 s on.
fn scenario(ill: bool) -> Scenario {
    let ill = if ill { "[[subscriber.behaviour]]\nat = \"5s\"\nanswer = 503\n" } else { "" };
    build::named(&build::scenario_with(&format!("[[subscriber]]\nname = \"b\"\n{ill}")).text)
}

/// Each lane got its events until its own second; at 20 s the sender reports a backlog of `waiting`.
fn trace(scenario: &Scenario, [a, b]: [u64; 2], waiting: u64) -> Trace {
    let mut trace = build::trace(scenario, &[]);
    for token in 0..10 {
        build::offer(&mut trace, token, token * SECOND, &["a", "b"]);
        for (name, until) in [("a", a), ("b", b)] {
            if token < until {
                build::deliver(&mut trace, name, token, token * SECOND + SECOND / 10, 204);
            }
        }
    }
    trace.depths.push(build::depth(20 * SECOND, None, waiting));
    build::end(&mut trace, 21 * SECOND);
    trace
}

#[test]
fn a_backlog_of_one_endpoint_excuses_no_loss_of_another() {
    let scenario = scenario(true);
    // Lane b waits for its endpoint, and the sender's count is generous.
    check("loss.none", &scenario, &trace(&scenario, [10, 5], 10), Status::Pass);
    check("loss.none", &scenario, &trace(&scenario, [5, 5], 10), Status::Fail);
}

/// The run ends with both lanes served; lane `a` lost its first five.
#[test]
fn a_delivery_overtaken_in_its_lane_does_not_wait() {
    let scenario = scenario(false);
    for (gone, expected) in [(0..5, Status::Fail), (8..10, Status::Pass)] {
        let mut trace = trace(&scenario, [0, 10], 5);
        for token in (0..10).filter(|token| !gone.contains(token)) {
            build::deliver(&mut trace, "a", token, token * SECOND + SECOND / 10, 204);
        }
        trace.depths[0].t = 9 * SECOND;
        build::end(&mut trace, 10 * SECOND);
        check("loss.none", &scenario, &trace, expected);
    }
}

#[test]
fn a_count_of_its_own_lane_excuses_a_delivery_and_a_count_of_another_does_not() {
    let scenario = scenario(false);
    for (lane, expected) in [("a", Status::Pass), ("b", Status::Fail)] {
        let mut trace = trace(&scenario, [5, 10], 5);
        trace.depths.push(build::depth(20 * SECOND, Some(lane), 5));
        check("loss.none", &scenario, &trace, expected);
    }
}

/// Lane `a` gets five of ten events; the rest are dead for `reason`, after `attempts` failures.
fn given_up(scenario: &Scenario, reason: &str, attempts: u64) -> Trace {
    let mut trace = trace(scenario, [5, 10], 0);
    for token in 5..10 {
        for attempt in 0..attempts {
            build::deliver(&mut trace, "a", token, (token + attempt) * SECOND + SECOND / 5, 500);
        }
        trace.dead.push(Dead {
            t: 20 * SECOND,
            subscriber: "a".to_owned(),
            token: Some(token),
            id: Some(format!("msg_{token}")),
            reason: reason.to_owned(),
            attempts: None,
        });
    }
    trace
}

#[test]
fn a_reason_in_the_senders_own_words_explains_nothing() {
    let with = |retry: &str| {
        build::named(&scenario(false).text.replace("burst = 5 }\n", &format!("burst = 5 }}\n{retry}\n")))
    };
    let rows = [
        ("", "filtered", 0, Status::Fail),
        ("", "max retries", 1, Status::Fail),
        ("retry = { attempts = 3 }", "max retries", 2, Status::Fail),
        ("retry = { attempts = 3 }", "max retries", 3, Status::Pass),
        ("retry = { ttl = \"5s\" }", "too old", 1, Status::Pass),
        // The others of its lane were delivered before these came, so it was never full.
        ("queue = { rows = 5 }", "no room", 0, Status::Fail),
    ];
    for (more, reason, attempts, expected) in rows {
        let scenario = with(more);
        check("loss.none", &scenario, &given_up(&scenario, reason, attempts), expected);
    }
}

#[test]
fn a_lane_that_says_it_waits_is_not_lost_and_must_drain() {
    let scenario = scenario(false);
    let mut trace = trace(&scenario, [5, 10], 5);
    trace.depths.push(Depth { subscriber: Some("a".to_owned()), ..trace.depths[0].clone() });
    check("loss.none", &scenario, &trace, Status::Pass);
    check("recovery.drains", &scenario, &trace, Status::Fail);
}
