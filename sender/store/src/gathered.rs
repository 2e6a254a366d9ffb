//! Latencies on their way to the store: a row for each lane, measure and hour, and one for all time, instead of a
//! write for each attempt.
//!
//! Commits count in memory. A later commit writes the counts: every second, or up to every ten seconds with many busy
//! lanes. A killed process loses only these counts.

use std::collections::BTreeMap;

use super::command::{Attempt, AttemptOutcome};
use super::latency::{AttemptTimes, Measured};
use crate::engine::{LaneId, Nanos, StoreTime};

/// The waiting time in memory for each [`WAITING_TOGETHER`] lanes and hours.
const WAIT: Nanos = Nanos::SECOND;
const WAITING_TOGETHER: usize = 100;
const WAIT_MAX: Nanos = Nanos::from_secs(10);
/// Beyond this number of lanes and hours, they are written sooner.
const SLICES_MAX: usize = 2_000;
const WRITTEN_MAX: usize = 500;
pub(super) type Slice = (LaneId, u64);

#[derive(Debug, Default)]
pub(super) struct Gathered {
    slices: BTreeMap<Slice, Measured>,
    since: Option<StoreTime>,
    /// Attempts counted by the commit under way.
    staged: Vec<(Slice, AttemptOutcome, AttemptTimes)>,
    /// Slices written by the commit under way.
    written: Vec<Slice>,
}

impl Gathered {
    /// Counts an attempt if the commit succeeds. `is_first`: the first of its delivery.
    pub(super) fn stage(&mut self, lane: LaneId, attempt: &Attempt, is_first: bool) {
        let &Attempt { at, latency, outcome, received, .. } = attempt;
        let times = AttemptTimes::of((at, latency), outcome, is_first, received);
        self.staged.push(((lane, hour(at)), outcome, times));
    }

    /// The counts that are due, within the limit for a commit.
    pub(super) fn due(&mut self, now: StoreTime) -> impl Iterator<Item = (Slice, &Measured)> {
        let is_due = self.since.is_some_and(|since| now.since(since) >= wait(self.slices.len()));
        self.first(if is_due || self.slices.len() > SLICES_MAX { WRITTEN_MAX } else { 0 })
    }

    pub(super) fn all(&mut self) -> impl Iterator<Item = (Slice, &Measured)> {
        self.first(usize::MAX)
    }

    fn first(&mut self, max: usize) -> impl Iterator<Item = (Slice, &Measured)> {
        let Self { slices, written, .. } = self;
        written.extend(slices.keys().take(max));
        slices.iter().take(max).map(|(slice, measured)| (*slice, measured))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    pub(super) fn keep(&mut self, now: StoreTime) {
        for slice in self.written.drain(..) {
            self.slices.remove(&slice);
        }
        if self.slices.is_empty() {
            self.since = None;
        }
        if !self.staged.is_empty() {
            self.since.get_or_insert(now);
        }
        for (slice, outcome, times) in self.staged.drain(..) {
            self.slices.entry(slice).or_default().attempt(outcome, times);
        }
    }

    pub(super) fn undo(&mut self) {
        self.staged.clear();
        self.written.clear();
    }
}

/// The waiting time. Each slice costs the same, however many attempts it counts.
fn wait(slices: usize) -> Nanos {
    let times = (slices / WAITING_TOGETHER).max(1) as u64;
    WAIT.times(times).min(WAIT_MAX)
}

pub(super) fn hour(at: StoreTime) -> u64 {
    at.0 / Nanos::HOUR.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: StoreTime = StoreTime::from_secs(7_200);

    /// Whether the figures of `lanes` lanes are written after waiting for `waited`.
    fn is_written(lanes: u64, waited: Nanos) -> bool {
        let attempt = Attempt {
            at: NOW,
            latency: Nanos(1),
            outcome: AttemptOutcome::Delivered,
            status: Some(204),
            error: None,
            body_hash: 1,
            received: Some(NOW),
        };
        let mut gathered = Gathered::default();
        (0..lanes).for_each(|lane| gathered.stage(LaneId(lane), &attempt, true));
        gathered.keep(NOW);
        gathered.due(StoreTime(NOW.0 + waited.0)).next().is_some()
    }

    #[test]
    fn the_more_lanes_are_busy_the_longer_their_figures_wait() {
        for (lanes, seconds) in [(1, 1), (199, 1), (200, 2), (1_000, 10), (2_000, 10)] {
            let wait = Nanos::from_secs(seconds);
            assert!(!is_written(lanes, Nanos(wait.0 - 1)), "{lanes}");
            assert!(is_written(lanes, wait), "{lanes}");
        }
    }

    #[test]
    fn more_than_may_wait_are_written_at_once() {
        let most = SLICES_MAX as u64;
        assert!(!is_written(most, Nanos::ZERO) && is_written(most + 1, Nanos::ZERO));
    }
}
