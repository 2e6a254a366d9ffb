//! How a process learns what others did: it glances again and again, and looks closer where a glance shows a change.

use std::time::Duration;

use super::StoreError;
use super::command::OutboxId;
use crate::engine::{DeliveryId, LaneId, StoreTime};

/// What others did to a store. The rest of what a glance tells of is read as by anybody: see [`super::Reader`].
pub trait Notices {
    /// Everything that tells whether something has changed, in next to no time: cheap enough to ask every few
    /// milliseconds.
    fn glance(&self) -> Result<Glance, StoreError>;

    /// How long to wait between two glances once nothing has changed for a while, where each takes processor time that
    /// others on the store need. Nothing, where it is no matter.
    fn calm_pause(&self) -> Option<Duration> {
        None
    }

    /// Lanes for which deliveries were recorded after `after`, and when the first of these is due. Looks at no more
    /// than `max` deliveries; go on from [`Work::last`].
    fn work_after(&self, after: DeliveryId, max: u32) -> Result<Work, StoreError>;

    /// When the first waiting delivery of each of these lanes is due, for those that have any.
    fn heads(&self, lanes: &[LaneId]) -> Result<Vec<(LaneId, StoreTime)>, StoreError>;
}

/// Whether anything has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glance {
    /// Drawn when the store was made, so that ids of two stores can be told apart.
    pub identity: u64,
    /// Grows with every change of a subscriber.
    pub roster: u64,
    /// The latest delivery recorded.
    pub last: DeliveryId,
    /// All deliveries up to this one are there to be read, of those that ever will be. Between it and the last some may come
    /// to be seen yet, where several nodes record at the same time.
    pub settled: DeliveryId,
    /// Grows whenever deliveries come to be seen before the last one.
    pub late: u64,
    /// Grows whenever deliveries become due that were recorded before: see [`Notices::heads`].
    pub stirred: u64,
    /// Another number than before whenever a node came, went, began or ceased to drain, or says something else of itself, and
    /// when a lane was handed back: see [`super::read::Reader::nodes`]. A lease that ends changes nothing.
    pub nodes: u64,
    /// The latest row of the outbox, if it holds any.
    pub outbox: Option<OutboxId>,
}

/// New work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The lanes, and when the first new delivery of each is due.
    pub lanes: Vec<(LaneId, StoreTime)>,
    /// The last delivery looked at.
    pub last: DeliveryId,
    /// There may be more.
    pub more: bool,
}
