//! Unobserved behaviour passes no check, and blames no correct sender.

use hookproof_judge::check::Status;
use hookproof_judge::scenario::{FaultKind, Scenario};
use hookproof_judge::trace::{
    Cut, CutKind, ENDPOINTS, Ended, Fault, Lack, Offset, Process, ProcessEvent, Stall, Trace,
};

use crate::build::{self, check, named, scenario_with, verdict};
use crate::excuses::{empty, exchange, fault, process};

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

#[test]
fn a_kill_excuses_a_second_arrival_and_no_third() {
    // Taken at 3 s, just before its process was killed; came again at 4 s, and with `third` at 20 s.
    let again = |third: bool| {
        move |trace: &mut Trace| {
            build::deliver(trace, "a", 2, 4 * SECOND, 204);
            if third {
                build::deliver(trace, "a", 2, 20 * SECOND, 204);
            }
            trace.processes.push(process(3 * SECOND + MS, ProcessEvent::Killed));
            build::end(trace, 30 * SECOND);
        }
    };
    for id in ["duplicate.bounded", "retry.status"] {
        check(id, "", again(false), Status::Pass);
        check(id, "", again(true), Status::Fail);
    }
}

#[test]
fn of_a_short_deadline_only_its_last_quarter_is_near() {
    let again = |trace: &mut Trace| {
        build::deliver(trace, "a", 2, 4 * SECOND, 204);
        build::end(trace, 30 * SECOND);
    };
    for timeout in ["200ms", "250ms", "2s"] {
        check("duplicate.bounded", &format!("timeout = {timeout:?}"), again, Status::Fail);
    }
}

const CHANGED: &str = "[[fault]]\nat = \"1500ms\"\ndo = \"limit\"\nsubscriber = \"a\"\nlimit = { rate = \"1/s\", burst = 1 }\nwithin = \"0s\"\n";

#[test]
fn requests_after_a_change_that_the_sender_did_not_confirm_are_held_to_no_contract_and_pass_none() {
    let confirmed = |trace: &mut Trace| {
        trace
            .faults
            .push(Fault { detail: Some("a".to_owned()), ..fault(1_600 * MS, FaultKind::Limit, None) });
    };
    check("rate.envelope", CHANGED, confirmed, Status::Pass);
    check("rate.envelope", CHANGED, |_| {}, Status::Inconclusive);
    // Too many before the change are too many in any case.
    let flood = |t: u64| {
        move |trace: &mut Trace| {
            (0..9).for_each(|_| build::deliver(trace, "a", 0, t, 204));
            build::end(trace, 30 * SECOND);
        }
    };
    check("rate.envelope", CHANGED, flood(SECOND), Status::Fail);
    // Neither contract allows this flood.
    check("rate.envelope", CHANGED, flood(9 * SECOND), Status::Fail);
    let conforming = |trace: &mut Trace| {
        (0..5).for_each(|_| build::deliver(trace, "a", 0, 9 * SECOND, 204));
        build::end(trace, 30 * SECOND);
    };
    check("rate.envelope", CHANGED, conforming, Status::Inconclusive);
    let fixed = |trace: &mut Trace| {
        trace.declared.lacks = vec![Lack::Change];
        flood(9 * SECOND)(trace);
    };
    check("rate.envelope", CHANGED, fixed, Status::Fail);
    check("rate.envelope", CHANGED, |trace| trace.declared.lacks = vec![Lack::Change], Status::Pass);
}

