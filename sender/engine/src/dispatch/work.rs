//! The work of this process alone.

use crate::messages::command::{Fate, Outcome, Settlement};
use crate::messages::reply::SettleResult;

/// Settled and durable work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkDone {
    /// Deliveries delivered.
    pub delivered: u64,
    /// Attempts that failed.
    pub failed_attempts: u64,
    /// Dead letters.
    pub dead: u64,
}

impl WorkDone {
    /// Counts a settlement. A failed attempt counts even if the settlement was not applied.
    pub(super) fn count(&mut self, settled: &Settlement, result: SettleResult) {
        match (settled.fate, result) {
            (Fate::Delivered, SettleResult::Applied) => self.delivered += 1,
            (Fate::Dead(_), SettleResult::Applied) => self.dead += 1,
            _ => {}
        }
        let failed = settled.attempt.as_ref().is_some_and(|attempt| attempt.outcome != Outcome::Delivered);
        self.failed_attempts += u64::from(failed);
    }

    /// Adds work that is counted elsewhere.
    pub const fn add(&mut self, more: Self) {
        self.delivered += more.delivered;
        self.failed_attempts += more.failed_attempts;
        self.dead += more.dead;
    }
}
