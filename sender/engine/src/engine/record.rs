//! The part of a lane that outlives its owner.

use serde::{Deserialize, Serialize};

use super::baseline::BaselineRecord;
use super::breaker::BreakerRecord;
use super::limiter::Snapshot;
use super::time::{Instant, Nanos};

/// A lane's state for its next owner. Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneRecord {
    pub(super) limiter: Snapshot,
    /// True if the lane was given back in order.
    pub(super) clean: bool,
    /// The rest of the endpoint's pause.
    pub(super) pause: u64,
    pub(super) breaker: Option<BreakerRecord>,
    #[serde(default)]
    pub(super) baseline: Option<BaselineRecord>,
    /// The moment of the record.
    pub(super) at: u64,
    pub(super) term: u64,
}

impl LaneRecord {
    /// True for the last record of an owner that gave the lane back in order.
    #[must_use]
    pub fn is_final(&self) -> bool {
        self.clean
    }

    /// How long the breaker stays open, counted from [`Self::taken_at`]. Nothing while it is closed.
    #[must_use]
    pub fn breaker_open_for(&self) -> Option<Nanos> {
        self.breaker.as_ref().map(BreakerRecord::remaining)
    }

    /// The moment of the record, on the scale of the driver that persisted it. The record may miss attempts
    /// that ended at or after this moment.
    #[must_use]
    pub fn taken_at(&self) -> Instant {
        Instant(self.at)
    }
}
