//! The generator: one thread of the operating system that releases what is due.
//!
//! *Catching up.* What has become due while the thread was not running is released as soon as it runs again, all of it,
//! in order; nothing is skipped and nothing is spread out. Its lag is measured for each event, from the moment that the
//! schedule wanted to the moment at which it was released.

use std::sync::atomic::{AtomicBool, Ordering};

use hdrhistogram::Histogram;

use super::schedule::{Due, Schedule};
use crate::clock::Clock;

/// How long the thread sleeps at most, so that it sees a stop; and how finely it wakes.
const QUANTUM_MAX_NS: u64 = 20_000_000;
const QUANTUM_NS: u64 = 500_000;

/// Time, as the generator goes by it.
pub trait Pace {
    /// Nanoseconds since the run began.
    fn now(&self) -> u64;
    /// Waits until a moment of the run.
    fn wait(&self, until: u64);
}

impl Pace for Clock {
    fn now(&self) -> u64 {
        Self::now(self)
    }

    fn wait(&self, until: u64) {
        self.block_until(until);
    }
}

/// How far the generator was behind its schedule.
#[derive(Clone, Debug)]
pub struct Lag {
    /// In nanoseconds, of every event.
    histogram: Histogram<u64>,
    /// Events that were later than the budget allows.
    pub late: u64,
    budget: u64,
}

impl Lag {
    /// Nothing was released yet. Events later than `budget` nanoseconds count as late.
    #[must_use]
    pub fn new(budget: u64) -> Self {
        // An hour at three digits; what is later counts as an hour.
        let histogram = Histogram::new_with_max(3_600_000_000_000, 3);
        Self { histogram: histogram.expect("the bounds are constants that fit"), late: 0, budget }
    }

    fn count(&mut self, lag: u64) {
        self.histogram.saturating_record(lag);
        self.late += u64::from(lag > self.budget);
    }

    /// The lag that a share of the events did not exceed, in nanoseconds.
    #[must_use]
    pub fn quantile(&self, share: f64) -> u64 {
        self.histogram.value_at_quantile(share)
    }

    /// How many events were released.
    #[must_use]
    pub fn released(&self) -> u64 {
        self.histogram.len()
    }
}

/// Releases every event of a schedule that begins at `begin`, until all are out or `stop` is set. `release` is told the
/// event, when it was wanted and when it is handed over; it may wait, which counts as lag.
pub fn play(
    schedule: &Schedule,
    begin: u64,
    pace: &impl Pace,
    stop: &AtomicBool,
    mut lag: Lag,
    mut release: impl FnMut(&Due, u64, u64),
) -> Lag {
    let mut waiting = schedule.due().iter().peekable();
    while let Some(next) = waiting.peek() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let (now, wanted) = (pace.now(), begin.saturating_add(next.at));
        if wanted > now {
            let quantum = wanted.max(now.saturating_add(QUANTUM_NS));
            pace.wait(quantum.min(now.saturating_add(QUANTUM_MAX_NS)));
            continue;
        }
        while let Some(due) = waiting.next_if(|due| begin.saturating_add(due.at) <= now) {
            if stop.load(Ordering::Relaxed) {
                return lag;
            }
            let wanted = begin.saturating_add(due.at);
            release(due, wanted, pace.now());
            lag.count(pace.now().saturating_sub(wanted));
        }
    }
    lag
}
