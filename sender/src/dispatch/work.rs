//! What a process has done: its own part, whatever others do on the same database.

use crate::store::command::{Fate, Outcome, Settlement};

/// What was settled by one process, and written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkDone {
    /// Deliveries done.
    pub delivered: u64,
    /// Attempts that failed.
    pub failed_attempts: u64,
    /// Deliveries given up.
    pub dead: u64,
}

impl WorkDone {
    /// Counts one settlement.
    pub(super) fn count(&mut self, settled: &Settlement) {
        match settled.fate {
            Fate::Delivered => self.delivered += 1,
            Fate::Dead(_) => self.dead += 1,
            Fate::Retry { .. } | Fate::Released => {}
        }
        let failed = settled.attempt.as_ref().is_some_and(|attempt| attempt.outcome != Outcome::Delivered);
        self.failed_attempts += u64::from(failed);
    }
}
