//! `fault.disk-full`, `fault.locked`, `fault.database-restart`, `fault.partition`, `fault.clock-step`,
//! `fault.clock-skew`.
//!
//! While the sender can't write, or a wall clock is wrong, it acknowledges no event that is lost later, and no process
//! ends. Afterwards it serves again, in time, each lane for which events were acknowledged after the fault, or waited
//! at its end ([`super::fault_windows`]). If one of several processes is cut off for that long, the others serve its
//! lanes in that time.

use super::epochs::{Skew, is_stamped, skews};
use super::evidence::Evidence;
use super::fault_windows::{Again, served_again, served_meanwhile};
use super::outcomes::{Fate, fates, missing, not_settled_in_time, unless_late};
use super::verdict::{Finding, Found, Tally, Witness, show};
use crate::check::{Check, Stall};
use crate::entry::Severity;
use crate::scenario::FaultKind;
use crate::trace::{Fault, Lack, ProcessEvent};

pub(super) const DISK_FULL: Check = Check {
    id: "fault.disk-full",
    severity: Severity::Must,
    source: "existing senders",
    requirement: "with a full disk the sender loses no acknowledged event, does not crash in a loop, and \
        recovers",
    why: "a full disk lasts for hours: acknowledgements must stay true, and emitters must be able to \
        repeat refused events",
    remedy: "answer the emitter with 503 when a commit fails, and retry the commit later",
    needs: &[Lack::Process, Lack::Start],
    stall: Stall::Delays,
    follows_fault: true,
    find: disk_full,
    ..Check::PLAIN
};

fn disk_full(evidence: &Evidence<'_>) -> Finding {
    judge(evidence, FaultKind::DiskFull)
}

pub(super) const LOCKED: Check = Check {
    id: "fault.locked",
    severity: Severity::Must,
    source: "existing senders",
    requirement: "with a locked database the sender loses no acknowledged event, does not crash in a \
        loop, and recovers",
    why: "a backup or an operator's query may lock the file for a while; the sender must neither lose \
        events nor crash",
    remedy: "set a busy timeout, and answer 503 after it",
    needs: &[Lack::Start, Lack::Database],
    stall: Stall::Delays,
    follows_fault: true,
    find: locked,
    ..Check::PLAIN
};

pub(super) fn locked(evidence: &Evidence<'_>) -> Finding {
    judge(evidence, FaultKind::LockDatabase)
}

pub(super) const DATABASE_RESTART: Check = Check {
    id: "fault.database-restart",
    severity: Severity::Must,
    source: "derived: servers are upgraded, fail over and crash",
    requirement: "when the database server crashes and returns, the sender loses no acknowledged event, \
        no process ends, and deliveries resume",
    why: "a database server is away for seconds several times a year, and all its connections break at \
        the same moment",
    remedy: "reconnect automatically, answer 503 meanwhile, and look up whether an interrupted commit \
        happened before repeating it",
    needs: &[Lack::Start],
    stall: Stall::Delays,
    follows_fault: true,
    find: database_restart,
    ..Check::PLAIN
};

fn database_restart(evidence: &Evidence<'_>) -> Finding {
    judge(evidence, FaultKind::DatabaseRestart)
}

pub(super) const PARTITION: Check = Check {
    id: "fault.partition",
    severity: Severity::Must,
    source: "derived: networks lose packets between live machines",
    requirement: "when a process cannot reach its database server, no acknowledged event is lost, no \
        process dies, and its subscribers are served again, by other processes if the partition lasts",
    why: "a machine that is cut off keeps sending while it believes that it holds its leases, and another \
        takes them over",
    remedy: "end a process's own lease by its monotonic clock, before other processes may take it; bound \
        every wait for the server",
    needs: &[Lack::Start],
    stall: Stall::Delays,
    follows_fault: true,
    find: partition,
    ..Check::PLAIN
};

pub(super) fn partition(evidence: &Evidence<'_>) -> Finding {
    judge(evidence, FaultKind::Partition)
}

pub(super) const CLOCK_STEP: Check = Check {
    id: "fault.clock-step",
    severity: Severity::Must,
    source: "existing senders",
    requirement: "a step of the wall clock neither floods an endpoint nor stops its deliveries",
    why: "after a clock step, a wait by the wall clock ends at once or in a year",
    remedy: "measure waits on a monotonic clock",
    needs: &[Lack::Start],
    stall: Stall::Delays,
    follows_fault: true,
    find: clock_step,
    ..Check::PLAIN
};

fn clock_step(evidence: &Evidence<'_>) -> Finding {
    judge(evidence, FaultKind::ClockStep)
}

pub(super) const CLOCK_SKEW: Check = Check {
    id: "fault.clock-skew",
    severity: Severity::Must,
    source: "derived: one of several machines may lose its time server",
    requirement: "a process with a wrong wall clock loses no event, does not die, and serves its \
        subscribers; its timestamps show the wrong clock",
    why: "a comparison of two machines' clocks ends a lease that is still held, or keeps one that has ended",
    remedy: "decide the end of leases by the store's clock alone; measure a process's own waits on a \
        monotonic clock",
    needs: &[Lack::Start],
    stall: Stall::Delays,
    follows_fault: true,
    find: clock_skew,
    ..Check::PLAIN
};

