//! What operators, and processes beside the one that writes, may ask of a store. No reading holds up the writing.

use std::sync::Arc;

pub use hookproof_words::states::Place;

use super::clock::{Beginning, Start};
use super::command::{Attempt, Body, OutboxId, Reason};
use super::error::StoreError;
use super::lane::{Bounds, Counts, LaneState, OwnerId, Secret};
pub use super::latency::{AttemptTimes, Histogram, LastHour, Measured, Over, TimesPage};
pub use super::node::{Node, Nodes};
pub use super::notices::{Glance, Notices, Work};
use super::paging::{BadCursor, Cursor, Page};
use super::reply::Record;
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime, Term};

/// A reading failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The caller's cursor.
    #[error(transparent)]
    Cursor(#[from] BadCursor),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The reading side of a store. Each call sees one moment of it; all listings are paged and look at a bounded number
/// of rows at a time, [`Reader::dead_groups`] and [`Reader::audit`] at what the span of time holds.
pub trait Reader: Notices + Send {
    /// Rows of the outbox, the oldest first, after the given one or from the first on.
    fn outbox(&self, after: Option<OutboxId>, max: u32) -> Result<Vec<OutboxRow>, StoreError>;

    /// Outbox rows that were set aside, the newest first.
    fn outbox_rejected(&self, from: Option<Cursor>, max: u32) -> Result<Page<RejectedRow>, ReadError>;

    /// Subscribers that changed after the roster `since`, the removed ones included, in the order of their changes;
    /// all there are, since 0. The roster that this brings one up to is the last one's version.
    fn subscribers_since(&self, since: u64, max: u32) -> Result<Vec<Subscriber>, StoreError>;

    /// Subscribers that are not removed, the oldest first.
    fn subscribers(&self, from: Option<Cursor>, max: u32) -> Result<Page<Subscriber>, ReadError>;

    /// One subscriber, unless it is removed.
    fn subscriber(&self, which: &Whom) -> Result<Option<Subscriber>, StoreError>;

    /// The secrets of a lane that have not retired, the newest first, [`SECRETS_MAX`] at most. More may be there: an older
    /// version took 8, and the clock may be set back. Those left out are the first to retire. Nothing else reads secrets.
    ///
    /// [`SECRETS_MAX`]: crate::command::SECRETS_MAX
    fn secrets(&self, lane: LaneId, now: StoreTime) -> Result<Vec<LiveSecret>, StoreError>;

    /// The figures for the whole store.
    fn status(&self, now: StoreTime) -> Result<Status, StoreError>;

    /// The figures of lanes, the oldest first.
    fn lanes(&self, from: Option<Cursor>, max: u32) -> Result<Page<LaneStatus>, ReadError>;

    /// The figures of one lane, removed or not.
    fn lane(&self, lane: LaneId) -> Result<Option<LaneStatus>, StoreError>;

    /// Lanes whose latest checkpoint tells of an open breaker, the oldest first. Reads every checkpoint.
    fn broken_off(&self, max: u32) -> Result<Vec<Checkpoint>, StoreError>;

    /// What was measured of lanes, in the order asked for; those without any are left out. The last second or so may be missing, of
    /// each process that delivers.
    fn latencies(&self, lanes: &[LaneId], over: Over) -> Result<Vec<(LaneId, Measured)>, StoreError>;

    /// What became of the attempts of lanes in the last hour, in the order of the lanes: roughly, for it is cheap.
    fn last_hour(&self, lanes: &[LaneId], now: StoreTime) -> Result<Vec<LastHour>, StoreError>;

    /// Deliveries, the newest first; those that wait on one lane in the order in which they are due.
    fn deliveries(&self, of: Filter, from: Option<Cursor>, max: u32) -> Result<Page<Delivery>, ReadError>;

    /// One delivery.
    fn delivery(&self, delivery: DeliveryId) -> Result<Option<Delivery>, StoreError>;

    /// The deliveries of the event with this public id, of the newest such event, the oldest first.
    fn deliveries_of_event(
        &self,
        event: &str,
        from: Option<Cursor>,
        max: u32,
    ) -> Result<Page<Delivery>, ReadError>;

    /// The lanes that have the event with this public id, if it was taken in part.
    fn lanes_in_part(&self, event: &str) -> Result<Vec<LaneId>, StoreError>;

    /// What is, or was, sent for a delivery.
    fn body(&self, delivery: DeliveryId) -> Result<Option<Body>, StoreError>;

    /// The attempts made for a delivery, the newest first, as far as they are kept.
    fn attempts_of(&self, delivery: DeliveryId) -> Result<Vec<Attempted>, StoreError>;

    /// Dead letters, the newest first.
    fn dead(
        &self,
        lane: Option<LaneId>,
        from: Option<Cursor>,
        max: u32,
    ) -> Result<Page<DeadLetter>, ReadError>;

    /// Dead letters since a moment, by lane, reason, status, error and hour; the largest groups first.
    fn dead_groups(&self, since: StoreTime, max: u32) -> Result<Vec<DeadGroup>, StoreError>;

    /// How many attempts began in each second of `[from, until)`, by lane; seconds without any are left out. At most
    /// `max` rows, in the order of time.
    fn audit(
        &self,
        lane: Option<LaneId>,
        from: StoreTime,
        until: StoreTime,
        max: u32,
    ) -> Result<Vec<AuditSecond>, StoreError>;

    /// How many attempts began in `[from, until)`, and how many of these were answered 429, by lane; lanes without any are left out.
    fn limited(&self, from: StoreTime, until: StoreTime) -> Result<Vec<Limited>, StoreError>;

    /// How long the attempts took that began before `until`, in the order of time. Looks at no more than `max` attempts, from
    /// the moment and the delivery given on; go on from [`TimesPage::next`]. An attempt whose delivery is forgotten is told
    /// without the times that count from its event.
    fn attempt_times(
        &self,
        lane: Option<LaneId>,
        from: (StoreTime, DeliveryId),
        until: StoreTime,
        max: u32,
    ) -> Result<TimesPage, StoreError>;

    /// From which time a process would count that begins now. Writes nothing.
    fn look_at_clock(&self, beginning: Beginning<'_>) -> Result<Start, StoreError>;

    /// Everyone who owns lanes, or did until lately.
    fn owners(&self) -> Result<Vec<Owner>, StoreError>;

    /// All nodes.
    fn nodes(&self) -> Result<Nodes, StoreError>;
}

/// A row of the outbox, as an application put it there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxRow {
    /// The row.
    pub id: OutboxId,
    /// The event's type.
    pub kind: Arc<str>,
    /// Its key.
    pub key: Option<Arc<str>>,
    /// Its data, as JSON text.
    pub data: Arc<str>,
    /// Its public id, if the application gave one.
    pub event: Option<Arc<str>>,
    /// Why it is no text that could be an event; what is said of it above is then only what could be read of it.
    pub unreadable: Option<String>,
}

/// An outbox row that could not become an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedRow {
    /// What it was.
    pub row: OutboxRow,
    /// What is wrong with it.
    pub why: String,
    /// When it was set aside.
    pub at: StoreTime,
}

