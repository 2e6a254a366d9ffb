//! How a process learns of other processes' commits: it polls a cheap summary, and reads more after a change.

use std::time::Duration;

use super::StoreError;
use super::command::OutboxId;
use crate::engine::{DeliveryId, LaneId, StoreTime};

/// Other processes' changes. [`super::Reader`] reads the rest.
pub trait Notices {
    /// A summary that tells whether something changed, cheap enough to read every few milliseconds.
    fn glance(&self) -> Result<Glance, StoreError>;

    /// The pause between polls after some time without changes, if polls cost other users of the store processor
    /// time.
    fn calm_pause(&self) -> Option<Duration> {
        None
    }

    /// Lanes with deliveries recorded after `after`, and when the first of these is due. Examines at most `max`
    /// deliveries; continue from [`Work::last`].
    fn work_after(&self, after: DeliveryId, max: u32) -> Result<Work, StoreError>;

    /// When the first waiting delivery of each of these lanes is due. Omits empty lanes.
    fn heads(&self, lanes: &[LaneId]) -> Result<Vec<(LaneId, StoreTime)>, StoreError>;
}

/// A summary of the store's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glance {
    /// Random, chosen when the store was made, so that ids of two stores differ.
    pub identity: u64,
    /// Increments with every change of a subscriber.
    pub roster: u64,
    /// The latest recorded delivery.
    pub last: DeliveryId,
    /// All deliveries up to this one are visible. After it, some may become visible later, because several nodes
    /// record at the same time.
    pub settled: DeliveryId,
    /// Increments when deliveries become visible before the last one.
    pub late: u64,
    /// Increments when earlier deliveries become due: see [`Notices::heads`].
    pub stirred: u64,
    /// Changes when a node comes, goes, drains, stops draining or announces something else, and when a lane is handed
    /// back: see [`super::read::Reader::nodes`]. An expired lease changes nothing.
    pub nodes: u64,
    /// The latest row of the outbox, if any.
    pub outbox: Option<OutboxId>,
}

/// New work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The lanes, and when the first new delivery of each is due.
    pub lanes: Vec<(LaneId, StoreTime)>,
    /// The last delivery examined.
    pub last: DeliveryId,
    /// More may remain.
    pub more: bool,
}
