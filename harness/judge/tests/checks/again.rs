//! A taken delivery may come again only if the sender could not know that it was taken.

use hookproof_judge::check::Status;
use hookproof_judge::scenario::FaultKind;
use hookproof_judge::trace::{Fault, Handshake, Process, ProcessEvent, Trace};

use crate::build::{self, check};

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

fn all_again(later: u64) -> impl Fn(&mut Trace) {
    move |trace| {
        for token in 0..3 {
            build::deliver(trace, "a", token, (token + 1) * SECOND + later, 204);
        }
        build::end(trace, 30 * SECOND);
    }
}

/// The last delivery was taken at 3 s, and came again at 4 s; its process was killed at 3 s + `after`.
fn killed(after: u64) -> impl Fn(&mut Trace) {
    move |trace| {
        build::deliver(trace, "a", 2, 4 * SECOND, 204);
        trace.processes.push(Process {
            t: 3 * SECOND + after,
            worker: 0,
            event: ProcessEvent::Killed,
            status: None,
        });
        build::end(trace, 5 * SECOND);
    }
}

#[test]
fn a_run_that_stays_long_enough_sees_everything_come_again() {
    for id in ["duplicate.bounded", "retry.status"] {
        check(id, "", all_again(8 * SECOND), Status::Fail);
    }
}

#[test]
fn a_kill_excuses_what_was_open_and_what_the_sender_had_not_promised_to_have_noted() {
    check("duplicate.bounded", "", killed(MS), Status::Pass);
    check("duplicate.bounded", "", killed(700 * MS), Status::Fail);
    let slow = "[sender]\nconfirm_within = \"800ms\"";
    check("duplicate.bounded", slow, killed(700 * MS), Status::Pass);
}

#[test]
fn an_arrival_before_the_restart_of_a_killed_process_was_sent_before_the_kill() {
    // Time from the first attempt back to the kill, and from the kill to the restart.
    for (came, back, workers, expected) in [
        (10 * MS, 200 * MS, 1, Status::Pass),
        (10 * MS, 5 * MS, 1, Status::Fail),
        (200 * MS, SECOND, 1, Status::Pass),
        (400 * MS, SECOND, 1, Status::Fail),
        // Another process may have sent it.
        (10 * MS, SECOND, 2, Status::Pass),
        (100 * MS, SECOND, 2, Status::Fail),
    ] {
        let kill = 3 * SECOND - came;
        let started = move |trace: &mut Trace| {
            killed(0)(trace);
            trace.processes.last_mut().unwrap().t = kill;
            let event = ProcessEvent::Started;
            trace.processes.push(Process { t: kill + back, worker: 0, event, status: None });
        };
        for id in ["duplicate.bounded", "retry.status"] {
            check(id, &format!("[sender]\nworkers = {workers}"), started, expected);
        }
    }
}

#[test]
fn a_request_that_waited_for_the_tls_handshake_was_sent_before() {
    // Time from TLS to the first attempt, TLS's own time, and the first request on the connection.
    for (agreed, took, first, expected) in [
        (10 * MS, 800 * MS, 2, Status::Pass),
        (10 * MS, 100 * MS, 2, Status::Fail),
        (300 * MS, 800 * MS, 2, Status::Fail),
        (10 * MS, 800 * MS, 1, Status::Fail),
    ] {
        let over_tls = move |trace: &mut Trace| {
            build::deliver(trace, "a", 2, 4 * SECOND, 204);
            build::end(trace, 5 * SECOND);
            trace.arrivals[2].connection = 9;
            let until = 3 * SECOND - agreed;
            let handshake = Handshake { t: until - took, until, connection: 9, first: Some(first) };
            trace.reached.handshakes.push(handshake);
        };
        for id in ["duplicate.bounded", "retry.status"] {
            check(id, "timeout = \"1s\"", over_tls, expected);
        }
    }
}

#[test]
fn a_command_kills_at_some_moment_until_its_sender_is_gone() {
    // The kill command came at 2.5 s, before the delivery was taken; the process ended at 2.8 s or 3.2 s.
    let told = |by: Option<&str>, gone: u64| {
        let status = by.map(str::to_owned);
        move |trace: &mut Trace| {
            build::deliver(trace, "a", 2, 4 * SECOND, 204);
            let killed =
                Process { t: 2_500 * MS, worker: 0, event: ProcessEvent::Killed, status: status.clone() };
            let exited = Process { t: gone, event: ProcessEvent::Exited, status: None, ..killed.clone() };
            trace.processes.extend([killed, exited]);
            build::end(trace, 5 * SECOND);
        }
    };
    let rows = [
        (Some("by a command"), 3_200 * MS, Status::Pass),
        (Some("by a command"), 2_800 * MS, Status::Fail),
        (None, 3_200 * MS, Status::Fail),
    ];
    for (by, gone, expected) in rows {
        check("duplicate.bounded", "", told(by, gone), expected);
    }
}

#[test]
fn locks_that_follow_each_other_without_a_gap_excuse_as_one() {
    // Killed at 3.7 s: during the second lock if it followed without a gap, otherwise long after the first.
    for (second, expected) in [(3_300 * MS, Status::Pass), (9 * SECOND, Status::Fail)] {
        let locked = move |trace: &mut Trace| {
            killed(700 * MS)(trace);
            for (t, until) in [(2_900 * MS, 3_350 * MS), (second, second + 500 * MS)] {
                let (kind, until) = (FaultKind::LockDatabase, Some(until));
                trace.faults.push(Fault { t, kind, until, detail: None, delay: None, plan: None });
            }
        };
        check("duplicate.bounded", "", locked, expected);
    }
}
