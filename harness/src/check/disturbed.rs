//! When something befell the sender, and for how long that may hold it back: until its work was to be taken over.

use super::evidence::Evidence;
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
    match fault.action.as_str() {
        "rotate" | "clock-skew" => None,
        "limit" | "redrive" | "stop" => Some(fault.t),
        _ => Some(fault.until.unwrap_or(fault.t)),
    }
}
