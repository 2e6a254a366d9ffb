//! A subscriber's lane in the store: its bounds, its secrets, its counts.

use std::fmt;
use std::sync::Arc;

pub use crate::engine::Retried;
use crate::engine::StoreTime;
pub use hookproof_words::ids::OwnerId;
pub use hookproof_words::states::{LaneState, WhenFull};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub rows_max: u64,
    /// The most bytes of bodies; a shared body counts for each delivery.
    pub bytes_max: u64,
    pub when_full: WhenFull,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub waiting_rows_max: u64,
    /// The most bytes of waiting bodies; a shared body counts for each delivery.
    pub waiting_bytes_max: u64,
    /// The most kept dead letters; beyond it the oldest are deleted.
    pub dead_max: u64,
    pub dead_per_lane_max: u64,
    /// The most changes in the log; beyond it the oldest are deleted.
    pub changes_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            waiting_rows_max: 20_000_000,
            waiting_bytes_max: 32 << 30,
            dead_max: 1_000_000,
            dead_per_lane_max: 100_000,
            changes_max: 100_000,
        }
    }
}

/// An operator's pause, or why the sender disabled the lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    pub reason: Option<Arc<str>>,
    /// By the wall clock. A sweep ends the pause then.
    pub until: Option<StoreTime>,
}

impl Pause {
    #[must_use]
    pub fn why_disabled(&self) -> &str {
        self.reason.as_deref().unwrap_or("its endpoint failed")
    }
}

/// A signing secret. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    #[must_use]
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The number of deliveries in each state. After every commit, `accepted = delivered + dead + coalesced +
/// waiting`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub accepted: u64,
    pub delivered: u64,
    /// Those not redriven, including deleted ones.
    /// Dead letters that were not redriven, including deleted ones.
    pub dead: u64,
    /// And forgotten ones.
    pub coalesced: u64,
    pub waiting: u64,
    pub waiting_bytes: u64,
    /// Tried before.
    /// Waiting deliveries that were tried before.
    pub retrying: u64,
    pub dead_kept: u64,
    pub failed_attempts: u64,
    /// The sum of the latencies of successful attempts, in microseconds.
    pub latency_us: u64,
}

impl Counts {
    pub const fn accept(&mut self, bytes: u64) {
        self.accepted += 1;
        self.waiting += 1;
        self.waiting_bytes += bytes;
    }

    pub const fn leave(&mut self, bytes: u64, tried: bool) {
        self.waiting = self.waiting.saturating_sub(1);
        self.waiting_bytes = self.waiting_bytes.saturating_sub(bytes);
        if tried {
            self.retrying = self.retrying.saturating_sub(1);
        }
    }

    /// Deleted dead letters: beyond the bounds, purged, or too old.
    #[must_use]
    pub const fn dead_gone(&self) -> u64 {
        self.dead.saturating_sub(self.dead_kept)
    }

    /// True if no delivery was lost or invented.
    #[must_use]
    pub const fn conserved(&self) -> bool {
        self.accepted == self.delivered + self.dead + self.coalesced + self.waiting
            && self.retrying <= self.waiting
            && self.dead_kept <= self.dead
    }
}
