//! What a store answers.

use std::sync::Arc;

use super::command::OutboxId;
use super::lane::{Bounds, LaneState, OwnerId};
use super::node::Nodes;
use crate::engine::{DeliveryId, LaneId, StoreTime, Term};

/// The answer to one command, given once what it did is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To [`super::Command::Emit`].
    Emitted(Emitted),
    /// To [`super::Command::Claim`].
    Claimed(Claimed),
    /// To [`super::Command::Settle`]: one result for each settlement, in their order.
    Settled(Vec<SettleResult>),
    /// To [`super::Command::Acquire`]: the lanes that are now the owner's.
    Acquired(Vec<TakenLane>),
    /// To [`super::Command::Renew`].
    Renewed(Renewed),
    /// To [`super::Command::Subscribe`].
    Subscribed {
        /// The new subscriber's lane.
        lane: LaneId,
    },
    /// To [`super::Command::Redrive`].
    Redriven(Redriven),
    /// To [`super::Command::Forget`].
    Forgotten {
        /// How many.
        rows: u64,
        /// The last one looked at, if there may be more.
        last: Option<DeliveryId>,
    },
    /// To [`super::Command::Shed`].
    Dropped {
        /// How many.
        rows: u64,
        /// There may be more to do.
        more: bool,
    },
    /// To [`super::Command::Sweep`].
    Swept(Swept),
    /// To [`super::Command::Purge`].
    Purged(Purged),
    /// Done; nothing to say.
    Done,
    /// Not done, and nothing of it was.
    Refused(Refusal),
}

/// Why a command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Subscribers that an event concerns have changed since whoever emits it looked.
    #[error(
        "subscribers of the event have changed: chosen from roster {known}, the present one is {current}; match the event again"
    )]
    StaleRoster {
        /// The one that the command names.
        known: u64,
        /// The present one.
        current: u64,
    },
    /// Lanes that would rather refuse than shed are full.
    #[error("{} cannot take the event, the first being lane {}: {}", lanes(.0.len()), .0.first().map_or(0, |full| full.lane.0), .0.first().map_or("full", |full| full.bound.as_str()))]
    Full(Vec<FullLane>),
    /// Some program keeps the log from being cut, and it is as long as it may be.
    #[error(
        "the database's log has grown to {} MiB, since some program has been reading the database for long; end its transaction",
        .bytes >> 20
    )]
    LogFull {
        /// How long it is.
        bytes: u64,
    },
    /// The disk is full, and what room is left is for deliveries.
    #[error("the disk is full, and takes deliveries alone; free some space")]
    DiskFull,
    /// The outbox row is gone: another process made an event of it.
    #[error("outbox row {} is gone: another process took it", .0.0)]
    OutboxTaken(OutboxId),
    /// The outbox row has got another id: another process made an event of it, in part.
    #[error("outbox row {} has another id: another process took it in part; read it again", .0.0)]
    OutboxNamed(OutboxId),
    /// No such lane, or it is removed.
    #[error("lane {} is unknown or removed", .0.0)]
    UnknownLane(LaneId),
    /// No such node: it has retired, or it is dead.
    #[error("node {:x} is unknown, or gone", .0.0)]
    UnknownNode(OwnerId),
    /// The lane has changed hands.
    #[error("lane {} has changed hands: term {} ended, the present one is {}", .lane.0, .term.0, .current.0)]
    StaleTerm {
        /// The lane.
        lane: LaneId,
        /// The ownership that the command names.
        term: Term,
        /// The present one.
        current: Term,
    },
    /// Another subscriber has that name.
    #[error("the name {0:?} is taken by another subscriber")]
    NameTaken(Arc<str>),
    /// Another subscriber has that public id.
    #[error("the id {0:?} is taken by another subscriber")]
    IdTaken(Arc<str>),
    /// Somebody changed the subscriber meanwhile.
    #[error(
        "the subscriber was changed meanwhile: expected version {expected}, found {found}; read it again"
    )]
    VersionConflict {
        /// The version that the command names.
        expected: u64,
        /// The present one.
        found: u64,
    },
    /// So many secrets cannot be live at once.
    #[error("{live} secrets are live, at most {max} may be; wait until one retires, or set overlap to 0s")]
    TooManySecrets {
        /// Live now.
        live: u64,
        /// At most.
        max: u64,
    },
    /// The command contradicts itself.
    #[error("the command makes no sense: {0}")]
    Nonsense(&'static str),
}

fn lanes(count: usize) -> String {
    if count == 1 { "one lane".to_owned() } else { format!("{count} lanes") }
}

/// A lane that refused an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FullLane {
    /// The lane.
    pub lane: LaneId,
    /// Which bound.
    pub bound: Bound,
}

impl FullLane {
    /// Whether trying again cannot help.
    #[must_use]
    pub fn never_fits(&self) -> bool {
        self.bound == Bound::BodyBytes
    }
}

/// A bound that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bound {
    /// The lane's, in deliveries.
    LaneRows,
    /// The lane's, in bytes.
    LaneBytes,
    /// The body alone is larger than the lane's bound in bytes: trying again cannot help.
    BodyBytes,
    /// The whole store's, in deliveries.
    TotalRows,
    /// The whole store's, in bytes.
    TotalBytes,
}

impl Bound {
    /// In words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LaneRows => "as many deliveries wait as may",
            Self::LaneBytes => "as many bytes wait as may",
            Self::BodyBytes => "the body is larger than all that may wait",
            Self::TotalRows => "as many deliveries wait in total as may",
            Self::TotalBytes => "as many bytes wait in total as may",
        }
    }
}

