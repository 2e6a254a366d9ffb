//! What the store knows of a subscriber: its lane, its bounds, its secrets.

use std::fmt;

pub use hookproof_words::ids::OwnerId;
pub use hookproof_words::states::{LaneState, WhenFull};

/// How much may wait on a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Deliveries.
    pub rows_max: u64,
    /// Bytes of bodies, counted per delivery.
    pub bytes_max: u64,
    /// What happens then.
    pub when_full: WhenFull,
}

/// How much the whole store may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Deliveries waiting, in total.
    pub waiting_rows_max: u64,
    /// Bytes of bodies waiting, in total, counted per delivery.
    pub waiting_bytes_max: u64,
    /// Dead letters kept, in total; the oldest are forgotten.
    pub dead_max: u64,
    /// Dead letters kept for each lane.
    pub dead_per_lane_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            waiting_rows_max: 20_000_000,
            waiting_bytes_max: 32 << 30,
            dead_max: 1_000_000,
            dead_per_lane_max: 100_000,
        }
    }
}

/// A signing secret. It does not show itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Wraps a secret in its text form.
    #[must_use]
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The text form.
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

/// How many deliveries are where. Of all that were ever accepted, each is in exactly one of four places:
/// `accepted = delivered + dead + coalesced + waiting`, after every commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ever recorded.
    pub accepted: u64,
    /// Taken by the endpoint.
    pub delivered: u64,
    /// Given up, and not redriven since; the forgotten ones included.
    pub dead: u64,
    /// Replaced by a newer one.
    pub coalesced: u64,
    /// Still owed.
    pub waiting: u64,
    /// The bytes of bodies still owed.
    pub waiting_bytes: u64,
    /// Those waiting that were tried before.
    pub retrying: u64,
    /// The dead letters kept.
    pub dead_kept: u64,
    /// Attempts that failed.
    pub failed_attempts: u64,
    /// The latencies of the attempts that succeeded, added up, in microseconds.
    pub latency_us: u64,
}

impl Counts {
    /// One more is owed.
    pub const fn accept(&mut self, bytes: u64) {
        self.accepted += 1;
        self.waiting += 1;
        self.waiting_bytes += bytes;
    }

    /// One of those waiting is not owed any more.
    pub const fn leave(&mut self, bytes: u64, tried: bool) {
        self.waiting = self.waiting.saturating_sub(1);
        self.waiting_bytes = self.waiting_bytes.saturating_sub(bytes);
        if tried {
            self.retrying = self.retrying.saturating_sub(1);
        }
    }

    /// Dead letters that are kept no more: beyond the bounds, purged, or too old.
    #[must_use]
    pub const fn dead_gone(&self) -> u64 {
        self.dead.saturating_sub(self.dead_kept)
    }

    /// Nothing was lost or invented.
    #[must_use]
    pub const fn conserved(&self) -> bool {
        self.accepted == self.delivered + self.dead + self.coalesced + self.waiting
            && self.retrying <= self.waiting
            && self.dead_kept <= self.dead
    }
}
