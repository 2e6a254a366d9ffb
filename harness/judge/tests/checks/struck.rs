//! A fault excuses only the process, the delivery, the subscriber and the time that it struck.

use hookproof_judge::check::Status;
use hookproof_judge::scenario::{FaultKind, Scenario};
use hookproof_judge::trace::{Cut, CutKind, Fault, Process, ProcessEvent, Public, Trace};

use crate::build::{self, check};
use crate::excuses::fault;

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// Worker 0 ends by this event, and is gone a millisecond later.
fn struck(trace: &mut Trace, t: u64, event: ProcessEvent) {
    let struck = Process { t, worker: 0, event, status: None };
    let gone = Process { t: t + MS, event: ProcessEvent::Exited, ..struck.clone() };
    trace.processes.extend([struck, gone]);
}

fn behind_a_proxy(trace: &mut Trace) {
    let path = "/hooks/{endpoint}".to_owned();
    trace.reached.public = Some(Public { url: format!("https://h.example{path}"), path });
}

/// Two requests are open from 9 s on and answered in full at 14 s; worker 0 is killed at 10 s, and two more begin at
/// once. The cap is two.
#[track_caller]
fn two_more(workers: u32, change: impl Fn(&mut Trace), expected: Status) {
    let text = build::scenario("rate = \"100/s\", burst = 50, in_flight = 2").text;
    let sender = format!("timeout = \"20s\"\n[sender]\nworkers = {workers}\ntakeover_within = \"5s\"\n");
    let scenario = build::named(&format!("{text}{sender}"));
    let mut trace = build::trace(&scenario, &[SECOND, 2 * SECOND, 3 * SECOND, 4 * SECOND]);
    for (token, t) in [(0, 9_000), (1, 9_001), (2, 10_100), (3, 10_101)] {
        build::deliver(&mut trace, "a", token, t * MS, 500);
        let answer = trace.answers.last_mut().expect("answered");
        (answer.t, answer.end) = (answer.t + 5 * SECOND, answer.end + 5 * SECOND);
    }
    struck(&mut trace, 10 * SECOND, ProcessEvent::Killed);
    change(&mut trace);
    build::end(&mut trace, 40 * SECOND);
    build::verdict("rate.in-flight", &scenario, &trace, expected);
}

#[test]
fn a_kill_ends_no_request_of_another_process() {
    two_more(2, |_| {}, Status::Fail);
    two_more(1, |_| {}, Status::Pass);
    two_more(2, behind_a_proxy, Status::Pass);
    let dies_slowly = |trace: &mut Trace| trace.processes[1].t = 14 * SECOND;
    two_more(2, dies_slowly, Status::Pass);
    let by_command = |trace: &mut Trace| trace.processes[0].status = Some("a command".to_owned());
    two_more(2, by_command, Status::Pass);
    let broken_off = |trace: &mut Trace| {
        trace.answers.retain(|answer| ![4, 5].contains(&answer.n));
        let (endpoint, how) = ("a".into(), CutKind::PeerGone);
        let cut = Cut { t: 10_002 * MS, endpoint, n: None, how, began: None, token: None, why: None };
        trace.cuts.extend([4, 5].map(|n| Cut { n: Some(n), ..cut.clone() }));
    };
    two_more(2, broken_off, Status::Pass);
}

/// Event 2 is taken at 3 s and comes again at 6 s; worker 0 is struck 1 ms after the first. The connection of that
/// carries another request at `used`.
#[track_caller]
fn taken_again(used: u64, event: ProcessEvent, change: impl Fn(&mut Trace), expected: Status) {
    let again = |trace: &mut Trace| {
        build::offer(trace, 3, 0, &["a"]);
        for (token, t, connection) in [(3, used, 2), (2, 6 * SECOND, 9)] {
            build::deliver(trace, "a", token, t, 204);
            trace.arrivals.last_mut().expect("arrived").connection = connection;
        }
        struck(trace, 3 * SECOND + MS, event);
        change(trace);
        build::end(trace, 30 * SECOND);
    };
    for id in ["duplicate.bounded", "retry.status"] {
        check(id, "[sender]\nworkers = 2", again, expected);
    }
}

