//! Attempts that ended without an answer, for as long as their requests may still arrive.

use serde::{Deserialize, Serialize};

use crate::engine::contract::IN_FLIGHT_MAX;
use crate::engine::lateness::{DEADLINE_MAX, DOUBT_MAX, Lateness};
use crate::engine::time::{Instant, Nanos};

/// The most runs that are kept. Beyond it neighbours become one, which is released with the later of the two.
const RUNS_MAX: usize = 1_024;

/// All attempts of a lane that are in doubt.
#[derive(Clone, Debug)]
pub(super) struct Doubts {
    /// In the order in which they ended.
    runs: Vec<Run>,
    /// All attempts in `runs`.
    count: u32,
    /// Those of them that no durable record tells of.
    unrecorded: u32,
    /// When the next of the others is released.
    next: Instant,
    /// The earliest end for which no answer to a later attempt was heard.
    unheard: Instant,
}

/// Attempts that have the same end and are released together.
#[derive(Clone, Copy, Debug)]
struct Run {
    ended: Instant,
    count: u32,
    quarantine: Nanos,
    release: Instant,
    /// An attempt that began later was answered, and `release` allows for it.
    heard: bool,
    /// The first record that tells of them.
    told: u64,
}

/// A run on its way to the next owner. Lengths count from the moment of the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunRecord {
    /// How long ago the attempts ended; or, told by an owner of a version before this one, how long until they do.
    ago: u64,
    ahead: u64,
    count: u32,
    quarantine: u64,
    /// How long until they are released.
    left: u64,
    heard: bool,
}

impl Doubts {
    pub(super) const NONE: Self =
        Self { runs: Vec::new(), count: 0, unrecorded: 0, next: Instant::NEVER, unheard: Instant::NEVER };

    /// How many attempts are in doubt.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// How many of them no durable record tells of.
    pub(super) fn unrecorded(&self) -> u32 {
        self.unrecorded
    }

    /// When the next one is released that a durable record tells of; never, if there is none.
    pub(super) fn next_release(&self) -> Instant {
        self.next
    }

    /// When the last one is released at the latest.
    pub(super) fn until(&self) -> Option<Instant> {
        self.runs.iter().map(|run| run.release).max()
    }

    /// Attempts ended in silence. The record numbered `told` is the first that tells of them; `durable` is the last that
    /// is durable.
    pub(super) fn add(&mut self, ended: Instant, count: u32, lateness: Lateness, told: u64, durable: u64) {
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

    /// An attempt that began at `started` was answered: what ended before it arrives within its quarantine, if ever.
    pub(super) fn heard(&mut self, started: Instant, now: Instant, durable: u64) {
        if self.unheard >= started {
            return;
        }
        for run in self.runs.iter_mut().take_while(|run| run.ended < started).filter(|run| !run.heard) {
            run.release = run.release.min(now + run.quarantine);
            run.heard = true;
        }
        self.count_again(durable);
    }

    /// That record is durable.
    pub(super) fn recorded(&mut self, durable: u64) {
        if self.unrecorded > 0 {
            self.count_again(durable);
        }
    }

    /// Lets go of those whose time is over and that a durable record tells of: when each was released, and how many.
    pub(super) fn release(&mut self, now: Instant, durable: u64) -> Vec<(Instant, u32)> {
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

    /// What the next owner should know.
    pub(super) fn record(&self, now: Instant) -> Vec<RunRecord> {
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

    /// Brings back what [`Self::record`] gave at `then`. A durable record tells of them.
    pub(super) fn restore(records: &[RunRecord], then: Instant) -> Self {
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
        self.next = recorded.min().unwrap_or(Instant::NEVER);
        let unheard = self.runs.iter().find(|run| !run.heard);
        self.unheard = unheard.map_or(Instant::NEVER, |run| run.ended);
    }
}

impl Run {
    fn is_like(&self, other: &Self) -> bool {
        Self { count: 0, ..*self }.key() == Self { count: 0, ..*other }.key()
    }

    fn key(&self) -> (Instant, Nanos, Instant, bool, u64) {
        (self.ended, self.quarantine, self.release, self.heard, self.told)
    }

    /// Both as one, which stays in doubt for as long as either might.
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
    /// Figures that no settings allow are cut to what they do.
    fn restore(&self, then: Instant) -> Run {
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
