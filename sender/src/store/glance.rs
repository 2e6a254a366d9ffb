//! What a process looks at again and again, to see what others did.

use super::command::OutboxId;
use crate::engine::{DeliveryId, LaneId, StoreTime};

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
    /// Grows whenever deliveries become due that were recorded before: see [`super::read::Reader::heads`].
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
