//! The generator: an OS thread that releases due events.
//!
//! Events that became due while the thread was not running are released at once, in order. The lag of each event is
//! measured from its intended moment to its release.

use std::sync::atomic::{AtomicBool, Ordering};

use hdrhistogram::Histogram;
use hookproof_play::traffic::{Due, Schedule};

use crate::clock::Clock;

/// The thread sees a stop after the longest sleep.
const QUANTUM_MAX_NS: u64 = 20_000_000;
const QUANTUM_NS: u64 = 500_000;

pub trait Pace {
    /// Nanoseconds since the run began.
    fn now(&self) -> u64;
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

#[derive(Clone, Debug)]
pub struct Lag {
    histogram: Histogram<u64>,
    /// Beyond the budget.
    pub late: u64,
    budget: u64,
}

impl Lag {
    /// An empty one. Events later than `budget` nanoseconds count as late.
    #[must_use]
    pub fn new(budget: u64) -> Self {
        // Longer lags than an hour count as an hour.
        let histogram = Histogram::new_with_max(3_600_000_000_000, 3);
        Self { histogram: histogram.expect("the bounds are constants that fit"), late: 0, budget }
    }

    fn count(&mut self, lag: u64) {
        self.histogram.saturating_record(lag);
        self.late += u64::from(lag > self.budget);
    }

    /// In nanoseconds.
    #[must_use]
    pub fn quantile(&self, share: f64) -> u64 {
        self.histogram.value_at_quantile(share)
    }

    #[must_use]
    pub fn released(&self) -> u64 {
        self.histogram.len()
    }
}

/// Releases every event, until the end or `stop`. `release` receives the event, its intended moment and the present;
/// it may wait, which counts as lag.
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
