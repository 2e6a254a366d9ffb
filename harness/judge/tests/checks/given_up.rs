use hookproof_judge::check::Status;
use hookproof_judge::scenario::FaultKind;
use hookproof_judge::trace::{ClockSet, Cut, CutKind, Dead, Lack, Refused, Trace};

use crate::build::{self, check};
use crate::excuses::fault;

const SECOND: u64 = 1_000_000_000;

fn bury(trace: &mut Trace, token: u64, reason: &str) {
    let id = Some(format!("msg_{token}"));
    let (subscriber, reason) = ("a".to_owned(), reason.to_owned());
    trace.dead.push(Dead { t: 3 * SECOND, subscriber, token: Some(token), id, reason, attempts: None });
}

#[test]
fn a_reason_that_cannot_be_true_is_a_loss() {
    let rows = [
        ("expired", "", Status::Fail),
        ("expired", "retry = { ttl = \"2s\" }", Status::Pass),
        ("gone", "", Status::Fail),
        ("overflow", "", Status::Fail),
        ("overflow", "queue = { rows = 3 }", Status::Fail),
        ("overflow", "queue = { rows = 2 }", Status::Pass),
        ("overflow", "queue = { bytes = \"1KB\" }", Status::Pass),
        ("a word of its own", "", Status::Fail),
        ("a word of its own", "queue = { rows = 2 }", Status::Pass),
    ];
    for (reason, more, expected) in rows {
        let given_up = |trace: &mut Trace| {
            trace.arrivals.pop();
            trace.answers.pop();
            bury(trace, 2, reason);
        };
        check("loss.none", more, given_up, expected);
    }
}

#[test]
fn a_step_of_the_wall_clock_excuses_as_much_as_it_is_long() {
    let retry = "retry = { ttl = \"1h\" }";
    let step =
        |by: &str| format!("{retry}\n[[fault]]\nat = \"1500ms\"\ndo = \"clock-step\"\nby = \"{by}\"\n");
    let rows = [
        (retry.to_owned(), None, Status::Fail),
        (retry.to_owned(), Some(7_200), Status::Pass),
        (retry.to_owned(), Some(600), Status::Fail),
        (retry.to_owned(), Some(-7_200), Status::Fail),
        (step("2h"), None, Status::Pass),
        (step("10min"), None, Status::Fail),
        (step("-2h"), None, Status::Fail),
    ];
    for (more, set, expected) in rows {
        let given_up = |trace: &mut Trace| {
            build::without(trace, 2);
            bury(trace, 2, "expired");
            let stepped = |set: i64| ClockSet { from: SECOND, until: SECOND + 1, ns: set * 1_000_000_000 };
            trace.host.clock_sets.extend(set.map(stepped));
            if more.contains("fault") {
                trace.faults.push(fault(3 * SECOND / 2, FaultKind::ClockStep, None));
            }
        };
        check("loss.none", &more, given_up, expected);
    }
    // A clock set back makes it younger.
    let late = |set: Option<i64>| {
        move |trace: &mut Trace| {
            let stepped = |set: i64| ClockSet { from: SECOND, until: SECOND + 1, ns: set * 1_000_000_000 };
            trace.host.clock_sets.extend(set.map(stepped));
            build::end(trace, 60 * SECOND);
        }
    };
    for (set, expected) in
        [(None, Status::Fail), (Some(-1), Status::NotApplicable), (Some(600), Status::Fail)]
    {
        check("queue.expires", "retry = { ttl = \"2s\" }", late(set), expected);
    }
}

#[test]
fn an_event_whose_offer_failed_may_have_been_accepted() {
    for (status, expected) in [(503, Status::Pass), (429, Status::Fail)] {
        let shed = |trace: &mut Trace| {
            bury(trace, 2, "overflow");
            build::without(trace, 2);
            build::without(trace, 0);
            trace.accepted.remove(0);
            let (t, token, why) = (SECOND, 0, String::new());
            let (status, retry_after) = (Some(status), Some("1".to_owned()));
            trace.refused.push(Refused {
                t,
                token,
                status,
                retry_after,
                unknown: false,
                cut_off: false,
                why,
            });
        };
        check("loss.none", "queue = { rows = 2 }", shed, expected);
    }
}

#[test]
fn a_delivery_that_the_sender_reports_gone_is_given_up() {
    let gone = |trace: &mut Trace| {
        trace.arrivals.pop();
        trace.answers.pop();
        trace.answers[1].status = 410;
        (1..3).for_each(|token| bury(trace, token, "gone"));
    };
    check("loss.none", "", gone, Status::Pass);
}

