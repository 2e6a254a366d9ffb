//! What is owed, and by what it counts as settled: where an endpoint is gone, and where it says yes at endless length.

use hookproof::check::{Status, Strictness, judge};
use hookproof::scenario::Scenario;
use hookproof::trace::{Dead, Trace};

use crate::build;

const SECOND: u64 = 1_000_000_000;

/// A run whose first request was answered with that status and is given up, and whose second event, taken at
/// `taken`, came to nothing.
fn trace(status: u16, taken: u64) -> Trace {
    let mut trace = build::trace(&build::scenario("rate = \"10/s\", burst = 5"), &[SECOND, 3 * SECOND]);
    trace.arrivals.pop();
    trace.answers.pop();
    trace.answers[0].status = status;
    trace.accepted[1].t = taken;
    trace.dead.push(Dead {
        t: 3 * SECOND,
        subscriber: "a".to_owned(),
        token: Some(0),
        id: Some("msg_0".to_owned()),
        reason: "gone".to_owned(),
        attempts: Some(1),
    });
    trace
}

fn check(trace: &Trace, expected: Status) {
    check_by(&build::scenario("rate = \"10/s\", burst = 5"), trace, expected);
}

fn check_by(scenario: &Scenario, trace: &Trace, expected: Status) {
    let judgement = judge(scenario, trace, Strictness::Usual);
    let verdict = judgement.verdicts.iter().find(|verdict| verdict.id == "loss.none").expect("judged");
    assert_eq!(verdict.status, expected, "{}", verdict.sentence);
}

#[test]
fn what_is_taken_once_an_endpoint_is_gone_is_not_lost() {
    check(&trace(410, 2 * SECOND), Status::Pass);
}

#[test]
fn what_was_taken_before_is_owed_a_dead_letter() {
    check(&trace(410, SECOND / 2), Status::Fail);
}

#[test]
fn no_other_answer_lets_a_sender_off() {
    check(&trace(500, 2 * SECOND), Status::Fail);
}

#[test]
fn only_what_comes_inside_the_window_stands_for_an_event() {
    for (window, expected) in [("100ms", Status::Fail), ("2s", Status::Pass)] {
        let scenario = build::scenario_with(&format!(
            "coalesce = [{{ type = \"video.trending\", window = \"{window}\" }}]"
        ));
        let mut trace = build::trace(&scenario, &[SECOND, 3 * SECOND]);
        // The event that nothing came of was offered first, and the other a second later.
        trace.arrivals.remove(0);
        trace.answers.remove(0);
        (trace.arrivals[0].n, trace.answers[0].n) = (0, 0);
        (trace.offers[1].t, trace.accepted[1].t) = (SECOND, SECOND);
        check_by(&scenario, &trace, expected);
    }
}

#[test]
fn a_yes_without_end_may_be_taken_for_one_and_a_yes_that_breaks_off_may_not() {
    let broken_off = |scenario: &Scenario| {
        let mut trace = build::trace(scenario, &[SECOND]);
        trace.answers[0].whole = false;
        trace
    };
    let well = build::scenario("rate = \"10/s\", burst = 5");
    check_by(&well, &broken_off(&well), Status::Fail);
    let text = format!("{}\n[[subscriber.behaviour]]\nanswer = \"huge-answer\"\n", well.text);
    let huge = Scenario::from_text(&text, "huge.toml").expect("valid");
    check_by(&huge, &broken_off(&huge), Status::Pass);
}
