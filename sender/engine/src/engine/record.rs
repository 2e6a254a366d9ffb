//! What of a lane outlives its owner.

use serde::{Deserialize, Serialize};

use super::baseline::BaselineRecord;
use super::breaker::BreakerRecord;
use super::limiter::Snapshot;
use super::time::{Instant, Nanos};

/// A lane's state, for whoever owns it next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneRecord {
    pub(super) limiter: Snapshot,
    /// Whether the lane was given back in order.
    pub(super) clean: bool,
    /// How much longer the endpoint wants to be left alone.
    pub(super) pause: u64,
    pub(super) breaker: Option<BreakerRecord>,
    /// What is usual for the endpoint. Owners before there was such a thing left none.
    #[serde(default)]
    pub(super) baseline: Option<BaselineRecord>,
    /// When it was taken.
    pub(super) at: u64,
    /// Under which ownership: owners of versions before this one ask for it.
    pub(super) term: u64,
}

impl LaneRecord {
    /// Whether this is the last word of an owner that stopped in order.
    #[must_use]
    pub fn is_final(&self) -> bool {
        self.clean
    }

    /// How much longer the breaker keeps the endpoint alone, counted from when this was taken; nothing while it is closed.
    #[must_use]
    pub fn breaker_open_for(&self) -> Option<Nanos> {
        self.breaker.as_ref().map(BreakerRecord::remaining)
    }

    /// When it was taken, on the scale of the driver that was told to persist it. What ended at or after this moment, the
    /// record may not tell of.
    #[must_use]
    pub fn taken_at(&self) -> Instant {
        Instant(self.at)
    }
}
