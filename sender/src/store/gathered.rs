//! Latencies on their way to the store: a row for each lane, measure and hour, and one for ever, in place of a write for
//! each attempt.
//!
//! What a commit settles is counted in memory and written with a later commit, about once a second for each lane that
//! is busy. A process that is killed takes its last second of figures with it, and nothing else.

use std::collections::BTreeMap;

use super::command::{Attempt, Outcome};
use super::latency::{AttemptTimes, Measured};
use crate::engine::{LaneId, Nanos, StoreTime};

/// How long figures may wait in memory.
const WAIT_MAX: Nanos = Nanos::SECOND;
/// Lanes and hours that wait in memory; beyond that they are written sooner.
const SLICES_MAX: usize = 10_000;
/// Lanes and hours written with one commit.
const WRITTEN_MAX: usize = 500;
/// A lane, and an hour of the clock.
pub(super) type Slice = (LaneId, u64);

/// What was counted and is not written.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    slices: BTreeMap<Slice, Measured>,
    /// When the oldest of it was counted.
    since: Option<StoreTime>,
    /// Counted by the commit under way.
    staged: Vec<(Slice, Outcome, AttemptTimes)>,
    /// Written by the commit under way.
    written: Vec<Slice>,
}

impl Gathered {
    /// Counts one attempt, if the present commit succeeds. `is_first`: of its delivery.
    pub(super) fn stage(&mut self, lane: LaneId, attempt: &Attempt, is_first: bool) {
        let &Attempt { at, latency, outcome, received, .. } = attempt;
        let times = AttemptTimes::of((at, latency), outcome, is_first, received);
        self.staged.push(((lane, hour(at)), outcome, times));
    }

    /// What has waited long enough, as far as one commit may write it.
    pub(super) fn due(&mut self, now: StoreTime) -> impl Iterator<Item = (Slice, &Measured)> {
        let is_due = self.since.is_some_and(|since| now.since(since) >= WAIT_MAX);
        self.first(if is_due || self.slices.len() > SLICES_MAX { WRITTEN_MAX } else { 0 })
    }

    /// All there is.
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

    /// The commit succeeded.
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

    /// It did not.
    pub(super) fn undo(&mut self) {
        self.staged.clear();
        self.written.clear();
    }
}

/// The hour of the clock.
pub(super) fn hour(at: StoreTime) -> u64 {
    at.0 / Nanos::HOUR.0
}
