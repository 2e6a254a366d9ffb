//! What a store is asked to do.
//!
//! Every row comes ready made: patterns are matched, bodies shaped and signed by whoever sends the command. The
//! store adds what only it can know (what is there already, what fits, who owns what) and refuses the rest.

use std::sync::Arc;

pub use hookproof_words::ids::OutboxId;
pub use hookproof_words::states::{Outcome, Reason};

pub use super::body::Body;
use super::homes::Homes;
use super::lane::OwnerId;
use super::node::Announcement;
pub use super::operate::{
    Change, Dead, Drain, Forget, Purge, Redrive, Rotate, SECRETS_MAX, Shed, Subscribe, Sweep,
};
use crate::engine::{self, DeliveryId, LaneId, Nanos, StoreTime, Term};

/// One thing to do. A refusal is a reply; see [`super::Reply`].
#[derive(Clone, Debug)]
pub enum Command {
    /// Record an event and what is owed for it.
    Emit(Emit),
    /// Set aside an outbox row that cannot become an event.
    RejectOutbox(RejectOutbox),
    /// Hand out due deliveries. Writes nothing, unless one cannot be read: that one becomes a dead letter (`unreadable`).
    Claim(Claim),
    /// Write down what became of deliveries.
    Settle(Vec<Settlement>),
    /// Keep a lane's state.
    Persist(Persist),
    /// Become the owner of lanes that have none.
    Acquire(Acquire),
    /// Stay the owner of all lanes owned.
    Renew(Renew),
    /// Take for certain that an owner is dead: its lanes are free at once, and it is no node any more.
    Evict(OwnerId),
    /// Be no node any more: no lane belongs to the owner. It keeps those that it has, until it hands them back.
    Retire(OwnerId),
    /// Have a node take no lanes, or let it go on.
    Drain(Drain),
    /// Add a subscriber.
    Subscribe(Subscribe),
    /// Change a subscriber.
    Change(Change),
    /// Give a subscriber a new secret.
    Rotate(Rotate),
    /// Remove a subscriber. What it is still owed becomes dead letters (`gone`) by and by, in [`Sweep`]s.
    Remove(LaneId),
    /// Have dead letters delivered after all.
    Redrive(Redrive),
    /// Forget dead letters.
    Forget(Forget),
    /// Give up what waits on a lane: its oldest become dead letters (`overflow`).
    Shed(Shed),
    /// Make dead letters of what has expired, and of what removed subscribers were owed.
    Sweep(Sweep),
    /// Delete what has been kept long enough.
    Purge(Purge),
}

/// An event, and the deliveries that it is owed as.
///
/// All or nothing: if one target's lane is full and refuses, nothing of the event is recorded, so that the emitter
/// may simply try again.
#[derive(Clone, Debug)]
pub struct Emit {
    /// The roster from which the targets were chosen. If one of them has changed since, or somebody who has wants events of this type,
    /// the event is refused ([`super::Refusal::StaleRoster`]), and whoever emits it matches again. So an event emitted after
    /// a subscriber was added reaches it, and none is shaped by rules that no longer hold.
    pub roster: u64,
    /// The event's public id.
    pub id: Arc<str>,
    /// The id was made for this command, and nobody knows it: no event has had it.
    pub id_is_new: bool,
    /// Its type.
    pub kind: Arc<str>,
    /// Its key.
    pub key: Option<Arc<str>>,
    /// When it was received.
    pub received: StoreTime,
    /// The distinct bodies, once each.
    pub bodies: Vec<Body>,
    /// Who is owed the event: every lane once. Without targets nothing is recorded.
    pub targets: Vec<Target>,
    /// Whether it is refused as a whole where one of them has no room. Else it is taken in part: whoever has room gets it,
    /// and the same id, emitted again, goes to the others alone.
    pub atomic: bool,
    /// Whether more are owed it than the targets: it is taken in part, whatever room there is.
    pub withheld: bool,
    /// The outbox row that this event is. It vanishes in the transaction in which the last of them gets it; until then it
    /// stays, with the event's id. If it has vanished already, or has another id, the event is refused.
    pub outbox: Option<OutboxId>,
}