#[test]
fn a_permanently_refused_delivery_is_given_up_without_a_list_of_dead_letters() {
    let turned_away = |status: u16| {
        move |trace: &mut Trace| {
            trace.answers[2].status = status;
            trace.declared.lacks = vec![Lack::DeadLetters];
            trace.trailer.as_mut().unwrap().dead_listed = false;
            build::end(trace, 20 * SECOND);
        }
    };
    for id in ["loss.none", "recovery.drains"] {
        check(id, "", turned_away(410), Status::Pass);
        check(id, "", turned_away(500), Status::Fail);
    }
    // A delivery taken long before the last request does not count.
    let lost_before = |trace: &mut Trace| {
        turned_away(410)(trace);
        build::without(trace, 0);
    };
    check("loss.none", "", lost_before, Status::Fail);
}

#[test]
fn one_attempt_of_twelve_exhausts_nothing() {
    let once = |trace: &mut Trace| {
        trace.answers[2].status = 500;
        bury(trace, 2, "exhausted");
    };
    check("retry.attempts", "", once, Status::Fail);
    check("retry.attempts", "retry = { attempts = 1 }", once, Status::Pass);
}

#[test]
fn a_refusal_fails_unless_a_queue_may_be_full() {
    let refused = |trace: &mut Trace| {
        let (t, token, why) = (SECOND, 2, String::new());
        trace.accepted.pop();
        let (status, retry_after) = (Some(503), Some("1".to_owned()));
        trace.refused.push(Refused { t, token, status, retry_after, unknown: false, cut_off: false, why });
    };
    check("queue.visible", "", refused, Status::Fail);
    check("queue.visible", "queue = { rows = 1, when_full = \"refuse\" }", refused, Status::Pass);
    check("queue.visible", "queue = { rows = 1000 }", refused, Status::Fail);
}

/// A cut delivery is dead for that reason; with `again`, another one was cut and came again.
fn cut_and_given_up(reason: &'static str, again: bool) -> impl Fn(&mut Trace) {
    move |trace| {
        let cut = |n: u64| Cut {
            t: (n + 1) * SECOND,
            endpoint: "a".into(),
            n: Some(n),
            how: CutKind::Close,
            began: None,
            token: None,
            why: None,
        };
        bury(trace, 0, reason);
        trace.answers.remove(0);
        trace.cuts.push(cut(0));
        if again {
            trace.answers.remove(0);
            trace.cuts.push(cut(1));
            build::deliver(trace, "a", 1, 4 * SECOND, 204);
        }
        build::end(trace, 60 * SECOND);
    }
}

#[test]
fn a_cut_delivery_is_retried_while_attempts_are_left() {
    let closes = |retry: &str| {
        format!("retry = {{ {retry} }}\n[[subscriber.behaviour]]\nlasts = \"3s\"\nanswer = \"close\"")
    };
    let rows = [
        ("ttl = \"10min\"", "rejected", false, Status::Fail),
        // The sender retries cut requests, and had its own reason here.
        ("ttl = \"10min\"", "rejected", true, Status::Pass),
        ("ttl = \"10min\"", "overflow", false, Status::Pass),
        ("ttl = \"10min\", attempts = 1", "exhausted", false, Status::Pass),
        ("ttl = \"10s\"", "expired", false, Status::Pass),
        ("ttl = \"10min\", base = \"50s\"", "rejected", false, Status::Pass),
    ];
    for (retry, reason, again, expected) in rows {
        check("network.stale", &closes(retry), cut_and_given_up(reason, again), expected);
    }
}

#[test]
fn a_sender_may_rest_by_a_breaker_or_a_window_before_it_retries() {
    for (failures, later, windows, expected) in [
        (4, None, "[]", Status::Fail),
        (5, None, "[]", Status::Inconclusive),
        // The lane was served: no breaker was open.
        (5, Some(30), "[]", Status::Fail),
        (4, None, "[\"4 per 10min\"]", Status::Inconclusive),
    ] {
        let scenario = build::scenario(&format!("rate = \"100/s\", burst = 50, windows = {windows}"));
        let times: Vec<u64> = (1..=failures).chain(later).map(|at| at * SECOND).collect();
        let mut trace = build::trace(&scenario, &times);
        trace.answers.iter_mut().for_each(|answer| answer.status = 500);
        build::end(&mut trace, 60 * SECOND);
        build::verdict("retry.status", &scenario, &trace, expected);
    }
}