#[test]
fn a_process_that_outlived_a_kill_forgot_nothing() {
    use ProcessEvent::{Killed, Stopped};
    taken_again(4 * SECOND, Killed, |_| {}, Status::Fail);
    taken_again(3_200 * MS, Killed, |_| {}, Status::Pass);
    taken_again(4 * SECOND, Stopped, |_| {}, Status::Pass);
    taken_again(4 * SECOND, Killed, behind_a_proxy, Status::Pass);
    let elsewhere = |trace: &mut Trace| trace.arrivals[3].connection = 8;
    taken_again(4 * SECOND, Killed, elsewhere, Status::Pass);
    let still_there = |trace: &mut Trace| trace.processes[1].t = 4 * SECOND;
    taken_again(4 * SECOND, Killed, still_there, Status::Pass);
}

#[test]
fn a_kill_long_after_a_final_answer_excuses_no_retry() {
    // Time from the answer at 3 s to the kill.
    for (status, after, expected) in [
        (400, 100 * MS, Status::Pass),
        (400, 17 * SECOND, Status::Fail),
        (204, 100 * MS, Status::Pass),
        (204, 17 * SECOND, Status::Fail),
    ] {
        let killed = |trace: &mut Trace| {
            trace.declared.final_statuses = vec![400];
            trace.answers[2].status = status;
            struck(trace, 3 * SECOND + after, ProcessEvent::Killed);
            build::deliver(trace, "a", 2, 22 * SECOND, 204);
            build::end(trace, 60 * SECOND);
        };
        check("retry.status", "", killed, expected);
    }
}

/// The first request begins at 1 s with a deadline of 1 s, and ends by its peer or its answer at `end`; the process is
/// killed at `killed`.
fn held_until(end: u64, killed: u64, whole: bool) -> impl Fn(&mut Trace) {
    move |trace| {
        let answer = &mut trace.answers[0];
        (answer.t, answer.end, answer.whole) = (if whole { end } else { SECOND + MS }, end, whole);
        struck(trace, killed, ProcessEvent::Killed);
        build::end(trace, 90 * SECOND);
    }
}

#[test]
fn a_fault_long_after_a_deadline_excuses_neither_a_held_request_nor_a_late_answer() {
    let drips = "timeout = \"1s\"\n[sender]\ntakeover_within = \"2s\"";
    check("network.timeout", drips, held_until(30 * SECOND, 30 * SECOND, false), Status::Fail);
    check("network.timeout", drips, held_until(4 * SECOND, 3 * SECOND + MS, false), Status::Fail);
    check("network.timeout", drips, held_until(4 * SECOND, 3 * SECOND - MS, false), Status::NotApplicable);
    check("network.deadline", drips, held_until(30 * SECOND, 29 * SECOND, true), Status::Fail);
    check("network.deadline", drips, held_until(3 * SECOND, 2 * SECOND, true), Status::NotApplicable);
}

const BESIDE: &str = "[[subscriber]]\nname = \"b\"\n";

fn operated(trace: &mut Trace, t: u64, kind: FaultKind, whom: &str) {
    trace.faults.push(Fault { detail: Some(whom.to_owned()), ..fault(t, kind, None) });
}

/// Each of `count` deliveries, 10 s apart, fails once and comes again after `gap`.
fn retried(scenario: &Scenario, count: u64, gap: impl Fn(u64) -> u64) -> Trace {
    let firsts: Vec<u64> = (0..count).map(|n| 10 * n * SECOND).collect();
    let mut trace = build::trace(scenario, &firsts);
    trace.answers.iter_mut().for_each(|answer| answer.status = 500);
    for (accepted, first) in trace.accepted.iter_mut().zip(&firsts) {
        accepted.t = *first;
    }
    for n in 0..count {
        build::deliver(&mut trace, "a", n, 10 * n * SECOND + gap(n), 204);
    }
    build::end(&mut trace, 10 * count * SECOND);
    trace
}

/// A policy with draws of up to 5 s.
fn draws(more: &str) -> Scenario {
    let text = build::scenario("rate = \"100/s\", burst = 50").text;
    let retry = "retry = { base = \"5s\", cap = \"60s\" }\n";
    let behaviour = "[[subscriber.behaviour]]\nanswer = 500\nattempts = \"1\"\n";
    let sender = "[sender]\ntakeover_within = \"1s\"\n";
    build::named(&format!("{text}{retry}{behaviour}{BESIDE}{sender}{more}"))
}