/// `fault.clock-skew` needs a timestamp that shows the fault, since a program may read the time in a way that
/// the fault does not reach.
fn clock_skew(evidence: &Evidence<'_>) -> Finding {
    let finding = judge(evidence, FaultKind::ClockSkew);
    let is_shown = |skew: &Skew| {
        let ahead = evidence.ahead.likely.saturating_add(skew.ahead);
        let during = evidence.trace.arrivals.iter().filter(|arrival| skew.covers(arrival.t));
        { during }.any(|arrival| is_stamped(evidence.trace, arrival, ahead, 0))
    };
    let skews = skews(evidence.scenario, evidence.trace);
    let unshown = skews.iter().find(|skew| !is_shown(skew));
    match unshown.filter(|_| finding.found == Found::Held) {
        Some(skew) => {
            let far = show(skew.ahead.unsigned_abs());
            let side = if skew.ahead < 0 { "behind" } else { "ahead" };
            Finding::unseen(format!("no timestamp shows that the clock was {far} {side}"))
        }
        None => finding,
    }
}

fn judge(evidence: &Evidence<'_>, kind: FaultKind) -> Finding {
    if !evidence.scenario.faults.iter().any(|fault| fault.action.kind() == kind) {
        return Finding::unasked("the scenario has no such fault");
    }
    let mut tally = Tally::default();
    let mut late = 0;
    for fault in evidence.trace.faults.iter().filter(|fault| fault.kind == kind) {
        tally.see();
        let until = fault.until.unwrap_or(fault.t);
        late += false_acknowledgements(evidence, fault, until, &mut tally);
        deaths(evidence, fault, until, &mut tally);
        taken_over(evidence, fault, until, &mut tally);
        recovers(evidence, until, &mut tally);
    }
    let finding = tally.finding(
        "faults",
        "no event was lost, and the sender recovered",
        "events lost, a process ended, or deliveries late",
    );
    unless_late(finding, late)
}

/// Returns the number of deliveries, acknowledged during the fault, that could still have come.
fn false_acknowledgements(evidence: &Evidence<'_>, fault: &Fault, until: u64, tally: &mut Tally) -> u64 {
    let during = |t: Option<u64>| t.is_some_and(|t| fault.t <= t && t <= until);
    let fates = fates(evidence);
    let lost = fates.iter().filter(|(one, fate)| *fate == Fate::Unsettled && during(evidence.accepted(one)));
    let lost: Vec<_> = lost.map(|(one, _)| *one).collect();
    for delivery in missing(evidence, &lost) {
        tally.broke(|| evidence.absent(delivery, "acknowledged during the fault, but lost".to_owned()));
    }
    not_settled_in_time(evidence, &lost)
}

fn deaths(evidence: &Evidence<'_>, fault: &Fault, until: u64, tally: &mut Tally) {
    let meant = [ProcessEvent::Asked, ProcessEvent::Killed];
    let grace = until.saturating_add(evidence.scenario.sender.takeover_within.0);
    for death in evidence.trace.processes.iter().filter(|one| one.event == ProcessEvent::Exited) {
        let why = |one: &&crate::trace::Process| {
            meant.contains(&one.event) && one.worker == death.worker && one.t <= death.t
        };
        let asked = evidence
            .trace
            .processes
            .iter()
            .filter(why)
            .any(|one| one.t >= fault.t || one.t + 60_000_000_000 > death.t);
        if fault.t <= death.t && death.t <= grace && !asked {
            let status = death.status.clone().unwrap_or_default();
            let what =
                format!("worker {} ended by itself during or after the fault ({status})", death.worker);
            tally.broke(|| Witness {
                subscriber: None,
                from: fault.t,
                until: death.t,
                what,
                arrivals: Vec::new(),
            });
        }
    }
}

fn taken_over(evidence: &Evidence<'_>, fault: &Fault, until: u64, tally: &mut Tally) {
    let sender = &evidence.scenario.sender;
    let lasts = until.saturating_sub(fault.t);
    if !fault.cuts_off() || sender.workers < 2 || lasts < sender.takeover_within.0 {
        return;
    }
    for (at, _) in (0..).zip(&evidence.lanes) {
        if let Again::Late { first, after } = served_meanwhile(evidence, at, fault) {
            let after = after.map_or("never".to_owned(), show);
            let what = format!(
                "due while a process was cut off; time until the subscriber was served \
                again: {after}"
            );
            tally.broke(|| evidence.absent(first, what));
        }
    }
}

fn recovers(evidence: &Evidence<'_>, until: u64, tally: &mut Tally) {
    for (at, _) in (0..).zip(&evidence.lanes) {
        if let Again::Late { first, after } = served_again(evidence, at, until) {
            let after = after.map_or("never".to_owned(), show);
            tally.broke(|| {
                evidence.absent(
                    first,
                    format!(
                        "due after the fault; time until the subscriber was served \
                        again: {after}"
                    ),
                )
            });
        }
    }
}
