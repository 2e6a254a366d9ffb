//! When the sender could not be spoken to, by what was done to it: from the moment on at which a process is stopped or gone
//! to [`GRACE`] after it is ready again, and for as long as a fault lasts.

use super::evidence::Evidence;
use crate::scenario::SECOND;
use crate::trace::ProcessEvent;

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
