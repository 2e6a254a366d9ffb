use hookproof_judge::check::{Status, Strictness, judge};
use hookproof_judge::scenario::Scenario;
use hookproof_judge::trace::{Dead, Depth, Process, ProcessEvent, Trace};

use crate::build;

const SECOND: u64 = 1_000_000_000;

/// The first request was answered with `status`, and is dead; the second event, accepted at `taken`, never arrived.
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
    check_one("loss.none", scenario, trace, expected);
}

fn check_one(id: &str, scenario: &Scenario, trace: &Trace, expected: Status) {
    let judgement = judge(scenario, trace, Strictness::Usual);
    let verdict = judgement.verdicts.iter().find(|verdict| verdict.id == id).expect("judged");
    assert_eq!(verdict.status, expected, "{}", verdict.sentence);
}

#[test]
fn an_event_accepted_after_its_endpoint_is_gone_is_not_lost() {
    check(&trace(410, 2 * SECOND), Status::Pass);
}

#[test]
fn an_event_accepted_before_is_owed_a_dead_letter() {
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
    for long in ["\"huge-answer\"", "200\nbody_bytes = \"16MiB\""] {
        let long = build::scenario_with(&format!("[[subscriber.behaviour]]\nanswer = {long}"));
        check_by(&long, &broken_off(&long), Status::Pass);
    }
}

fn waits(subscriber: Option<&str>) -> Depth {
    Depth { t: 3 * SECOND, subscriber: subscriber.map(str::to_owned), waiting: Some(1), ..Depth::default() }
}

#[test]
fn only_the_reported_backlog_of_a_gone_endpoint_need_not_drain() {
    let scenario = build::scenario("rate = \"10/s\", burst = 5");
    let with = |status: u16, depths: &[Depth]| Trace { depths: depths.to_vec(), ..trace(status, SECOND / 2) };
    let drains = |trace, expected| check_one("recovery.drains", &scenario, &trace, expected);
    drains(with(410, &[waits(None), waits(Some("a"))]), Status::Pass);
    drains(with(410, &[waits(None)]), Status::Fail);
    drains(with(500, &[waits(None), waits(Some("a"))]), Status::Fail);
}

/// A `Retry-After` of `inf` at 1 s, in a run of five minutes.
fn hostile(again: Option<u64>, killed: Option<u64>, expected: Status) {
    let text = build::scenario("rate = \"10/s\", burst = 5").text
        + "retry = { base = \"1s\", cap = \"1s\", attempts = 9, ttl = \"1h\", retry_after_cap = \"2s\" }\n\
           [[subscriber.behaviour]]\nanswer = 503\nretry_after_text = \"inf\"\n";
    let scenario = Scenario::from_text(&text, "hostile.toml").expect("valid");
    let mut trace = build::trace(&scenario, &[SECOND, again.unwrap_or(300 * SECOND)]);
    (trace.answers[0].status, trace.answers[0].retry_after) = (503, Some("inf".into()));
    if again.is_some() {
        trace.arrivals[1].token = Some(0);
    }
    let t = 300 * SECOND;
    trace.trailer = trace.trailer.map(|trailer| hookproof_judge::trace::Trailer { t, ..trailer });
    let killed = killed.map(|t| Process { t, worker: 0, event: ProcessEvent::Killed, status: None });
    trace.processes.extend(killed);
    check_one("retry.after-hostile", &scenario, &trace, expected);
}

#[test]
fn a_sender_that_is_killed_comes_back_later_to_a_hostile_answer_and_not_never() {
    hostile(Some(3 * SECOND), None, Status::Pass);
    hostile(Some(50 * SECOND), None, Status::Fail);
    hostile(Some(50 * SECOND), Some(2 * SECOND), Status::Pass);
    hostile(Some(200 * SECOND), Some(2 * SECOND), Status::Fail);
    hostile(None, Some(2 * SECOND), Status::Fail);
}