/// One delivery to be.
#[derive(Clone, Debug)]
pub struct Target {
    /// The lane.
    pub lane: LaneId,
    /// Which of the event's bodies.
    pub body: usize,
    /// No attempt before.
    pub due: StoreTime,
    /// No attempt from then on.
    pub expires: StoreTime,
    /// It is left out if the same event id was received for its lane less than this ago.
    pub dedupe: Nanos,
    /// Whether it may take the place of an older delivery, or be replaced by a newer one.
    pub coalesce: Option<Coalesce>,
    /// A signature made once and for all, where the profile has that.
    pub signature: Option<Arc<str>>,
}

/// Of several deliveries of one lane and key inside a window, the newest goes out, when the window ends.
#[derive(Clone, Debug)]
pub struct Coalesce {
    /// What makes them alike.
    pub key: Arc<str>,
    /// How long the first of them is held back.
    pub window: Nanos,
}

/// Sets an outbox row aside, where an operator finds it.
#[derive(Clone, Debug)]
pub struct RejectOutbox {
    /// The row.
    pub id: OutboxId,
    /// What is wrong with it.
    pub why: String,
}

/// Asks for the due deliveries of a lane, the longest due first.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The lane.
    pub lane: LaneId,
    /// The ownership.
    pub term: Term,
    /// At most so many.
    pub max: u32,
    /// At most so many bytes of bodies. Where the first body is longer, none comes, and [`Claimed::too_long`] tells.
    ///
    /// [`Claimed::too_long`]: super::reply::Claimed::too_long
    pub bytes_max: u64,
}

/// What became of one delivery.
#[derive(Clone, Debug)]
pub struct Settlement {
    /// The lane.
    pub lane: LaneId,
    /// The ownership under which it was claimed. If it has ended, only [`Fate::Delivered`] still counts: that is a
    /// fact.
    pub term: Term,
    /// The delivery.
    pub delivery: DeliveryId,
    /// Attempts made so far.
    pub attempts: u32,
    /// What follows.
    pub fate: Fate,
    /// The attempt that led to it, if there was one. It is recorded whatever becomes of the rest: it happened.
    pub attempt: Option<Attempt>,
}

/// What follows for a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The endpoint took it.
    Delivered,
    /// Try again, from then on.
    Retry {
        /// When it is due.
        due: StoreTime,
    },
    /// Given up. With [`Reason::Gone`], the lane is disabled in the same breath, whatever became of the delivery.
    Dead(Reason),
    /// Not touched; it waits as before.
    Released,
}

impl From<engine::Fate> for Fate {
    fn from(fate: engine::Fate) -> Self {
        match fate {
            engine::Fate::Delivered => Self::Delivered,
            // The engine's scale is the store's: nanoseconds since 1970 by the steady clock.
            engine::Fate::Retry { due } => Self::Retry { due: StoreTime(due.0) },
            engine::Fate::Dead(engine::Reason::Exhausted) => Self::Dead(Reason::Exhausted),
            engine::Fate::Dead(engine::Reason::Expired) => Self::Dead(Reason::Expired),
            engine::Fate::Dead(engine::Reason::Gone) => Self::Dead(Reason::Gone),
            engine::Fate::Released => Self::Released,
        }
    }
}

/// One HTTP request that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// When it began.
    pub at: StoreTime,
    /// How long it took.
    pub latency: Nanos,
    /// How it ended.
    pub outcome: Outcome,
    /// The status, if there was an answer.
    pub status: Option<u16>,
    /// What went wrong, in a few words; cut to [`Attempt::ERROR_BYTES_MAX`].
    pub error: Option<Box<str>>,
    /// The [`Body::hash`] of what was sent, of those very bytes.
    pub body_hash: u64,
    /// When its event was received, for the figures; nothing in an attempt that was read back.
    pub received: Option<StoreTime>,
}

impl Attempt {
    /// So much of an error is kept.
    pub const ERROR_BYTES_MAX: usize = 200;
}

/// A lane's state, for whoever owns it next.
#[derive(Clone, Debug)]
pub struct Persist {
    /// The lane.
    pub lane: LaneId,
    /// The ownership.
    pub term: Term,
    /// The state, in whatever form its maker reads.
    pub record: Box<[u8]>,
    /// Nothing is under way and nothing more will be sent: the lane is free.
    pub hand_back: bool,
}

