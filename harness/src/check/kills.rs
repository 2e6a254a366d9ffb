//! Which kills took something. One that struck a process without work proves nothing of what follows a kill.
//!
//! Where all processes are killed at about the same time, or there is but one, they took all there was. Of several
//! processes, one that is killed took a lane if, at the lane's endpoint,
//! - a request that was open at the kill was broken off within [`SEEN_WITHIN`], or
//! - connections that had carried several requests before the kill carried none after it, though others came.

use std::collections::BTreeSet;

use super::evidence::{Evidence, Lane};
use crate::scenario::SECOND;
use crate::trace::ProcessEvent;

/// How soon the end of a process is seen at the endpoints.
const SEEN_WITHIN: u64 = 2 * SECOND;
/// How far back connections count as in use.
const USED_WITHIN: u64 = 5 * SECOND;
/// How far apart kills may be that are one.
const AT_ONCE: u64 = SECOND / 2;

impl Evidence<'_> {
    /// Whether a kill took a lane from its process; nobody can tell more of some.
    pub(super) fn took_something(&self, kill: u64) -> bool {
        let workers = self.scenario.sender.workers;
        let killed = self.trace.processes.iter().filter(|one| one.event == ProcessEvent::Killed);
        let struck: BTreeSet<u32> =
            killed.filter(|one| one.t.abs_diff(kill) <= AT_ONCE).map(|one| one.worker).collect();
        struck.len() as u64 >= u64::from(workers) || self.lanes.iter().any(|lane| was_taken(self, lane, kill))
    }
}

fn was_taken(evidence: &Evidence<'_>, lane: &Lane<'_>, kill: u64) -> bool {
    let place = |t: u64| lane.begun.partition_point(|n| evidence.exchange(*n).t < t);
    let (from, at) = (place(kill.saturating_sub(USED_WITHIN)), place(kill));
    let until =
        place(kill.saturating_add(evidence.scenario.sender.takeover_within.0).saturating_add(USED_WITHIN));
    let broken_off = lane.begun[from..at]
        .iter()
        .map(|n| evidence.exchange(*n))
        .any(|one| one.ended_by_peer() && kill <= one.end && one.end <= kill.saturating_add(SEEN_WITHIN));
    let connections = |range: &[u32]| -> Vec<u64> {
        let whole = range.iter().filter_map(|n| evidence.trace.arrivals.get(*n as usize));
        whole.map(|arrival| arrival.connection).collect()
    };
    let (before, after) = (connections(&lane.begun[from..at]), connections(&lane.begun[at..until]));
    let used: BTreeSet<u64> = before.iter().copied().collect();
    let kept = used.len() < before.len();
    broken_off || kept && !after.is_empty() && after.iter().all(|connection| !used.contains(connection))
}
