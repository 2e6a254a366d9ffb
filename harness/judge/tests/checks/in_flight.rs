use hookproof_judge::check::{CHECKS, Evidence, Found, Status};
use hookproof_judge::scenario::{FaultKind, Scenario};
use hookproof_judge::trace::{Cut, CutKind, Fault, Process, ProcessEvent, Trace};

use crate::build;

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

const LOWERED: &str = "[[fault]]\nat = \"5s\"\ndo = \"limit\"\nwithin = \"1s\"\nlimit = { rate = \"10/s\", burst = 50, in_flight = 4 }";

fn open_at(t: u64, count: u64) -> impl Fn(&mut Trace) {
    move |trace| {
        trace.faults.push(Fault {
            t: 5 * SECOND,
            kind: FaultKind::Limit,
            until: None,
            detail: None,
            delay: None,
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

/// An endpoint reads and answers four requests after a stall of 20 s. With a cap of two they were open together,
/// unless a stopped process left two of them behind.
#[test]
fn requests_of_a_stopped_process_past_their_deadline_do_not_count_against_the_new_owner() {
    let text = build::scenario("rate = \"100/s\", burst = 50, in_flight = 2").text;
    let stall =
        "timeout = \"3s\"\n[[subscriber.behaviour]]\nat = \"5s\"\nlasts = \"20s\"\nanswer = \"stall\"\n";
    let scenario = build::named(&format!("{text}{stall}"));
    // Sent at 5 s at the earliest, so the first deadline is at 8 s.
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

enum End {
    Cut,
    Answered,
    /// They are answered, and their connections carry two more.
    AnsweredAndUsed,
}

/// Two requests begin at `begin`, and end unanswered at `ended`; two more last from 15 s to 16 s. The cap is two, and
/// a process is stopped during `stop`.
#[track_caller]
fn left_open(workers: u32, begin: u64, stop: (u64, u64), ended: u64, expected: Status) {
    left_open_until(workers, begin, stop, (ended, End::Cut), expected);
}

#[track_caller]
fn left_open_until(
    workers: u32,
    begin: u64,
    (stopped, until): (u64, u64),
    (ended, end): (u64, End),
    expected: Status,
) {
    let text = build::scenario("rate = \"100/s\", burst = 50, in_flight = 2").text;
    let sender = format!("[sender]\nworkers = {workers}\ntakeover_within = \"5s\"\n");
    let scenario = build::named(&format!("{text}timeout = \"30s\"\n{sender}"));
    let more = if matches!(end, End::AnsweredAndUsed) { 2 } else { 0 };
    let offered: Vec<u64> = (1..=4 + more).map(|at| at * SECOND).collect();
    let mut trace = build::trace(&scenario, &offered);
    for token in 0..2 {
        build::deliver(&mut trace, "a", token, begin * SECOND + token, 500);
        let arrival = trace.arrivals.last_mut().expect("arrived");
        arrival.connection = token;
        let (t, n) = (ended * SECOND, Some(arrival.n));
        if matches!(end, End::Cut) {
            trace.answers.pop();
            let how = CutKind::PeerGone;
            trace.cuts.push(Cut { t, endpoint: "a".into(), n, how, began: None, token: None, why: None });
        } else {
            let answer = trace.answers.last_mut().expect("answered");
            (answer.t, answer.end) = (t, t);
        }
    }
    for token in 2..4 + more {
        let begins = if token < 4 { 15 } else { ended + 1 };
        build::deliver(&mut trace, "a", token, begins * SECOND + token, 500);
        trace.arrivals.last_mut().expect("arrived").connection = if token < 4 { token } else { token - 4 };
        let answer = trace.answers.last_mut().expect("answered");
        (answer.t, answer.end) = ((begins + 1) * SECOND, (begins + 1) * SECOND);
    }
    for (t, event) in [(stopped, ProcessEvent::Stopped), (until, ProcessEvent::Continued)] {
        trace.processes.push(Process { t: t * SECOND, worker: 0, event, status: None });
    }
    build::end(&mut trace, 40 * SECOND);
    build::verdict("rate.in-flight", &scenario, &trace, expected);
}

#[test]
fn requests_of_a_process_stopped_past_its_lease_do_not_count_against_the_new_owner() {
    left_open(2, 6, (7, 29), 29, Status::Pass);
    left_open(2, 6, (7, 16), 16, Status::Pass);
    left_open(2, 11, (12, 17), 17, Status::Pass);
    // Perhaps within the lease.
    left_open(2, 11, (12, 16), 16, Status::Fail);
    // No other process could take over.
    left_open(1, 6, (7, 29), 29, Status::Fail);
    // A running process ended them.
    left_open(2, 6, (7, 29), 20, Status::Fail);
    // The process continued, and closed nothing.
    left_open(2, 6, (7, 14), 30, Status::Fail);
    // They began after the stop, or were open with the others before it.
    left_open(2, 8, (7, 29), 29, Status::Fail);
    left_open(2, 6, (16, 29), 29, Status::Fail);
    // A stopped process's requests may be answered, but its connections carry no new ones.
    left_open_until(2, 6, (7, 29), (20, End::Answered), Status::Pass);
    left_open_until(2, 6, (7, 29), (20, End::AnsweredAndUsed), Status::Fail);
}

/// One request a millisecond, each on its own connection and answered at once.
fn in_order(count: u64) -> (Scenario, Trace) {
    let text = build::scenario("rate = \"100/s\", burst = 50, in_flight = 2").text;
    let scenario = build::named(&format!("{text}[sender]\nworkers = 2\ntakeover_within = \"5s\"\n"));
    let trace = build::trace(&scenario, &(0..count).map(|at| at * MS).collect::<Vec<_>>());
    (scenario, trace)
}

/// Other checks need not be as fast.
#[track_caller]
fn holds(scenario: &Scenario, trace: &Trace) {
    let find = CHECKS.iter().find(|check| check.id == "rate.in-flight").expect("there is one").find;
    assert_eq!(find(&Evidence::new(scenario, trace)).found, Found::Held);
}

/// Must not need memory in proportion to stops × connections.
#[test]
fn as_many_processes_may_be_stopped_for_good_as_requests_come() {
    let (scenario, mut trace) = in_order(20_000);
    for worker in 0..20_000 {
        let t = u64::from(worker) * MS;
        trace.processes.push(Process { t, worker, event: ProcessEvent::Stopped, status: None });
    }
    holds(&scenario, &trace);
}

/// Must not take time in proportion to requests × processes.
#[test]
fn as_many_processes_may_be_killed_as_requests_come() {
    let (scenario, mut trace) = in_order(100_000);
    for at in 0..100_000 {
        for (t, event) in [(at * MS, ProcessEvent::Killed), (at * MS + 1, ProcessEvent::Started)] {
            trace.processes.push(Process { t, worker: 0, event, status: None });
        }
    }
    holds(&scenario, &trace);
}

/// Two requests are open when a process stops for longer than its lease, and two more come then. Requests on the
/// first connections count as before the stop at its first moment, and as during it at its last.
#[test]
fn a_connection_is_used_while_a_process_stands_still_from_after_its_stop_to_its_end() {
    for (used, expected) in [(7, Status::Pass), (8, Status::Fail), (29, Status::Fail), (30, Status::Pass)] {
        let text = build::scenario("rate = \"100/s\", burst = 50, in_flight = 3").text;
        let sender = "[sender]\nworkers = 2\ntakeover_within = \"5s\"\n";
        let scenario = build::named(&format!("{text}timeout = \"60s\"\n{sender}"));
        let offered: Vec<u64> = (1..=6).map(|at| at * SECOND).collect();
        let mut trace = build::trace(&scenario, &offered);
        let mut exchange = |token: u64, from: u64, until: u64, connection: u64| {
            build::deliver(&mut trace, "a", token, from, 500);
            trace.arrivals.last_mut().expect("arrived").connection = connection;
            let answer = trace.answers.last_mut().expect("answered");
            (answer.t, answer.end) = (until, until);
        };
        (0..2).for_each(|one| exchange(one, 6 * SECOND + one, 29 * SECOND, 100 + one));
        (2..4).for_each(|one| exchange(one, 15 * SECOND + one, 16 * SECOND, 100 + one));
        (4..6).for_each(|one| exchange(one, used * SECOND, used * SECOND, 96 + one));
        for (t, event) in [(7, ProcessEvent::Stopped), (29, ProcessEvent::Continued)] {
            trace.processes.push(Process { t: t * SECOND, worker: 0, event, status: None });
        }
        build::end(&mut trace, 40 * SECOND);
        build::verdict("rate.in-flight", &scenario, &trace, expected);
    }
}
