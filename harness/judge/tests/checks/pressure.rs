use hookproof_judge::check::Status;
use hookproof_judge::trace::{Answer, Trace};

use crate::build::{deliver, end, named, offer, scenario, trace, verdict};

const MILLI: u64 = 1_000_000;
const EVENTS: u64 = 60;

/// The endpoint needs 100 ms for each; all events are accepted at 2 s. One is sent every `gap`, and answered after
/// `took`.
fn run(bound: &str, gap: u64, took: u64) -> (hookproof_judge::scenario::Scenario, Trace) {
    let limit = "rate = \"1000/s\", burst = 100, in_flight = 50";
    let serves = "[[subscriber.behaviour]]\nat = \"1s\"\nanswer = 204\nserves = \"100ms\"";
    let scenario = named(&format!("{}{serves}\n[expect.pressure.a]\n{bound}\n", scenario(limit).text));
    let mut trace = trace(&scenario, &[]);
    for n in 0..EVENTS {
        offer(&mut trace, n, 2_000 * MILLI, &["a"]);
        let t = 2_000 * MILLI + (n + 1) * gap * MILLI;
        deliver(&mut trace, "a", n, t, 204);
        let answer: &mut Answer = trace.answers.last_mut().expect("delivered");
        (answer.t, answer.end) = (t + took * MILLI, t + took * MILLI);
    }
    end(&mut trace, 60_000 * MILLI);
    (scenario, trace)
}

#[track_caller]
fn check(bound: &str, gap: u64, took: u64, expected: Status) {
    let (scenario, trace) = run(bound, gap, took);
    verdict("pressure.holds", &scenario, &trace, expected);
}

#[test]
fn four_of_five_answers_have_to_be_within_the_target_unless_said_otherwise() {
    let target = "target = \"500ms\"";
    check(target, 100, 500, Status::Pass);
    check(target, 100, 501, Status::Warn);
    check("target = \"501ms\"", 100, 501, Status::Pass);
    let late = |count: usize, bound: &str, expected| {
        let (scenario, mut trace) = run(bound, 100, 400);
        trace.answers[..count].iter_mut().for_each(|answer| answer.end = answer.t + 200 * MILLI);
        verdict("pressure.holds", &scenario, &trace, expected);
    };
    late(12, target, Status::Pass);
    late(13, target, Status::Warn);
    late(13, "target = \"500ms\"\nwithin = 0.7", Status::Pass);
}

#[test]
fn an_endpoint_with_work_to_do_is_not_left_idle() {
    let target = "target = \"500ms\"";
    check(target, 190, 100, Status::Pass);
    check(target, 210, 100, Status::Warn);
    check("target = \"500ms\"\nused = 0.4", 210, 100, Status::Pass);
}

#[test]
fn an_early_arrival_and_a_delivery_that_never_waited_prove_nothing() {
    check("target = \"500ms\"\nat = \"6s\"", 100, 900, Status::Warn);
    check("target = \"500ms\"\nat = \"7s\"", 100, 900, Status::Inconclusive);
}
