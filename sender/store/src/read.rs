//! Reads for operators, and for processes beside the writer. No read blocks writes.

use std::sync::Arc;
use std::time::Duration;

use hookproof_words::event_type::EventPatterns;
pub use hookproof_words::states::Place;

use super::change::RecordedChange;
use super::clock::{Beginning, Start};
use super::command::{Attempt, Body, Condition, KeptAnswer, OutboxId, Reason};
use super::error::StoreError;
use super::job::{Job, JobId};
use super::lane::{Bounds, Counts, LaneState, OwnerId, Pause, Retried, Secret};
pub use super::latency::{AttemptTimes, Histogram, LastHour, Measured, Over, TimesPage};
pub use super::node::{Node, Nodes};
use super::paging::{BadCursor, Cursor, Page};
use super::reply::Record;
use super::token::StoredToken;
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime, Term};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Cursor(#[from] BadCursor),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The reading side of a store. Each call reads one snapshot. Listings are paged and examine a limited number of
/// rows; [`Reader::dead_groups`], [`Reader::delivered`] and [`Reader::audit`] examine a whole span of time.
pub trait Reader: Notices + Send {
    fn outbox(&self, after: Option<OutboxId>, max: u32) -> Result<Vec<OutboxRow>, StoreError>;

    /// The newest first.
    fn outbox_rejected(&self, from: Option<Cursor>, max: u32) -> Result<Page<RejectedRow>, ReadError>;

    /// Subscribers that changed after version `since` of the set, including removed ones, in the order of changes.
    /// The version of the last one is the next `since`; 0 returns all.
    fn subscribers_since(&self, since: u64, max: u32) -> Result<Vec<Subscriber>, StoreError>;

    /// Subscribers that are not removed, the oldest first.
    fn subscribers(&self, from: Option<Cursor>, max: u32) -> Result<Page<Subscriber>, ReadError>;

    /// `lanes` is in order. Reads each by itself.
    fn subscribers_with(
        &self,
        lanes: &[LaneId],
        from: Option<Cursor>,
        max: u32,
    ) -> Result<Page<Subscriber>, ReadError> {
        let after = from.map(|cursor| cursor.place('s')).transpose()?.map(|at| LaneId(at[0]));
        let lanes = &lanes[lanes.partition_point(|lane| Some(*lane) <= after)..];
        let (now, later) = lanes.split_at(lanes.len().min(usize::try_from(max).unwrap_or(usize::MAX)));
        let found = now.iter().map(|lane| self.subscriber(&SubscriberRef::Lane(*lane)));
        let items = found.filter_map(Result::transpose).collect::<Result<_, _>>()?;
        let last = now.last().filter(|_| !later.is_empty());
        Ok(Page { items, next: last.map(|lane| Cursor::new('s', [lane.0, 0])) })
    }

    /// `None` for a removed subscriber.
    fn subscriber(&self, which: &SubscriberRef) -> Result<Option<Subscriber>, StoreError>;

    /// The valid secrets of a lane, the newest first, at most [`crate::command::SECRETS_MAX`]. More may exist after the
    /// clock was set back; then the first to retire are omitted. Nothing else reads secrets.
    fn secrets(&self, lane: LaneId, now: StoreTime) -> Result<Vec<LiveSecret>, StoreError>;

    fn status(&self, now: StoreTime) -> Result<Status, StoreError>;

    fn lanes(&self, from: Option<Cursor>, max: u32) -> Result<Page<LaneStatus>, ReadError>;

    fn lane(&self, lane: LaneId) -> Result<Option<LaneStatus>, StoreError>;

    /// In the order given. Omits lanes without any.
    fn checkpoints(&self, lanes: &[LaneId]) -> Result<Vec<(LaneId, Record)>, StoreError>;

    /// Latencies of lanes, in the order given. Omits lanes without any. The last second or so of each delivering
    /// process may be missing.
    fn latencies(&self, lanes: &[LaneId], over: Over) -> Result<Vec<(LaneId, Measured)>, StoreError>;

    /// In the order of lanes. Approximate and cheap.
    fn last_hour(&self, lanes: &[LaneId], now: StoreTime) -> Result<Vec<LastHour>, StoreError>;

    /// Deliveries, the newest first. Those that wait on one lane come by due time.
    fn deliveries(&self, of: Filter, from: Option<Cursor>, max: u32) -> Result<Page<Delivery>, ReadError>;

    fn delivery(&self, delivery: DeliveryId) -> Result<Option<Delivery>, StoreError>;

    /// The deliveries of all events with this public id, the oldest first.
    fn deliveries_of_event(
        &self,
        event: &str,
        lanes: &Lanes,
        from: Option<Cursor>,
        max: u32,
    ) -> Result<Page<Delivery>, ReadError>;

    /// Of its event, itself too, the oldest first.
    fn siblings(&self, delivery: DeliveryId) -> Result<Vec<DeliveryId>, StoreError>;

    /// The lanes that have the event with this public id, if it was partly accepted.
    fn lanes_in_part(&self, event: &str) -> Result<Vec<LaneId>, StoreError>;

    fn body(&self, delivery: DeliveryId) -> Result<Option<Body>, StoreError>;

    /// Attempts that have ended, by their beginning, the newest first.
    fn attempts(&self, of: Tries, from: Option<Cursor>, max: u32) -> Result<Page<Tried>, ReadError>;

    /// Those that are kept, the newest first.
    fn attempts_of(&self, delivery: DeliveryId) -> Result<Vec<Attempted>, StoreError>;

    /// The newest first.
    fn resent(&self, delivery: DeliveryId) -> Result<Vec<Resent>, StoreError>;

    /// The newest first.
    fn dead(&self, lanes: &Lanes, from: Option<Cursor>, max: u32) -> Result<Page<DeadLetter>, ReadError>;

    /// Dead letters since then, by lane, reason, status, error and hour, the largest groups first.
    fn dead_groups(&self, since: StoreTime, max: u32) -> Result<Vec<DeadGroup>, StoreError>;

    /// How many deliveries are kept as delivered to the lane in `[since, before)`, of events that match, if named.
    fn delivered(
        &self,
        lane: LaneId,
        span: (StoreTime, StoreTime),
        events: Option<&EventPatterns>,
    ) -> Result<u64, StoreError>;

    /// Attempts begun in each second of `[from, until)`, by lane, at most `max` rows in the order of time. Omits
    /// seconds without any.
    fn audit(
        &self,
        lane: Option<LaneId>,
        from: StoreTime,
        until: StoreTime,
        max: u32,
    ) -> Result<Vec<AuditSecond>, StoreError>;

    /// Attempts begun in `[from, until)`, and those of them answered 429, by lane. Omits lanes without any.
    fn limited(&self, from: StoreTime, until: StoreTime) -> Result<Vec<Limited>, StoreError>;

    /// The times of attempts begun before `until`, in the order of time. Examines at most `max` attempts from the
    /// given time and delivery on; continue from [`TimesPage::next`]. After its delivery is deleted, an attempt lacks
    /// the times since the event.
    fn attempt_times(
        &self,
        lane: Option<LaneId>,
        from: (StoreTime, DeliveryId),
        until: StoreTime,
        max: u32,
    ) -> Result<TimesPage, StoreError>;

    /// The time from which a process that starts now would count. Writes nothing.
    fn read_clock(&self, beginning: Beginning<'_>) -> Result<Start, StoreError>;

    fn notified(&self) -> Result<Vec<(LaneId, Condition)>, StoreError>;

    /// All that are kept, or one; the newest first.
    fn jobs(&self, which: Option<JobId>) -> Result<Vec<Job>, StoreError>;

    /// Also expired ones, by name.
    fn tokens(&self) -> Result<Vec<StoredToken>, StoreError>;

    /// The log of changes, the newest first.
    fn changes(
        &self,
        of: &ChangesOf,
        from: Option<Cursor>,
        max: u32,
    ) -> Result<Page<RecordedChange>, ReadError>;

    fn owners(&self) -> Result<Vec<Owner>, StoreError>;

    fn nodes(&self) -> Result<Nodes, StoreError>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxRow {
    pub id: OutboxId,
    pub kind: Arc<str>,
    pub key: Option<Arc<str>>,
    pub data: Arc<str>,
    /// Its public id, if the application gave one.
    pub event: Option<Arc<str>>,
    /// The reason why the row cannot become an event. The fields above then hold only the readable part.
    pub unreadable: Option<String>,
}

impl OutboxRow {
    /// Longer rows are not read, because no event may be that long.
    const BYTES_MAX: u64 = 4 << 20;
    /// One read of the outbox ends after this many bytes.
    pub(crate) const PAGE_BYTES_MAX: usize = 8 << 20;

    pub(crate) fn refusal(id: OutboxId, bytes: u64) -> Option<String> {
        if !id.is_ordinary() {
            return Some(format!("its id is {}; expected 1 to {}, or none given", id.0, OutboxId::END.0 - 1));
        }
        (bytes > Self::BYTES_MAX)
            .then(|| format!("the row is {bytes} bytes long; expected at most {}", Self::BYTES_MAX))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedRow {
    pub row: OutboxRow,
    pub why: String,
    pub at: StoreTime,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubscriberRef {
    Lane(LaneId),
    Id(Arc<str>),
    Name(Arc<str>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscriber {
    pub lane: LaneId,
    pub id: Arc<str>,
    pub name: Arc<str>,
    pub url: Arc<str>,
    /// The wanted patterns of event types, as JSON text.
    pub patterns: Arc<str>,
    pub settings: Arc<str>,
    pub bounds: Bounds,
    pub state: LaneState,
    /// The version of the subscriber set after its latest change.
    pub version: u64,
    pub created: StoreTime,
    pub retried: Retried,
    pub pause: Pause,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveSecret {
    pub secret: Secret,
    pub created: StoreTime,
    pub retires: Option<StoreTime>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    pub counts: Counts,
    /// Delivered in the last hour, to the minute.
    pub delivered_last_hour: u64,
    pub failed_last_hour: u64,
    /// Dead letters made in the last hour, minus those redriven.
    pub dead_last_hour: u64,
    pub latency_last_hour: Option<Nanos>,
    /// The due time of the longest due delivery.
    pub oldest_due: Option<StoreTime>,
    /// When the delivery that expires first was received.
    pub next_to_expire: Option<StoreTime>,
    pub subscribers: [u64; 3],
    pub unreadable: u64,
    pub outbox: u64,
    pub outbox_rejected: u64,
}

impl Status {
    /// The counts and the figures of the last hour. `before`: delivered, failed attempts, dead and latency at the first
    /// mark of that hour. Without a mark, nothing happened since.
    pub(crate) fn of_hour(counts: Counts, before: Option<[u64; 4]>) -> Self {
        let now = [counts.delivered, counts.failed_attempts, counts.dead, counts.latency_us];
        let before = before.unwrap_or(now);
        let [delivered, failed, dead, latency_us] =
            std::array::from_fn(|figure| now[figure].saturating_sub(before[figure]));
        Self {
            counts,
            delivered_last_hour: delivered,
            failed_last_hour: failed,
            dead_last_hour: dead,
            latency_last_hour: latency_us.checked_div(delivered).map(Nanos::from_micros),
            ..Self::default()
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneStatus {
    pub lane: LaneId,
    pub id: Arc<str>,
    pub name: Arc<str>,
    pub state: LaneState,
    pub pause: Pause,
    pub bounds: Bounds,
    pub counts: Counts,
    /// When its first waiting delivery is due.
    pub next: Option<StoreTime>,
    pub owner: Option<(OwnerId, Term)>,
}

/// Without a default, so that each caller names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lanes {
    All,
    One(LaneId),
    /// In order.
    These(Arc<[LaneId]>),
}

impl From<Option<LaneId>> for Lanes {
    fn from(lane: Option<LaneId>) -> Self {
        lane.map_or(Self::All, Self::One)
    }
}

impl Lanes {
    #[must_use]
    pub fn have(&self, lane: LaneId) -> bool {
        match self {
            Self::All => true,
            Self::One(one) => *one == lane,
            Self::These(these) => these.binary_search(&lane).is_ok(),
        }
    }

    /// `None`: all.
    pub(super) fn listed(&self) -> Option<&[LaneId]> {
        match self {
            Self::All => None,
            Self::One(lane) => Some(std::slice::from_ref(lane)),
            Self::These(these) => Some(these),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    pub lanes: Lanes,
    pub place: Option<Place>,
}

impl Filter {
    pub(super) fn queue(&self) -> Option<LaneId> {
        match self.lanes {
            Lanes::One(lane) if self.place == Some(Place::Waiting) => Some(lane),
            _ => None,
        }
    }
}

/// Which changes a listing has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangesOf {
    /// Its id, or its name at the time of the change.
    pub subscriber: Option<Arc<str>>,
    /// As it is recorded, or without `token ` or `user ` before it.
    pub by: Option<Arc<str>>,
    /// Ids of subscribers; all changes if none.
    pub within: Option<Vec<Arc<str>>>,
}

/// Which attempts a listing has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tries {
    pub lanes: Lanes,
    pub failed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    pub lane: LaneId,
    /// When its event was received, if the delivery is still kept.
    pub received: Option<StoreTime>,
    /// Without its answer.
    pub attempted: Attempted,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub delivery: DeliveryId,
    pub lane: LaneId,
    pub event: Arc<str>,
    pub kind: Arc<str>,
    pub key: Option<Arc<str>>,
    pub received: StoreTime,
    pub place: Place,
    pub attempts: u32,
    pub bytes: u64,
    /// The due time while it waits, the settlement time afterwards.
    pub at: StoreTime,
    /// No attempt starts at or after this time.
    pub expires: StoreTime,
    /// The reason why it is a dead letter, if it is one with a readable reason.
    pub reason: Option<Reason>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resent {
    pub at: StoreTime,
    /// The delivery's last attempt before.
    pub after: Option<StoreTime>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempted {
    pub delivery: DeliveryId,
    pub number: u32,
    pub attempt: Attempt,
}

impl Attempted {
    pub(crate) fn with_answers(mut attempts: Vec<Self>, answers: Vec<(StoreTime, KeptAnswer)>) -> Vec<Self> {
        for (at, answer) in answers {
            if let Some(its) = attempts.iter_mut().find(|attempted| attempted.attempt.at == at) {
                its.attempt.details.answer = Some(Arc::new(answer));
            }
        }
        attempts
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The delivery. Its `at` is the time when it was given up.
    pub delivery: Delivery,
    pub reason: Reason,
    pub status: Option<u16>,
    pub error: Option<Box<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadGroup {
    pub lane: LaneId,
    pub reason: Reason,
    pub status: Option<u16>,
    pub error: Option<Box<str>>,
    pub hour: StoreTime,
    pub rows: u64,
    pub attempts: u64,
    pub first: StoreTime,
    pub last: StoreTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditSecond {
    pub lane: LaneId,
    pub second: u64,
    pub attempts: u64,
    pub limited: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limited {
    pub lane: LaneId,
    pub attempts: u64,
    pub limited: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub owner: OwnerId,
    pub lanes: u64,
    /// When its lease ends, by [`Nodes::lease_time`].
    pub until: StoreTime,
}

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glance {
    /// Random, chosen when the store was made, so that ids of two stores differ.
    pub identity: u64,
    /// Increments with every change of a subscriber or a token.
    pub roster: u64,
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
    pub outbox: Option<OutboxId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The lanes, and when the first new delivery of each is due.
    pub lanes: Vec<(LaneId, StoreTime)>,
    pub last: DeliveryId,
    pub more: bool,
}