#[test]
fn the_sum_of_the_lanes_counts_if_the_reported_total_is_smaller() {
    let scenario = scenario_with("[[subscriber]]\nname = \"b\"");
    for (whole, lane, expected) in [
        (Some(0), 2, Status::Fail),
        (None, 2, Status::Fail),
        (Some(0), 0, Status::Pass),
        (Some(2), 0, Status::Fail),
    ] {
        let mut trace = build::trace(&scenario, &[SECOND, 2 * SECOND]);
        build::end(&mut trace, 30 * SECOND);
        trace.depths.extend(whole.map(|waiting| build::depth(20 * SECOND, None, waiting)));
        trace.depths.push(build::depth(20 * SECOND, Some("a"), lane));
        verdict("recovery.drains", &scenario, &trace, expected);
        // A report from before the last request is out of date.
        trace.depths.push(build::depth(21 * SECOND, None, 0));
        verdict("recovery.drains", &scenario, &trace, Status::Pass);
    }
}

#[test]
fn a_short_stall_does_not_excuse_what_waits_at_the_end() {
    let waits = |length: u64| {
        move |trace: &mut Trace| {
            trace.depths.push(build::depth(20 * SECOND, None, 5));
            let (thread, from) = (ENDPOINTS.to_owned(), 5 * SECOND);
            trace.stalls.push(Stall { thread, from, until: from + length });
            build::end(trace, 21 * SECOND);
        }
    };
    // A minute is the default time to drain.
    check("recovery.drains", "", waits(150 * MS), Status::Fail);
    check("recovery.drains", "", waits(10 * SECOND), Status::Inconclusive);
}

/// The endpoint asks for a date, and the retry comes `early_ms` before it.
fn before_a_date(early_ms: u64, change: impl Fn(&mut Trace), expected: Status) {
    let dated = "[[subscriber.behaviour]]\nlasts = \"2s\"\nanswer = 503\nretry_after_date = \"4s\"";
    let scenario = scenario_with(dated);
    let mut trace = empty(&scenario);
    build::offer(&mut trace, 0, 0, &["a"]);
    exchange(&mut trace, (0, SECOND), SECOND, 503, Some("Thu, 01 Jan 1970 00:00:05 GMT"));
    let t = 5 * SECOND - early_ms * MS;
    exchange(&mut trace, (0, t), t, 204, None);
    build::end(&mut trace, 30 * SECOND);
    change(&mut trace);
    verdict("retry.after-date", &scenario, &trace, expected);
}

#[test]
fn a_clock_of_another_machine_may_be_ahead_by_what_nobody_could_measure() {
    let remote = |trace: &mut Trace| trace.declared.lacks = vec![Lack::Start];
    let measured = |ns: i64| {
        move |trace: &mut Trace| {
            remote(trace);
            trace.offset = Some(Offset { t: 0, ns, error: 10_000_000 });
        }
    };
    before_a_date(17, |_| {}, Status::Fail);
    before_a_date(17, measured(8_000_000), Status::Pass);
    before_a_date(19, measured(8_000_000), Status::Fail);
    before_a_date(300, remote, Status::Pass);
    before_a_date(1_100, remote, Status::Fail);
}

#[test]
fn a_request_that_lay_unread_during_a_pause_was_sent_before() {
    let stalls = "[[subscriber.behaviour]]\nat = \"2s\"\nlasts = \"3s\"\nanswer = \"stall\"";
    for (id, status, told, answer) in [
        ("retry.after-endpoint", 429, Some("20"), "answer = 429\nretry_after = \"20s\""),
        ("retry.gone", 410, None, "answer = 410"),
    ] {
        let scenario = |stalls: &str| {
            scenario_with(&format!("[[subscriber.behaviour]]\nlasts = \"2s\"\n{answer}\n{stalls}"))
        };
        for (stalls, expected) in [(stalls, Status::Pass), ("", Status::Warn)] {
            let scenario = scenario(stalls);
            let mut trace = empty(&scenario);
            (0..2).for_each(|token| build::offer(&mut trace, token, 0, &["a"]));
            exchange(&mut trace, (0, 1_990 * MS), 2_010 * MS, status, told);
            exchange(&mut trace, (1, 5 * SECOND), 5 * SECOND, 204, None);
            build::end(&mut trace, 30 * SECOND);
            verdict(id, &scenario, &trace, expected);
        }
    }
}