/// Asks for lanes that nobody owns.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// For whom.
    pub owner: OwnerId,
    /// The ownership of all its lanes ends so long after now, unless renewed. A length, not a moment: several
    /// processes' clocks may disagree about the moment.
    pub lease: Nanos,
    /// Which lanes.
    pub which: Which,
    /// Of these, only those that belong to the owner; all of them, if nothing.
    pub homes: Option<Arc<Homes>>,
    /// At most so many.
    pub max: u32,
}

/// Which lanes to acquire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// The active ones with something waiting, in the order of their numbers.
    WithWork {
        /// Those after this one.
        after: LaneId,
    },
    /// All that are not removed.
    All,
    /// These.
    These(Vec<LaneId>),
}

/// Keeps all lanes of an owner.
#[derive(Clone, Debug)]
pub struct Renew {
    /// The owner.
    pub owner: OwnerId,
    /// For so long from now.
    pub lease: Nanos,
    /// What the owner says of itself: it is a node from now on. If nothing, it is none unless it is one already.
    pub announce: Option<Arc<Announcement>>,
}

impl Command {
    /// What is being done, for messages.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Emit(_) => "emit an event",
            Self::RejectOutbox(_) => "reject an outbox row",
            Self::Claim(_) => "claim deliveries",
            Self::Settle(_) => "settle deliveries",
            Self::Persist(_) => "persist a lane",
            Self::Acquire(_) => "acquire lanes",
            Self::Renew(_) => "renew a lease",
            Self::Evict(_) => "evict an owner",
            Self::Retire(_) => "retire a node",
            Self::Drain(_) => "drain a node",
            Self::Subscribe(_) => "add a subscriber",
            Self::Change(_) => "change a subscriber",
            Self::Rotate(_) => "rotate a secret",
            Self::Remove(_) => "remove a subscriber",
            Self::Redrive(_) => "redrive dead letters",
            Self::Forget(_) => "forget dead letters",
            Self::Shed(_) => "shed waiting deliveries",
            Self::Sweep(_) => "sweep",
            Self::Purge(_) => "purge",
        }
    }

    /// Roughly how many rows it touches, for the bound on one commit.
    #[must_use]
    pub fn rows(&self) -> usize {
        match self {
            Self::Emit(emit) => 1 + emit.bodies.len() + emit.targets.len(),
            Self::Settle(settlements) => settlements.len(),
            Self::Redrive(Redrive { max, .. })
            | Self::Forget(Forget { max, .. })
            | Self::Shed(Shed { max, .. })
            | Self::Sweep(Sweep { max })
            | Self::Purge(Purge { max, .. }) => usize::try_from(*max).unwrap_or(usize::MAX),
            _ => 1,
        }
    }

    /// Roughly how many bytes it holds, for the bounds on one commit and on the queue before it.
    #[must_use]
    pub fn bytes(&self) -> usize {
        // What a row's fixed part takes in memory, about.
        const ROW: usize = 100;
        let payload = match self {
            Self::Emit(emit) => emit.bodies.iter().map(|body| body.bytes.len()).sum(),
            Self::Persist(persist) => persist.record.len(),
            _ => 0,
        };
        let rows = match self {
            Self::Emit(_) | Self::Settle(_) => self.rows(),
            _ => 1,
        };
        payload.saturating_add(rows.saturating_mul(ROW))
    }

    /// Whether it asks for more to be owed, rather than settling what is: such commands are the first to be turned
    /// away when the queue is full.
    #[must_use]
    pub const fn adds_work(&self) -> bool {
        matches!(self, Self::Emit(_))
    }

    /// Whether it is one of those that move deliveries along, and change nothing else.
    #[must_use]
    pub const fn is_frequent(&self) -> bool {
        matches!(self, Self::Emit(_) | Self::Claim(_) | Self::Settle(_))
    }

    /// Whether it is one of those of every day, that leave a lane its owner, and each delivery that is handed out as it is until it
    /// is settled. What else they do to a queue (give up, replace) is noted where they do it. After any other command nothing that
    /// was remembered of queues and deliveries is relied on.
    #[must_use]
    pub const fn spares_queues(&self) -> bool {
        matches!(self, Self::Renew(_) | Self::Persist(Persist { hand_back: false, .. })) || self.is_frequent()
    }

    /// Whether it writes nothing in the ordinary course.
    #[must_use]
    pub const fn only_reads(&self) -> bool {
        matches!(self, Self::Claim(_))
    }
}
