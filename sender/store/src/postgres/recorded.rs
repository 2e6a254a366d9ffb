//! Rows that a commit records after its commands.

use std::sync::Arc;

use crate::command::{AttemptOutcome, Body, Reason};
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use crate::read::Place;

#[derive(Debug)]
pub(super) struct NewEvent {
    pub(super) number: i64,
    pub(super) id: Arc<str>,
    pub(super) kind: Arc<str>,
    pub(super) key: Option<Arc<str>>,
    pub(super) received: StoreTime,
    pub(super) in_part: bool,
    pub(super) body: Option<Body>,
    pub(super) bodies: Vec<i64>,
    pub(super) deliveries: Vec<DeliveryId>,
}

#[derive(Debug)]
pub(super) struct NewDelivery {
    pub(super) lane: LaneId,
    pub(super) event: i64,
    /// `None` for the body in the event's row.
    pub(super) body: Option<i64>,
    pub(super) bytes: u64,
    pub(super) place: Place,
    pub(super) at: StoreTime,
    pub(super) expires: StoreTime,
    pub(super) ttl: Nanos,
    pub(super) reason: Option<Reason>,
    pub(super) coalesce: Option<Arc<str>>,
    pub(super) signature: Option<Arc<str>>,
}

#[derive(Debug)]
pub(super) struct NewAttempt {
    pub(super) at: StoreTime,
    pub(super) delivery: DeliveryId,
    pub(super) lane: LaneId,
    pub(super) number: u32,
    pub(super) latency: Nanos,
    pub(super) outcome: AttemptOutcome,
    pub(super) status: Option<i32>,
    pub(super) error: Option<Box<str>>,
    pub(super) body_hash: u64,
    pub(super) before: Option<StoreTime>,
    pub(super) capped: bool,
    /// Whether the delivery has no attempt yet, so that this one cannot exist.
    pub(super) is_first: bool,
}