/// Tried once, cut by the endpoint and dead; redriven by an operator as attempt 1.
fn cut_and_redriven(redriven: bool) -> (Scenario, Trace) {
    let redrive = "[[fault]]\nat = \"5s\"\ndo = \"redrive\"";
    let scenario = scenario_with(&format!(
        "retry = {{ attempts = 1 }}\n[[subscriber.behaviour]]\nanswer = \"close\"\n{redrive}"
    ));
    let mut trace = empty(&scenario);
    build::offer(&mut trace, 0, 0, &["a"]);
    for t in [SECOND, 6 * SECOND] {
        exchange(&mut trace, (0, t), t, 204, None);
        trace.arrivals.last_mut().expect("arrived").attempt = Some("1".into());
        let answer = trace.answers.pop().expect("answered");
        let (endpoint, n) = ("a".into(), Some(answer.n));
        trace.cuts.push(Cut { t, endpoint, n, how: CutKind::Close, began: None, token: None, why: None });
    }
    if redriven {
        trace.faults.push(fault(5 * SECOND, FaultKind::Redrive, None));
    }
    build::end(&mut trace, 30 * SECOND);
    (scenario, trace)
}

#[test]
fn a_dead_letter_that_is_sent_again_counts_its_attempts_anew() {
    for (redriven, expected) in [(true, Status::Inconclusive), (false, Status::Fail)] {
        let (scenario, trace) = cut_and_redriven(redriven);
        verdict("retry.hidden", &scenario, &trace, expected);
    }
}

#[test]
fn a_shed_and_redriven_delivery_has_lost_its_place() {
    let text = scenario_with("ordered = true\n[[fault]]\nat = \"5s\"\ndo = \"redrive\"").text;
    for (redriven, expected) in [(true, Status::Pass), (false, Status::Warn)] {
        let scenario = named(&text);
        let mut trace = empty(&scenario);
        (0..2).for_each(|token| build::offer(&mut trace, token, token * SECOND, &["a"]));
        build::deliver(&mut trace, "a", 1, 2 * SECOND, 204);
        build::deliver(&mut trace, "a", 0, 6 * SECOND, 204);
        if redriven {
            trace.faults.push(fault(5 * SECOND, FaultKind::Redrive, None));
        }
        build::end(&mut trace, 30 * SECOND);
        verdict("order.per-key", &scenario, &trace, expected);
    }
}

#[test]
fn a_run_that_was_broken_off_lost_nothing_by_a_kill() {
    let scenario = named(&scenario_with("[[fault]]\nat = \"3s\"\ndo = \"kill\"").text);
    for (ended, expected) in [(Ended::Interrupted, Status::Inconclusive), (Ended::Done, Status::Fail)] {
        let mut trace = empty(&scenario);
        (0..9).for_each(|token| build::offer(&mut trace, token, SECOND, &["a"]));
        build::deliver(&mut trace, "a", 0, 2 * SECOND, 204);
        trace.depths.push(build::depth(2 * SECOND, None, 3));
        let killed = Process { t: 3 * SECOND, worker: 0, event: ProcessEvent::Killed, status: None };
        trace.processes.push(killed);
        trace.faults.push(fault(3 * SECOND, FaultKind::Kill, None));
        build::end(&mut trace, 4 * SECOND);
        trace.trailer.as_mut().expect("there is one").ended = ended;
        verdict("crash.ack-then-kill", &scenario, &trace, expected);
    }
}

#[test]
fn a_queue_that_nothing_bounds_and_that_cannot_be_added_up_is_not_judged() {
    let sampled = |trace: &mut Trace| trace.depths.push(build::depth(2 * SECOND, None, 3));
    check("queue.bounded", "", sampled, Status::NotApplicable);
    check("queue.bounded", "queue = { rows = 5 }", sampled, Status::Pass);
}
