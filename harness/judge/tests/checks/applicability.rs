//! A check judges only behaviour that the scenario requests, and says so otherwise.

use hookproof_judge::check::{Status, Strictness, judge};
use hookproof_judge::trace::{CutKind, Trace};

use crate::build::{self, check, scenario_with, trace};

const SECOND: u64 = 1_000_000_000;

fn as_it_was(_: &mut Trace) {}

#[test]
fn a_check_that_no_endpoint_can_observe_is_not_applicable() {
    let behaviour = |answer: &str| format!("[[subscriber.behaviour]]\nanswer = {answer:?}");
    for answer in ["reset", "refuse"] {
        for id in ["retry.hidden", "retry.attempts", "rate.retries-count"] {
            check(id, &behaviour(answer), as_it_was, Status::NotApplicable);
        }
    }
    check("retry.attempts", &behaviour("close"), as_it_was, Status::Inconclusive);
}

#[test]
fn failures_of_a_lane_without_a_limit_are_not_within_a_limit() {
    let beside = "[[subscriber]]\nname = \"b\"\n[[subscriber.behaviour]]\nanswer = 500";
    check("rate.retries-count", beside, as_it_was, Status::NotApplicable);
    let inside = "[[subscriber.behaviour]]\nanswer = 500";
    check("rate.retries-count", inside, as_it_was, Status::Inconclusive);
}

#[test]
fn a_delivery_that_waits_after_a_reset_is_not_lost_by_it() {
    let reset = "[[subscriber.behaviour]]\nanswer = \"reset-after-read\"";
    let cut = |waiting: u64| {
        move |trace: &mut Trace| {
            let answer = trace.answers.pop().expect("three");
            let (t, endpoint, n) = (answer.t, "a".into(), Some(answer.n));
            trace.cuts.push(hookproof_judge::trace::Cut {
                t,
                endpoint,
                n,
                how: CutKind::ResetAfterRead,
                began: None,
                token: None,
                why: None,
            });
            let mut depth = hookproof_judge::trace::Depth {
                t: 5,
                subscriber: None,
                waiting: Some(waiting),
                ..hookproof_judge::trace::Depth::default()
            };
            depth.t = answer.end;
            trace.depths.push(depth);
        }
    };
    check("network.reset", reset, cut(1), Status::Pass);
    check("network.reset", reset, cut(0), Status::Fail);
}

/// Three events of the first moment arrive within 3 s; one of 10 s arrives at 50 s.
fn one_is_late(trace: &mut Trace) {
    build::offer(trace, 3, 10 * SECOND, &["a"]);
    build::deliver(trace, "a", 3, 50 * SECOND, 204);
    build::end(trace, 51 * SECOND);
}

#[test]
fn a_latency_is_held_for_the_events_of_its_while_alone() {
    let rows = [
        ("{ max = \"3s\" }", Status::Fail),
        ("{ max = \"40s\" }", Status::Pass),
        ("{ lasts = \"10s\", max = \"3s\" }", Status::Pass),
        ("{ lasts = \"11s\", max = \"3s\" }", Status::Fail),
        ("{ at = \"10s\", max = \"39s\" }", Status::Fail),
        ("{ at = \"11s\", max = \"40s\" }", Status::Inconclusive),
        ("[{ lasts = \"10s\", max = \"3s\" }, { at = \"10s\", max = \"40s\" }]", Status::Pass),
        ("[{ lasts = \"10s\", max = \"3s\" }, { at = \"10s\", max = \"39s\" }]", Status::Fail),
        ("[{ lasts = \"10s\", max = \"2s\" }, { at = \"10s\", max = \"40s\" }]", Status::Fail),
    ];
    for (latency, expected) in rows {
        check("latency.first-attempt", &format!("[expect]\nlatency.a = {latency}"), one_is_late, expected);
    }
}

#[test]
fn a_latency_of_nothing_was_not_seen() {
    let latency = "[expect.latency]\na = { p95 = \"60s\" }";
    check("latency.first-attempt", latency, as_it_was, Status::Pass);
    let beside = format!("[[subscriber]]\nname = \"b\"\n{latency}\nb = {{ p95 = \"1ns\" }}");
    check("latency.first-attempt", &beside, as_it_was, Status::Inconclusive);
}

#[test]
fn a_failure_that_cannot_happen_is_not_known() {
    let known = "[expect.known]\n\"retry.after-429\" = { why = \"a ticket\" }";
    check("retry.after-429", known, as_it_was, Status::Fail);
    // A run that was cut short may not have come so far.
    let scenario = scenario_with(known);
    let mut cut = trace(&scenario, &[1, 2]);
    cut.trailer = None;
    assert_eq!(judge(&scenario, &cut, Strictness::Usual).status, Status::Inconclusive);
}

#[test]
fn a_kill_without_a_rate_leaves_nothing_to_carry_over() {
    let kill = |rate: &str| format!("{rate}[[fault]]\nat = \"1s\"\ndo = \"kill\"");
    let text = trace(&scenario_with(&kill("")), &[]).header.scenario_toml;
    let boundless = text.replace("limit = { rate = \"10/s\", burst = 5 }", "");
    let scenario =
        hookproof_judge::scenario::Scenario::from_text(&boundless, "boundless.toml").expect("valid");
    let judgement = judge(&scenario, &trace(&scenario, &[1, 2, 3]), Strictness::Usual);
    let verdict = judgement.verdicts.iter().find(|one| one.id == "rate.across-restart").expect("judged");
    assert_eq!(verdict.status, Status::NotApplicable, "{}", verdict.sentence);
}
