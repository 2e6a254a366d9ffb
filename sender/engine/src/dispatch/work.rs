//! What a process has done: its own part, whatever others do on the same database.

use crate::messages::command::{Fate, Outcome, Settlement};
use crate::messages::reply::SettleResult;

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
    /// Counts one settlement: its attempt was made, whatever became of the delivery.
    pub(super) fn count(&mut self, settled: &Settlement, result: SettleResult) {
        match (settled.fate, result) {
            (Fate::Delivered, SettleResult::Applied) => self.delivered += 1,
            (Fate::Dead(_), SettleResult::Applied) => self.dead += 1,
            _ => {}
        }
        let failed = settled.attempt.as_ref().is_some_and(|attempt| attempt.outcome != Outcome::Delivered);
        self.failed_attempts += u64::from(failed);
    }

    /// Adds what was done beside.
    pub const fn add(&mut self, more: Self) {
        self.delivered += more.delivered;
        self.failed_attempts += more.failed_attempts;
        self.dead += more.dead;
    }
}