/// A way to name a subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whom {
    /// By lane.
    Lane(LaneId),
    /// By public id.
    Id(Arc<str>),
    /// By name.
    Name(Arc<str>),
}

/// A subscriber, without its secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscriber {
    /// Its lane.
    pub lane: LaneId,
    /// Its public id.
    pub id: Arc<str>,
    /// What people call it.
    pub name: Arc<str>,
    /// Its endpoint.
    pub url: Arc<str>,
    /// The patterns of event types that it wants, as JSON text.
    pub patterns: Arc<str>,
    /// Everything else that it is owed, as JSON text.
    pub settings: Arc<str>,
    /// How much may wait for it.
    pub bounds: Bounds,
    /// What may be done for it.
    pub state: LaneState,
    /// The roster that its latest change made.
    pub version: u64,
    /// When it was added.
    pub created: StoreTime,
}

/// A secret that signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveSecret {
    /// The secret.
    pub secret: Secret,
    /// Since when.
    pub created: StoreTime,
    /// Until when; for good, if nothing.
    pub retires: Option<StoreTime>,
}

/// The figures for the whole store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// All counts.
    pub counts: Counts,
    /// Delivered in the last hour, to the minute.
    pub delivered_last_hour: u64,
    /// Attempts that failed in the last hour.
    pub failed_last_hour: u64,
    /// Dead letters made in the last hour, less those redriven.
    pub dead_last_hour: u64,
    /// The mean latency of what was delivered in the last hour.
    pub latency_last_hour: Option<Nanos>,
    /// When the longest due delivery was due.
    pub oldest_due: Option<StoreTime>,
    /// When the delivery that expires first, of those waiting, was received.
    pub next_to_expire: Option<StoreTime>,
    /// Subscribers that are active, paused, disabled.
    pub subscribers: [u64; 3],
    /// Dead letters kept of which some part could not be read.
    pub unreadable: u64,
    /// Rows in the outbox.
    pub outbox: u64,
    /// Outbox rows set aside.
    pub outbox_rejected: u64,
}

