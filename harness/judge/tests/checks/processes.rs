use hookproof_judge::check::Status;
use hookproof_judge::scenario::FaultKind;
use hookproof_judge::trace::{Fault, Process, ProcessEvent, Trace};

use crate::build::{self, check};

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

fn at(t: u64, worker: u32, event: ProcessEvent, status: Option<&str>) -> Process {
    Process { t, worker, event, status: status.map(str::to_owned) }
}

/// Events of a process: second, kind and status.
type Life = &'static [(u64, ProcessEvent, Option<&'static str>)];

fn lives(events: Life) -> impl Fn(&mut Trace) {
    move |trace| {
        trace.processes.push(at(0, 0, ProcessEvent::Started, None));
        let events = events.iter().map(|(t, event, status)| at(t * SECOND, 0, *event, *status));
        trace.processes.extend(events);
        build::end(trace, 60 * SECOND);
    }
}

#[test]
fn a_process_ends_when_it_is_asked_to_and_with_0() {
    use ProcessEvent::{Asked, Exited, Killed};
    let rows: [(Life, Status); 6] = [
        (&[(4, Asked, None), (5, Exited, Some("exit 0"))], Status::Pass),
        (&[(4, Asked, None), (5, Exited, Some("exit 101"))], Status::Fail),
        (&[(4, Asked, None), (34, Killed, None), (35, Exited, Some("signal 9"))], Status::Fail),
        (&[(4, Exited, Some("exit 0"))], Status::Fail),
        (&[(4, Killed, None), (5, Exited, Some("signal 9"))], Status::NotApplicable),
        (&[], Status::NotApplicable),
    ];
    for (events, expected) in rows {
        check("process.exits", "", lives(events), expected);
    }
}

#[test]
fn a_process_that_can_write_nothing_down_is_not_to_end_in_order() {
    use ProcessEvent::{Asked, Exited, Killed};
    let killed: Life = &[(4, Asked, None), (34, Killed, None), (35, Exited, Some("signal 9"))];
    let failed: Life = &[(4, Asked, None), (5, Exited, Some("exit 1"))];
    // The database is away until then.
    for (events, until, expected) in [
        (killed, 60, Status::NotApplicable),
        (killed, 10, Status::NotApplicable),
        (killed, 4, Status::Fail),
        (failed, 60, Status::NotApplicable),
        (failed, 4, Status::Fail),
    ] {
        let bereft = |trace: &mut Trace| {
            lives(events)(trace);
            let (kind, until) = (FaultKind::DatabaseRestart, Some(until * SECOND));
            trace.faults.push(Fault { t: 3 * SECOND, kind, until, detail: None, delay: None, plan: None });
        };
        check("process.exits", "", bereft, expected);
    }
}

#[test]
fn a_delayed_store_excuses_a_failed_exit_for_a_bounded_time() {
    use ProcessEvent::{Asked, Exited};
    let failed: Life = &[(4, Asked, None), (5, Exited, Some("exit 1"))];
    // Asked at 4 s; 32 delays later every outcome can be recorded.
    for (delay_ms, until, expected) in
        [(100, 20_000, Status::NotApplicable), (1, 20_000, Status::Fail), (100, 4_500, Status::Fail)]
    {
        let behind = |trace: &mut Trace| {
            lives(failed)(trace);
            let (t, until, detail) = (3 * SECOND, Some(until * MS), Some("worker 0".to_owned()));
            let (kind, delay) = (FaultKind::Partition, Some(delay_ms * MS));
            trace.faults.push(Fault { t, kind, until, detail, delay, plan: None });
        };
        check("process.exits", "[sender]\nworkers = 2", behind, expected);
    }
}

#[test]
fn a_partition_of_another_process_or_after_the_exit_excuses_no_failed_exit() {
    use ProcessEvent::{Asked, Exited};
    let failed: Life = &[(4, Asked, None), (5, Exited, Some("exit 1"))];
    for (whom, from, expected) in [
        ("worker 0", 3, Status::NotApplicable),
        ("worker 0, owner of a", 3, Status::NotApplicable),
        ("worker 1", 3, Status::Fail),
        ("worker 0", 6, Status::Fail),
    ] {
        let cut_off = |trace: &mut Trace| {
            lives(failed)(trace);
            let (t, until, detail) = (from * SECOND, Some(20 * SECOND), Some(whom.to_owned()));
            trace.faults.push(Fault {
                t,
                kind: FaultKind::Partition,
                until,
                detail,
                delay: None,
                plan: None,
            });
        };
        check("process.exits", "[sender]\nworkers = 2", cut_off, expected);
    }
}

/// Worker 1 of two is killed at 2.5 s. With `kept`, the first connection carries later requests too.
fn kill_of_one(kept: bool) -> impl Fn(&mut Trace) {
    move |trace| {
        for worker in 0..2 {
            trace.processes.push(at(0, worker, ProcessEvent::Started, None));
            trace.processes.push(at(0, worker, ProcessEvent::Ready, None));
        }
        trace.processes.push(at(5 * SECOND / 2, 1, ProcessEvent::Killed, None));
        trace.processes.push(at(5 * SECOND / 2, 1, ProcessEvent::Exited, Some("signal 9")));
        for (place, connection) in (0..).zip([7, 7, if kept { 7 } else { 8 }]) {
            let place: usize = place;
            trace.arrivals[place].connection = connection;
        }
        for token in 3..6 {
            build::offer(trace, token, 2 * SECOND, &["a"]);
            build::deliver(trace, "a", token, (token + 1) * SECOND, 204);
            trace.arrivals.last_mut().expect("delivered").connection = if kept { 7 } else { 8 };
        }
        build::end(trace, 80 * SECOND);
    }
}

#[test]
fn a_kill_that_took_nothing_proves_nothing() {
    let plan = "[sender]\nworkers = 2\ntakeover_within = \"5s\"\n[[fault]]\nat = \"2500ms\"\ndo = \"kill\"\nworker = 1";
    for id in ["crash.takeover", "rate.across-workers"] {
        check(id, plan, kill_of_one(true), Status::Inconclusive);
        check(id, plan, kill_of_one(false), Status::Pass);
    }
}
