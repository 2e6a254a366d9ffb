use hookproof_judge::check::Status;
use hookproof_judge::scenario::FaultKind;
use hookproof_judge::trace::{Depth, Fault, Process, ProcessEvent, Trace};

use crate::build::{self, check};
use crate::excuses;

const SECOND: u64 = 1_000_000_000;

/// Events were accepted at 0 and delivered at 1, 2 and 3 s; the sender reports at `t`.
fn reporting(t: u64, change: fn(&mut Depth)) -> impl Fn(&mut Trace) {
    move |trace| {
        trace.processes.push(Process { t: 0, worker: 0, event: ProcessEvent::Started, status: None });
        // Samples do not overlap.
        for (at, waiting, delivered) in [(0, 3, 0), (1, 2, 1), (2, 1, 2), (3, 0, 3)] {
            let at = at * SECOND + SECOND / 2;
            let mut depth = Depth { delivered: Some(delivered), ..build::depth(at, None, waiting) };
            if at == t {
                change(&mut depth);
            }
            trace.depths.push(depth);
        }
        build::end(trace, 4 * SECOND);
    }
}

#[test]
fn the_senders_counts_are_those_that_were_seen() {
    type Change = fn(&mut Depth);
    let rows: [(Change, Status); 6] = [
        (|_| {}, Status::Pass),
        (|depth| depth.delivered = Some(3), Status::Fail),
        (|depth| depth.waiting = Some(0), Status::Fail),
        (|depth| depth.waiting = Some(1 << 40), Status::Fail),
        (|depth| depth.bytes = Some(1 << 40), Status::Fail),
        (|depth| depth.bytes = Some(2_000), Status::Pass),
    ];
    for (change, expected) in rows {
        check("queue.truth", "", reporting(SECOND / 2, change), expected);
    }
}

#[test]
fn a_delivery_is_reported_within_seconds() {
    let forgotten = |trace: &mut Trace| {
        reporting(0, |_| {})(trace);
        let last = Depth { delivered: Some(1), ..build::depth(20 * SECOND, None, 0) };
        trace.depths.push(last);
        build::end(trace, 21 * SECOND);
    };
    check("queue.truth", "", forgotten, Status::Fail);
}

/// The process is killed at 9 s, and its recent work must be repeated.
#[test]
fn a_kill_may_lose_outcomes_behind_a_long_store_delay() {
    let killed = |delay: Option<u64>| {
        move |trace: &mut Trace| {
            reporting(0, |_| {})(trace);
            trace.depths.retain(|depth| depth.t < SECOND);
            trace.depths.push(Depth { delivered: Some(0), ..build::depth(22 * SECOND, None, 3) });
            use ProcessEvent::{Exited, Killed, Ready, Started};
            let life = [(9, Killed), (9, Exited), (10, Started), (10, Ready)];
            let life = life.map(|(t, event)| Process { t: t * SECOND, worker: 0, event, status: None });
            trace.processes.extend(life);
            let fault = excuses::fault(SECOND / 2, FaultKind::Partition, Some(14 * SECOND));
            trace.faults.extend(delay.map(|_| Fault { delay, ..fault }));
            build::end(trace, 23 * SECOND);
        }
    };
    check("queue.truth", "", killed(None), Status::Fail);
    check("queue.truth", "", killed(Some(SECOND / 20)), Status::Fail);
    check("queue.truth", "", killed(Some(SECOND / 2)), Status::Pass);
}

#[test]
fn a_kill_may_lose_the_outcome_of_an_arrival_just_after_it() {
    let killed = |before: u64| {
        move |trace: &mut Trace| {
            (0..2).for_each(|_| build::without(trace, 1));
            trace.depths.push(Depth { delivered: Some(0), ..build::depth(20 * SECOND, None, 3) });
            use ProcessEvent::{Exited, Killed, Ready, Started};
            let t = SECOND - before;
            let life = [(0, Started), (t, Killed), (t, Exited), (2 * SECOND, Started), (2 * SECOND, Ready)];
            let life = life.map(|(t, event)| Process { t, worker: 0, event, status: None });
            trace.processes.extend(life);
            build::end(trace, 21 * SECOND);
        }
    };
    check("queue.truth", "", killed(SECOND / 100), Status::Pass);
    check("queue.truth", "", killed(SECOND / 2), Status::Fail);
}

#[test]
fn an_event_matches_those_that_it_concerns() {
    for (matched, expected) in [(1, Status::Pass), (0, Status::Fail), (2, Status::Fail)] {
        let matches =
            |trace: &mut Trace| trace.accepted.iter_mut().for_each(|one| one.matched = Some(matched));
        check("queue.truth", "", matches, expected);
    }
}

#[test]
fn a_sender_that_tells_nothing_of_its_queue_for_long_is_not_believed() {
    let silent = |length: u64| {
        move |trace: &mut Trace| {
            reporting(0, |_| {})(trace);
            trace.header.clock = hookproof_judge::trace::ClockKind::Real;
            build::offer(trace, 3, 4 * SECOND, &["a"]);
            build::deliver(trace, "a", 3, 3 * SECOND + SECOND / 2 + length, 204);
            build::end(trace, 60 * SECOND);
        }
    };
    check("queue.truth", "", silent(4 * SECOND), Status::Pass);
    check("queue.truth", "", silent(25 * SECOND), Status::Inconclusive);
}