/// The figures of one lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneStatus {
    /// The lane.
    pub lane: LaneId,
    /// The subscriber's public id.
    pub id: Arc<str>,
    /// The subscriber's name.
    pub name: Arc<str>,
    /// What may be done for it.
    pub state: LaneState,
    /// How much may wait.
    pub bounds: Bounds,
    /// All counts.
    pub counts: Counts,
    /// When its first waiting delivery is, or was, due.
    pub next: Option<StoreTime>,
    /// Who owns it, by which ownership.
    pub owner: Option<(OwnerId, Term)>,
}

/// A lane's latest checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The lane.
    pub lane: LaneId,
    /// The subscriber's public id.
    pub id: Arc<str>,
    /// The subscriber's name.
    pub name: Arc<str>,
    /// What its owner persisted last.
    pub record: Record,
}

/// Which deliveries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of one lane.
    pub lane: Option<LaneId>,
    /// In one place.
    pub place: Option<Place>,
}

impl Filter {
    /// The lane whose queue is asked for, if it is one.
    pub(super) fn queue(self) -> Option<LaneId> {
        self.lane.filter(|_| self.place == Some(Place::Waiting))
    }
}

/// One delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The delivery.
    pub delivery: DeliveryId,
    /// The lane.
    pub lane: LaneId,
    /// The event's public id.
    pub event: Arc<str>,
    /// The event's type.
    pub kind: Arc<str>,
    /// The event's key.
    pub key: Option<Arc<str>>,
    /// When the event was received.
    pub received: StoreTime,
    /// Where it is.
    pub place: Place,
    /// Attempts made.
    pub attempts: u32,
    /// The size of its body.
    pub bytes: u64,
    /// When it is due, while it waits; when it was settled, after.
    pub at: StoreTime,
    /// No attempt from then on.
    pub expires: StoreTime,
}

/// An attempt made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempted {
    /// For which delivery.
    pub delivery: DeliveryId,
    /// The which, from 1.
    pub number: u32,
    /// How it went.
    pub attempt: Attempt,
}

/// A delivery given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The delivery; its `at` is when it was given up.
    pub delivery: Delivery,
    /// Why.
    pub reason: Reason,
    /// The last attempt's status.
    pub status: Option<u16>,
    /// The last attempt's error.
    pub error: Option<Box<str>>,
}

/// Dead letters that have something in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadGroup {
    /// The lane.
    pub lane: LaneId,
    /// Why.
    pub reason: Reason,
    /// The last attempt's status.
    pub status: Option<u16>,
    /// The last attempt's error.
    pub error: Option<Box<str>>,
    /// The beginning of the hour in which they were given up.
    pub hour: StoreTime,
    /// How many.
    pub rows: u64,
    /// All attempts made for them.
    pub attempts: u64,
    /// The first of them.
    pub first: StoreTime,
    /// The last of them.
    pub last: StoreTime,
}

/// What began in one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditSecond {
    /// The lane.
    pub lane: LaneId,
    /// The second, since 1970.
    pub second: u64,
    /// Attempts begun.
    pub attempts: u64,
    /// Of these, the ones answered 429.
    pub limited: u64,
}

/// How often a lane was told that it sends too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limited {
    /// The lane.
    pub lane: LaneId,
    /// Attempts begun.
    pub attempts: u64,
    /// Of these, the ones answered 429.
    pub limited: u64,
}

/// Somebody who owns lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Who.
    pub owner: OwnerId,
    /// How many lanes.
    pub lanes: u64,
    /// When its leases end, by [`Nodes::lease_time`].
    pub until: StoreTime,
}
