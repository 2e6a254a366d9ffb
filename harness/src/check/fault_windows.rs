//! The spans in which a fault excuses lateness, and those in which the sender could not be reached: from the moment at which a
//! process stops or is gone to [`GRACE`] after it is ready again, and for as long as a fault lasts.

use super::evidence::Evidence;
use crate::scenario::{FaultKind, SECOND};
use crate::trace::{Fault, Process, ProcessEvent};

impl Evidence<'_> {
    /// Whether something befell the sender from `from` to `until`, or so shortly before that it may still recover.
    pub(crate) fn is_disturbed(&self, from: u64, until: u64) -> bool {
        let from = from.saturating_sub(self.scenario.sender.takeover_within.0);
        let upset = self.upsets.partition_point(|t| *t < from);
        let faulty = |fault: &Fault| fault.t <= until && over(fault).is_some_and(|over| over >= from);
        let stands_still = self.strikes.stops.iter().any(|stop| stop.from <= until && stop.until >= from);
        let upset = self.upsets.get(upset).is_some_and(|t| *t <= until);
        upset || stands_still || self.trace.faults.iter().any(faulty)
    }

    /// By when the sender must be at work again after the last thing that was done to it; 0 if nothing was.
    pub(super) fn taken_over_by(&self) -> u64 {
        let stops = self.strikes.stops.iter().map(|stop| stop.until);
        let last = self.trace.faults.iter().filter_map(over).chain(stops).max();
        last.map_or(0, |t| t.saturating_add(self.scenario.sender.takeover_within.0))
    }

    /// Until when the sender could send: when a process was asked to stop that was not started again, or the run ended.
    pub(super) fn at_work_until(&self) -> u64 {
        let processes = &self.trace.processes;
        let asked = processes.iter().filter(|one| one.event == ProcessEvent::Asked);
        let is_last = |asked: &&Process| {
            let again = |one: &Process| one.event == ProcessEvent::Started && one.worker == asked.worker;
            !processes.iter().any(|one| again(one) && one.t >= asked.t)
        };
        asked.filter(is_last).map(|one| one.t).min().unwrap_or(self.end)
    }
}

/// Until when a fault disturbs the sender: a change of a limit and a redrive are moments, and so is a stop, of which the
/// process says when it was over; a rotation of secrets disturbs nothing, and neither may a process whose wall clock is wrong.
fn over(fault: &Fault) -> Option<u64> {
    use FaultKind::{
        ClockSkew, ClockStep, DatabaseRestart, DiskFull, Kill, Limit, LockDatabase, Partition, Redrive,
        Restart, Rotate, Start, Stop,
    };
    match fault.kind {
        Rotate | ClockSkew => None,
        Limit | Redrive | Stop => Some(fault.t),
        Kill | Restart | Start | ClockStep | DiskFull | LockDatabase | DatabaseRestart | Partition => {
            Some(fault.until.unwrap_or(fault.t))
        }
    }
}

/// How long after it is ready again a sender may still turn away what came meanwhile.
const GRACE: u64 = 2 * SECOND;

/// Those times, apart from one another and in order.
pub(super) struct Outages(Vec<(u64, u64)>);

impl Outages {
    pub(super) fn of(evidence: &Evidence<'_>) -> Self {
        use ProcessEvent::{Asked, Continued, Exited, Killed, Ready, Stopped};
        let processes = &evidence.trace.processes;
        let back = |worker: u32, t: u64| {
            let later = processes.iter().filter(|one| one.worker == worker && one.t >= t);
            later.filter(|one| matches!(one.event, Ready | Continued)).map(|one| one.t).min()
        };
        let struck = processes.iter().filter(|one| matches!(one.event, Asked | Exited | Killed | Stopped));
        let mut all: Vec<(u64, u64)> =
            struck.map(|one| (one.t, back(one.worker, one.t).unwrap_or(evidence.end))).collect();
        let faults = evidence.trace.faults.iter().filter(|fault| fault.hinders());
        all.extend(faults.map(|fault| (fault.t, fault.until.unwrap_or(fault.t))));
        all.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (from, until) in all.into_iter().map(|(from, until)| (from, until.saturating_add(GRACE))) {
            match merged.last_mut().filter(|last| from <= last.1) {
                Some(last) => last.1 = last.1.max(until),
                None => merged.push((from, until)),
            }
        }
        Self(merged)
    }

    /// Whether one of them overlaps the time from `from` to `until`.
    pub(super) fn overlap(&self, from: u64, until: u64) -> bool {
        let at = self.0.partition_point(|(_, end)| *end < from);
        self.0.get(at).is_some_and(|(begin, _)| *begin <= until)
    }
}
