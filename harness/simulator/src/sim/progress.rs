//! The work of simulations in steps: for the forecast, and for a caller with a clock.

use std::sync::atomic::{AtomicU64, Ordering};

use hookproof_judge::scenario::{SECOND, Scenario};

/// Steps so far. Clones of the options share it, so it counts over all their simulations.
#[derive(Debug, Default)]
pub struct Progress(AtomicU64);

impl Progress {
    /// Offered events and requests so far, and the steps of [`idle_steps`].
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The steps that the sender's own timers cost in this much virtual time, since long pauses are not free: measured as
/// parts of the cost of one request.
#[must_use]
pub fn idle_steps(scenario: &Scenario, nanos: u64) -> u64 {
    let thousandths = u64::from(scenario.sender.workers) * (100 + scenario.subscribers.len() as u64);
    (nanos / SECOND).saturating_mul(thousandths) / 1_000
}

/// One simulation's part. It adds its steps in batches, because parallel simulations share the count.
pub(super) struct Meter<'a> {
    progress: &'a Progress,
    counted: u64,
}

impl<'a> Meter<'a> {
    const BATCH: u64 = 1_000;

    pub(super) const fn new(progress: &'a Progress) -> Self {
        Self { progress, counted: 0 }
    }

    pub(super) fn record(&mut self, steps: u64) {
        if steps.saturating_sub(self.counted) >= Self::BATCH {
            self.progress.0.fetch_add(steps - self.counted, Ordering::Relaxed);
            self.counted = steps;
        }
    }
}
