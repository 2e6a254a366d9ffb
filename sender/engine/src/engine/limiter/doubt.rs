//! Attempts in doubt: they ended without an answer, and their requests may still arrive.

use serde::{Deserialize, Serialize};

use crate::engine::contract::{DEADLINE_MAX, DOUBT_MAX, IN_FLIGHT_MAX, Lateness};
use crate::engine::time::{Nanos, StoreTime};

/// The most runs. Beyond it, neighbours become one run with the later release.
const RUNS_MAX: usize = 1_024;

#[derive(Clone, Debug)]
pub(super) struct Doubts {
    /// In the order of their ends.
    runs: Vec<Run>,
    count: u32,
    /// The attempts in `runs` that no durable record includes.
    unrecorded: u32,
    /// The next release of a run that a durable record includes.
    next: StoreTime,
    /// The earliest end without an answer to a later attempt.
    unheard: StoreTime,
}

/// Attempts with the same end and the same release.
#[derive(Clone, Copy, Debug)]
struct Run {
    ended: StoreTime,
    count: u32,
    quarantine: Nanos,
    release: StoreTime,
    /// An attempt that began later was answered; `release` includes the quarantine since.
    heard: bool,
    /// The first record that includes them.
    told: u64,
}

/// A run for the next owner. Lengths are in nanoseconds and count from the moment of the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunRecord {
    /// How long ago the attempts ended.
    ago: u64,
    ahead: u64,
    count: u32,
    quarantine: u64,
    /// The time until their release.
    left: u64,
    heard: bool,
}

impl RunRecord {
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn left(&self) -> Nanos {
        Nanos(self.left)
    }
}

impl Doubts {
    pub(super) const NONE: Self =
        Self { runs: Vec::new(), count: 0, unrecorded: 0, next: StoreTime::NEVER, unheard: StoreTime::NEVER };

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn unrecorded(&self) -> u32 {
        self.unrecorded
    }

    /// The next release of a run that a durable record includes, or [`StoreTime::NEVER`].
    pub(super) fn next_release(&self) -> StoreTime {
        self.next
    }

    /// The latest moment at which the last run is released.
    pub(super) fn until(&self) -> Option<StoreTime> {
        self.runs.iter().map(|run| run.release).max()
    }

    /// Adds attempts that ended in silence. Record `told` is the first that includes them; `durable` is the
    /// last durable record.
    pub(super) fn add(&mut self, ended: StoreTime, count: u32, lateness: Lateness, told: u64, durable: u64) {
        if count == 0 {
            return;
        }
        let (quarantine, release) = (lateness.quarantine(), ended + lateness.doubt());
        let run = Run { ended, count, quarantine, release, heard: false, told };
        let place = self.runs.partition_point(|earlier| earlier.ended <= ended);
        match place.checked_sub(1).and_then(|before| self.runs.get_mut(before)) {
            Some(before) if before.is_like(&run) => before.count += count,
            _ => self.runs.insert(place, run),
        }
        self.count += count;
        self.unheard = self.unheard.min(ended);
        if told > durable {
            self.unrecorded += count;
        } else {
            self.next = self.next.min(release);
        }
        if self.runs.len() > RUNS_MAX {
            self.compress(durable);
        }
    }

    /// Earlier ends now use their quarantine if that is sooner.
    pub(super) fn record_answer(&mut self, started: StoreTime, now: StoreTime, durable: u64) {
        if self.unheard >= started {
            return;
        }
        for run in self.runs.iter_mut().take_while(|run| run.ended < started).filter(|run| !run.heard) {
            run.release = run.release.min(now + run.quarantine);
            run.heard = true;
        }
        self.count_again(durable);
    }

    pub(super) fn recorded(&mut self, durable: u64) {
        if self.unrecorded > 0 {
            self.count_again(durable);
        }
    }

    /// Removes the runs that are over and in a durable record. Returns the moment of each release and its
    /// attempts.
    pub(super) fn release(&mut self, now: StoreTime, durable: u64) -> Vec<(StoreTime, u32)> {
        let over = |run: &Run| run.release <= now && run.told <= durable;
        let mut released: Vec<_> =
            self.runs.iter().filter(|run| over(run)).map(|run| (run.release, run.count)).collect();
        released.sort_unstable();
        self.runs.retain(|run| !over(run));
        if self.runs.is_empty() {
            self.runs = Vec::new();
        }
        self.count_again(durable);
        released
    }

    pub(super) fn record(&self, now: StoreTime) -> Vec<RunRecord> {
        let record = |run: &Run| RunRecord {
            ago: now.since(run.ended).0,
            ahead: run.ended.since(now).0,
            count: run.count,
            quarantine: run.quarantine.0,
            left: run.release.since(now).0,
            heard: run.heard,
        };
        self.runs.iter().map(record).collect()
    }

    /// Restores [`Self::record`] from `then`. The record is durable, so it includes all runs.
    pub(super) fn restore(records: &[RunRecord], then: StoreTime) -> Self {
        let mut runs: Vec<_> = records.iter().take(RUNS_MAX).map(|record| record.restore(then)).collect();
        runs.sort_by_key(|run| run.ended);
        let mut doubts = Self { runs, ..Self::NONE };
        doubts.count_again(0);
        doubts
    }

    fn compress(&mut self, durable: u64) {
        self.runs = self
            .runs
            .chunks(2)
            .filter_map(|pair| pair.iter().copied().reduce(|earlier, later| earlier.with(later)))
            .collect();
        self.count_again(durable);
    }

    fn count_again(&mut self, durable: u64) {
        let sum = |runs: &mut dyn Iterator<Item = &Run>| runs.map(|run| run.count).sum();
        self.count = sum(&mut self.runs.iter());
        self.unrecorded = sum(&mut self.runs.iter().filter(|run| run.told > durable));
        let recorded = self.runs.iter().filter(|run| run.told <= durable).map(|run| run.release);
        self.next = recorded.min().unwrap_or(StoreTime::NEVER);
        let unheard = self.runs.iter().find(|run| !run.heard);
        self.unheard = unheard.map_or(StoreTime::NEVER, |run| run.ended);
    }
}

impl Run {
    fn is_like(&self, other: &Self) -> bool {
        Self { count: 0, ..*self }.key() == Self { count: 0, ..*other }.key()
    }

    fn key(&self) -> (StoreTime, Nanos, StoreTime, bool, u64) {
        (self.ended, self.quarantine, self.release, self.heard, self.told)
    }

    /// Joins both into one run that stays in doubt as long as either.
    fn with(self, later: Self) -> Self {
        Self {
            ended: later.ended,
            count: self.count + later.count,
            quarantine: self.quarantine.max(later.quarantine),
            release: self.release.max(later.release),
            heard: self.heard && later.heard,
            told: self.told.max(later.told),
        }
    }
}

impl RunRecord {
    /// Cuts figures to the highest that settings allow.
    fn restore(&self, then: StoreTime) -> Run {
        let ahead = Nanos(self.ahead).min(DEADLINE_MAX);
        Run {
            ended: then.sooner(Nanos(self.ago)) + ahead,
            count: self.count.min(IN_FLIGHT_MAX),
            quarantine: Nanos(self.quarantine).min(DOUBT_MAX),
            release: then + Nanos(self.left).min(ahead + DOUBT_MAX),
            heard: self.heard,
            told: 0,
        }
    }
}