impl Bounds {
    /// The bound that a delivery of so many bytes would break, with so much waiting already.
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

/// An event is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emitted {
    /// What became of each target, in their order.
    pub targets: Vec<Placed>,
    /// How many older deliveries became dead letters to make room.
    pub shed: u64,
}

impl Emitted {
    /// Which of these lanes, those of the targets in their order, have something to do, and from when on.
    pub fn work<'a>(&'a self, lanes: &'a [LaneId]) -> impl Iterator<Item = (LaneId, StoreTime)> + 'a {
        lanes.iter().zip(&self.targets).filter_map(|(lane, placed)| match placed {
            Placed::Waiting { due, .. } => Some((*lane, *due)),
            Placed::Overflowed { .. } | Placed::Duplicate | Placed::Absent | Placed::Refused(_) => None,
        })
    }

    /// Which of these lanes, those of the targets in their order, had no room.
    pub fn refused<'a>(&'a self, lanes: &'a [LaneId]) -> impl Iterator<Item = FullLane> + 'a {
        lanes.iter().zip(&self.targets).filter_map(|(lane, placed)| match placed {
            Placed::Refused(bound) => Some(FullLane { lane: *lane, bound: *bound }),
            _ => None,
        })
    }
}

/// What became of one target of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// It waits.
    Waiting {
        /// The delivery.
        delivery: DeliveryId,
        /// When it is due.
        due: StoreTime,
        /// The delivery whose place it took.
        replaced: Option<DeliveryId>,
    },
    /// There was no room, and nothing else to shed: it is a dead letter at once.
    Overflowed {
        /// The delivery.
        delivery: DeliveryId,
    },
    /// The lane has, or had, a delivery of the same event id.
    Duplicate,
    /// The lane is gone, or takes nothing more.
    Absent,
    /// The lane would rather refuse than shed, and is full: the same event, emitted again, is for it and the like.
    Refused(Bound),
}

/// Deliveries handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The lane.
    pub lane: LaneId,
    /// The ownership.
    pub term: Term,
    /// The deliveries, the longest due first. None of them is handed out again before it is settled.
    pub rows: Vec<ClaimedRow>,
    /// When the first is due that waits and is not handed out. May lie in the past.
    pub next: Option<StoreTime>,
    /// Bytes of the first body that is due, if it alone is longer than the claim allows: then nothing is handed out.
    pub too_long: Option<u64>,
}

/// One delivery handed out, with all that an attempt needs of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedRow {
    /// The delivery.
    pub delivery: DeliveryId,
    /// Attempts made so far.
    pub attempts: u32,
    /// No attempt from then on.
    pub expires: StoreTime,
    /// The event's public id.
    pub event: Arc<str>,
    /// The event's type.
    pub kind: Arc<str>,
    /// When the event was received.
    pub received: StoreTime,
    /// What to send.
    pub body: super::command::Body,
    /// A signature made once and for all.
    pub signature: Option<Arc<str>>,
}

/// What came of a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SettleResult {
    /// It is so.
    Applied,
    /// The ownership had ended: it is not so, unless somebody else makes it so.
    Stale,
    /// The delivery no longer waits: somebody gave it up, replaced or delivered it before.
    Absent,
}

/// A lane that changed hands, to us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenLane {
    /// The lane.
    pub lane: LaneId,
    /// The ownership that began.
    pub term: Term,
    /// Whether an operator holds it back, or the endpoint is gone.
    pub state: LaneState,
    /// What the owner before left.
    pub handover: Handover,
    /// When its first waiting delivery is due.
    pub next: Option<StoreTime>,
}

/// What the owner before left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handover {
    /// There was none.
    Fresh,
    /// It gave the lane back in order.
    Clean(Record),
    /// It did not: its lease ran out, or it is dead.
    Seized {
        /// Who it was.
        from: OwnerId,
        /// What it last persisted, or what it found itself.
        record: Option<Record>,
        /// When this was found out.
        at: StoreTime,
        /// What ended since the record was persisted, and a while before, the oldest first: of a lane with window caps
        /// alone, and as far as the store was told.
        ended: Vec<Ended>,
    },
}

/// Attempts that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// When the last of them did.
    pub at: StoreTime,
    /// How many.
    pub count: u32,
}

/// A lane's state as it was persisted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The state.
    pub bytes: Box<[u8]>,
    /// When it was persisted.
    pub at: StoreTime,
}

/// An owner lives on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// Lanes that this store had acquired for it and that belong to somebody else now. Each is told once.
    pub lost: Vec<(LaneId, Term)>,
    /// All nodes.
    pub nodes: Nodes,
}

/// Dead letters wait again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redriven {
    /// Which, and of which lanes.
    pub rows: Vec<(LaneId, DeliveryId)>,
    /// How many stay dead because their lane, or everything, is full, or the lane takes nothing.
    pub kept: u64,
    /// The last one looked at, if there may be more.
    pub last: Option<DeliveryId>,
}

/// One step of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Deliveries that had expired.
    pub expired: u64,
    /// Deliveries that removed subscribers were owed.
    pub gone: u64,
    /// Deliveries brought back to when they are due, after a clock had been ahead.
    pub corrected: u64,
    /// There may be more to do.
    pub more: bool,
}

/// One step of a purge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Events deleted.
    pub events: u64,
    /// Deliveries deleted.
    pub deliveries: u64,
    /// Attempts deleted.
    pub attempts: u64,
    /// Dead letters forgotten.
    pub dead: u64,
    /// There may be more to do.
    pub more: bool,
}
