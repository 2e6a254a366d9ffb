use std::ops::AddAssign;
use std::sync::Arc;

use hookproof_words::states::Place;

use super::command::{OutboxId, SealedTable};
use super::job::{JOB_IDS_MAX, Job, JobId, JobState, OPEN_JOBS_MAX};
use super::lane::{Bounds, LaneState, OwnerId};
use super::node::Nodes;
use super::token::TOKENS_MAX;
use crate::engine::{DeliveryId, LaneId, StoreTime, Term};

/// Given once the command's effect is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Emitted(Emitted),
    Claimed(Claimed),
    /// One result for each settlement, in order.
    Settled(Vec<SettleResult>),
    /// Those that the owner now has.
    Acquired(Vec<TakenLane>),
    Renewed(Renewed),
    Subscribed {
        lane: LaneId,
    },
    Redriven(Redriven),
    Forgotten {
        rows: u64,
        /// The last one looked at, if there may be more.
        last: Option<DeliveryId>,
    },
    /// Also the last delivery done, unless all are.
    Erased(Erased, Option<DeliveryId>),
    Resealed(Resealed),
    Retried {
        lane: LaneId,
        rows: u64,
        more: bool,
    },
    Resent,
    Dropped {
        rows: u64,
        more: bool,
    },
    Swept(Swept),
    Purged(Purged),
    /// As the command left it.
    Job(Box<Job>),
    Done,
    Refused(Refusal),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error(
        "the subscribers have changed: the event was matched with version {known}, the present one is \
         {current}; match it again"
    )]
    StaleRoster { known: u64, current: u64 },
    /// Lanes that refuse instead of shedding are full.
    #[error("lanes without room for the event: {}; the first is lane {}: {}", .0.len(), .0.first().map_or(0, |full| full.lane.0), .0.first().map_or("full", |full| full.bound.as_str()))]
    Full(Vec<FullLane>),
    /// A program's long read transaction keeps the log from being truncated.
    #[error(
        "the database's log has grown to {} MiB: a program keeps a read transaction open; end it",
        .bytes >> 20
    )]
    LogFull { bytes: u64 },
    /// The remaining room is kept for deliveries.
    #[error("the disk is full: events are refused, deliveries continue; free some space")]
    DiskFull,
    #[error("outbox row {} is gone: another process took it", .0.0)]
    OutboxTaken(OutboxId),
    #[error("outbox row {} has another id: another process took a part of it; read it again", .0.0)]
    OutboxNamed(OutboxId),
    #[error("lane {} is unknown or removed", .0.0)]
    UnknownLane(LaneId),
    #[error("operators were notified of this change of lane {} already", .0.0)]
    Notified(LaneId),
    /// The node does not exist: it has retired, or it is dead.
    #[error("node {:x} is unknown, or gone", .0.0)]
    UnknownNode(OwnerId),
    #[error("lane {} has a new owner: term {} has ended, the present term is {}", .lane.0, .term.0, .current.0)]
    StaleTerm { lane: LaneId, term: Term, current: Term },
    #[error("the name {0:?} is taken by another subscriber")]
    NameTaken(Arc<str>),
    #[error("the id {0:?} is taken by another subscriber")]
    IdTaken(Arc<str>),
    #[error(
        "the subscriber was changed in the meantime: expected version {expected}, found {found}; read it again"
    )]
    VersionConflict { expected: u64, found: u64 },
    #[error("{live} secrets are valid; expected at most {max}: wait until one retires, or set overlap to 0s")]
    TooManySecrets { live: u64, max: u64 },
    #[error("delivery {} is unknown", .0.0)]
    UnknownDelivery(DeliveryId),
    #[error("the delivery does not wait for an attempt: it is {}", match .0 {
        Place::Waiting => "waiting",
        Place::Delivered => "delivered; `delivery resend` sends it again",
        Place::Dead => "a dead letter; `delivery resend` sends it again",
        Place::Coalesced => "replaced by a newer one",
        Place::Forgotten => "forgotten for a data subject",
    })]
    NotWaiting(Place),
    #[error("the delivery waits for an attempt already, or one is under way")]
    Pending,
    #[error("the delivery was replaced by a newer one, which is sent in its place")]
    Replaced,
    #[error("the body of the delivery is no longer kept")]
    BodyGone,
    #[error("the subscriber has no room for the delivery: {}", .0.as_str())]
    NoRoom(Bound),
    #[error("the subscriber is {}", match .0 {
        LaneState::Disabled => "disabled; resume it first",
        LaneState::Paused => "paused; resume it first",
        LaneState::Removed => "removed",
        LaneState::Active => "active",
    })]
    NotActive(LaneState),
    #[error("at most {OPEN_JOBS_MAX} jobs may be open; cancel one, or wait until one ends")]
    TooManyJobs,
    #[error("at most {JOB_IDS_MAX} ids, found {0}")]
    TooManyIds(usize),
    #[error("there is no job {}; only the newest are kept", .0.0)]
    UnknownJob(JobId),
    #[error("the job is {} already", .0.name())]
    JobOver(JobState),
    #[error("there is a token {0:?} already, valid or expired; revoke it first, or choose another name")]
    TokenTaken(Arc<str>),
    #[error("at most {TOKENS_MAX} tokens may exist, expired ones too; revoke some")]
    TooManyTokens,
    #[error("there is no token {0:?}; `token list` shows them")]
    UnknownToken(Arc<str>),
    #[error("the command is invalid: {0}")]
    Nonsense(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FullLane {
    pub lane: LaneId,
    pub bound: Bound,
}

impl FullLane {
    /// True if a retry cannot help.
    #[must_use]
    pub fn never_fits(&self) -> bool {
        self.bound == Bound::BodyBytes
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bound {
    LaneRows,
    LaneBytes,
    /// The body alone exceeds the lane's bytes: a retry cannot help.
    BodyBytes,
    TotalRows,
    TotalBytes,
}

impl Bound {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LaneRows => "its queue has reached queue.rows",
            Self::LaneBytes => "its queue has reached queue.bytes",
            Self::BodyBytes => "the body is larger than queue.bytes",
            Self::TotalRows => "the limit of waiting deliveries of all subscribers is reached",
            Self::TotalBytes => "the limit of waiting bytes of all subscribers is reached",
        }
    }
}

impl Bounds {
    /// The bound that a delivery with `body` bytes would exceed beside `rows` and `bytes`.
    #[must_use]
    pub const fn reached(&self, rows: u64, bytes: u64, body: u64) -> Option<Bound> {
        if body > self.bytes_max {
            Some(Bound::BodyBytes)
        } else if rows >= self.rows_max {
            Some(Bound::LaneRows)
        } else if bytes + body > self.bytes_max {
            Some(Bound::LaneBytes)
        } else {
            None
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emitted {
    pub targets: Vec<Placed>,
    /// Older deliveries became dead letters to make room.
    pub shed: u64,
}

impl Emitted {
    /// The lanes with new work, and when it is due. `lanes` are those of the targets, in order.
    pub fn work<'a>(&'a self, lanes: &'a [LaneId]) -> impl Iterator<Item = (LaneId, StoreTime)> + 'a {
        lanes.iter().zip(&self.targets).filter_map(|(lane, placed)| match placed {
            Placed::Waiting { due, .. } => Some((*lane, *due)),
            Placed::Overflowed { .. } | Placed::Duplicate | Placed::Absent | Placed::Refused(_) => None,
        })
    }

    /// The lanes without room. `lanes` are those of the targets, in order.
    pub fn refused<'a>(&'a self, lanes: &'a [LaneId]) -> impl Iterator<Item = FullLane> + 'a {
        lanes.iter().zip(&self.targets).filter_map(|(lane, placed)| match placed {
            Placed::Refused(bound) => Some(FullLane { lane: *lane, bound: *bound }),
            _ => None,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    Waiting {
        delivery: DeliveryId,
        due: StoreTime,
        replaced: Option<DeliveryId>,
    },
    /// Without room, and with nothing older to shed, it became a dead letter at once.
    Overflowed {
        delivery: DeliveryId,
    },
    /// The lane has or had the same event id.
    Duplicate,
    Absent,
    /// The lane is full and refuses. The same event, emitted again, goes to such lanes only.
    Refused(Bound),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    pub lane: LaneId,
    pub term: Term,
    /// The deliveries, oldest due time first. Each is handed out again only after it is settled.
    pub rows: Vec<ClaimedRow>,
    /// When the first delivery is due that was not handed out. May lie in the past.
    pub next: Option<StoreTime>,
    /// The bytes of the first due body if it exceeds the claim's limit; then no delivery is handed out.
    pub too_long: Option<u64>,
}

/// Everything that an attempt needs from the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedRow {
    pub delivery: DeliveryId,
    pub attempts: u32,
    pub expires: StoreTime,
    pub event: Arc<str>,
    pub kind: Arc<str>,
    pub received: StoreTime,
    pub body: super::command::Body,
    pub signature: Option<Arc<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SettleResult {
    Applied,
    Stale,
    /// The delivery no longer waits: it was given up, replaced or delivered before.
    Absent,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenLane {
    pub lane: LaneId,
    pub term: Term,
    pub state: LaneState,
    pub handover: Handover,
    pub next: Option<StoreTime>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handover {
    Fresh,
    Clean(Record),
    /// The previous owner's lease ended, or it died.
    Seized {
        from: OwnerId,
        /// The last checkpoint, its own or the one that it found.
        record: Option<Record>,
        /// When the end of the owner was found out.
        at: StoreTime,
        /// For a lane with window caps: attempts that ended since the checkpoint and a while before, oldest
        /// first, as far as the store knows.
        ended: Vec<Ended>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    pub at: StoreTime,
    pub count: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub bytes: Box<[u8]>,
    pub at: StoreTime,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// Lanes that the owner acquired and has lost since. Each is reported once.
    pub lost: Vec<(LaneId, Term)>,
    pub nodes: Nodes,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    pub events: u64,
    pub deliveries: u64,
    pub waiting: u64,
    pub dead: u64,
    pub attempts: u64,
    pub answers: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resealed {
    pub values: u64,
    /// Those that do not open, and stay as they are.
    pub damaged: u64,
    /// The next step's [`super::command::Reseal::from`], unless this was the last.
    pub next: Option<(SealedTable, u64)>,
}

impl AddAssign for Erased {
    fn add_assign(&mut self, other: Self) {
        let Self { events, deliveries, waiting, dead, attempts, answers } = other;
        self.events += events;
        self.deliveries += deliveries;
        self.waiting += waiting;
        self.dead += dead;
        self.attempts += attempts;
        self.answers += answers;
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redriven {
    pub rows: Vec<(LaneId, DeliveryId)>,
    /// The number of dead letters that stay dead, because the lane or the store is full, or the lane takes
    /// nothing.
    pub kept: u64,
    /// The last one looked at, if there may be more.
    pub last: Option<DeliveryId>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub expired: u64,
    pub gone: u64,
    pub resumed: u64,
    /// Deliveries with a corrected due time, after a clock had been ahead.
    pub corrected: u64,
    pub more: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    pub events: u64,
    pub deliveries: u64,
    pub attempts: u64,
    pub dead: u64,
    pub more: bool,
}