#[test]
fn an_operator_of_another_subscriber_hides_no_hot_retries() {
    let redrive = "[[fault]]\nat = \"190s\"\ndo = \"redrive\"\nsubscriber = ";
    let limit = "[[fault]]\nat = \"190s\"\ndo = \"limit\"\nlimit = { rate = \"50/s\" }\nsubscriber = ";
    for (plan, kind, whom, expected) in [
        (redrive, FaultKind::Redrive, "b", Status::Fail),
        (redrive, FaultKind::Redrive, "a", Status::Pass),
        (limit, FaultKind::Limit, "b", Status::Fail),
    ] {
        let scenario = draws(&format!("{plan}\"{whom}\"\n"));
        let mut trace = retried(&scenario, 20, |_| MS);
        (0..20).for_each(|n| operated(&mut trace, 10 * n * SECOND, kind, whom));
        build::verdict("retry.backoff-bounds", &scenario, &trace, expected);
    }
}

#[test]
fn a_jitter_without_a_gap_to_judge_was_not_seen() {
    let even = |n: u64| n * 5 * SECOND / 300;
    for (redriven, expected) in [(true, Status::Inconclusive), (false, Status::Pass)] {
        let scenario = draws("[[fault]]\nat = \"2990s\"\ndo = \"redrive\"\nsubscriber = \"a\"\n");
        let mut trace = retried(&scenario, 300, even);
        if redriven {
            operated(&mut trace, 2_999 * SECOND, FaultKind::Redrive, "a");
        }
        build::verdict("retry.backoff-jitter", &scenario, &trace, expected);
    }
}

/// Each retry comes 500 ms after its failure, where up to 5 s are drawn; a fault of `kind` comes 400 ms after each.
#[test]
fn a_fault_long_after_a_failure_was_recorded_shortens_no_wait() {
    for (kind, expected) in [
        (FaultKind::LockDatabase, Status::Fail),
        (FaultKind::ClockStep, Status::Pass),
        (FaultKind::Kill, Status::Pass),
    ] {
        let scenario = draws("");
        let mut trace = retried(&scenario, 20, |_| 500 * MS);
        for t in (0..20).map(|n| 10 * n * SECOND + 400 * MS) {
            if kind == FaultKind::Kill {
                struck(&mut trace, t, ProcessEvent::Killed);
            }
            trace.faults.push(fault(t, kind, Some(t + MS)));
        }
        build::verdict("retry.backoff-bounds", &scenario, &trace, expected);
    }
    // It may have kept the failure from being recorded.
    let scenario = draws("");
    let mut trace = retried(&scenario, 20, |_| 500 * MS);
    for t in (0..20).map(|n| 10 * n * SECOND) {
        trace.faults.push(fault(t, FaultKind::LockDatabase, Some(t + MS)));
    }
    build::verdict("retry.backoff-bounds", &scenario, &trace, Status::Pass);
}

#[test]
fn an_operator_of_another_subscriber_ends_no_request() {
    for (kind, whom, expected) in [
        (FaultKind::Limit, "b", Status::Fail),
        (FaultKind::Redrive, "b", Status::Fail),
        (FaultKind::Limit, "a", Status::NotApplicable),
    ] {
        let given_up = |trace: &mut Trace| {
            trace.answers.remove(0);
            let (t, endpoint, n) = (2 * SECOND, "a".into(), Some(0));
            let how = CutKind::PeerGone;
            trace.cuts.push(Cut { t, endpoint, n, how, began: None, token: None, why: None });
            build::deliver(trace, "a", 0, 2_500 * MS, 204);
            operated(trace, 2 * SECOND, kind, whom);
            build::end(trace, 60 * SECOND);
        };
        check("network.timeout", &format!("timeout = \"4s\"\n{BESIDE}"), given_up, expected);
    }
}

#[test]
fn a_redrive_of_another_subscriber_hides_nothing_from_the_senders_figures() {
    for (whom, expected) in [("a", Status::Pass), ("b", Status::Fail)] {
        let reported = |trace: &mut Trace| {
            trace.depths.extend([100, 200].map(|t| build::depth(t * MS, Some("a"), 0)));
            operated(trace, 50 * SECOND, FaultKind::Redrive, whom);
            build::end(trace, 60 * SECOND);
        };
        check("queue.truth", BESIDE, reported, expected);
    }
}

#[test]
fn a_redrive_excuses_no_old_delivery_that_was_offered_after_it() {
    // The delivery was accepted at 20 s, and came at 60 s.
    for (t, expected) in [(5, Status::Fail), (40, Status::Pass)] {
        let old = |trace: &mut Trace| {
            build::offer(trace, 3, 20 * SECOND, &["a"]);
            build::deliver(trace, "a", 3, 60 * SECOND, 204);
            operated(trace, t * SECOND, FaultKind::Redrive, "a");
            build::end(trace, 90 * SECOND);
        };
        check("queue.expires", "retry = { ttl = \"10s\" }", old, expected);
    }
}
