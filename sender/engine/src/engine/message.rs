//! What goes into the engine and what comes out of it.

use std::sync::Arc;

use super::breaker::Standing;
use super::ids::{AttemptId, BatchId, DeliveryId, LaneId, Revision, Term};
use super::record::LaneRecord;
use super::settings::Settings;
use super::shift::Shift;
use super::time::{Instant, Nanos, StoreTime};

/// Something that happened outside.
#[derive(Clone, Debug)]
pub enum Input {
    /// Time passed; nothing else.
    Tick,
    /// This process owns a lane from now on.
    Take(Box<Takeover>),
    /// The lease on a lane was renewed.
    Renew {
        /// The lane.
        lane: LaneId,
        /// The ownership that was renewed. Another than the present one is ignored.
        term: Term,
        /// The lane starts no attempt at or after this moment.
        until: Instant,
    },
    /// A lane belongs to somebody else now. Its attempts under way end unseen, except that a success is still
    /// reported as the fact that it is.
    Lose {
        /// The lane.
        lane: LaneId,
        /// The ownership that ended.
        term: Term,
    },
    /// Give a lane back: start nothing more, finish what is under way, then persist its state and forget it.
    Leave {
        /// The lane.
        lane: LaneId,
    },
    /// A subscriber's contract or policies changed. Lowered limits hold from this moment.
    Change {
        /// The lane.
        lane: LaneId,
        /// All of the settings, changed or not.
        settings: Arc<Settings>,
    },
    /// An operator pauses a lane. Attempts under way end as usual.
    Pause {
        /// The lane.
        lane: LaneId,
    },
    /// An operator lets a paused or disabled lane go on.
    Resume {
        /// The lane.
        lane: LaneId,
    },
    /// The store has, or will have, something for a lane to do.
    Work {
        /// The lane.
        lane: LaneId,
        /// From when on; now, for an event just emitted.
        due: Instant,
    },
    /// The answer to [`Output::Claim`].
    Claimed {
        /// The lane.
        lane: LaneId,
        /// The ownership that the claim named.
        term: Term,
        /// The deliveries, the longest due first; none that the lane holds already, no more than were asked for.
        due: Vec<Due>,
        /// When the lane's next delivery that it does not hold is due; nothing if there is none. May lie in the past.
        next: Option<Instant>,
    },
    /// An attempt is over: the last byte of its answer was read, or there will be none.
    Ended {
        /// The attempt.
        attempt: AttemptId,
        /// How it went.
        outcome: Outcome,
    },
    /// A batch of settlements is durable.
    Settled {
        /// The batch.
        batch: BatchId,
    },
    /// The answer to [`Output::Persist`]: that record of a lane, or a later one, is durable. Until the lane's first
    /// record is, and the first after a change, the lane starts nothing; an attempt in doubt that no durable record tells
    /// of counts against the cap in flight. Saying it too late only slows the lane down; saying it too early breaks the
    /// contract if the process dies.
    Persisted {
        /// The lane.
        lane: LaneId,
        /// The ownership that the record was persisted under.
        term: Term,
        /// The record, or the latest of several.
        revision: Revision,
    },
    /// Give back every lane. When [`super::Engine::is_at_rest`] says so, all that was under way has ended.
    Stop,
}

/// A lane changes hands, to us.
#[derive(Clone, Debug)]
pub struct Takeover {
    /// The lane.
    pub lane: LaneId,
    /// This ownership.
    pub term: Term,
    /// The subscriber's contract and policies.
    pub settings: Arc<Settings>,
    /// What is known of what was sent before.
    pub origin: Origin,
    /// The lane starts no attempt at or after this moment, unless the lease is renewed.
    pub lease_until: Instant,
    /// When the lane's first waiting delivery is due; nothing if none waits.
    pub next: Option<Instant>,
    /// An operator paused it.
    pub paused: bool,
}

/// What is known of what a lane sent before it was taken.
#[derive(Clone, Debug)]
pub enum Origin {
    /// Nothing was ever sent.
    Fresh,
    /// The owner before gave it back in order, and nothing has been sent since.
    Resumed {
        /// What the owner left.
        record: LaneRecord,
        /// How much time has passed since at least. Nothing, where no clock can prove it.
        downtime: Nanos,
    },
    /// The owner before crashed or lost its lease, with which it gave up what it had under way. Assume the worst: all that
    /// its record allows was just sent.
    Seized {
        /// What was last made durable. Nothing if it can't be read: then the owner before is taken to have had the
        /// present contract, and the longest deadline, quarantine and doubt that any settings allow. A lane of which no
        /// owner ever persisted a record was never sent anything: it is [`Self::Fresh`].
        record: Option<LaneRecord>,
        /// How much time has passed since the record was taken at least. Nothing, where no clock can prove it.
        downtime: Nanos,
        /// What the store knows to have ended after the record was taken ([`LaneRecord::taken_at`]): how long ago, and
        /// how many attempts; rounded to less long ago. Needed for a lane with window caps, now or when the record was
        /// taken; for others it may be empty. An attempt that is told although the record tells of it counts twice.
        ended: Vec<(Nanos, u32)>,
    },
}

/// One delivery as the engine sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// The delivery.
    pub delivery: DeliveryId,
    /// Attempts made so far.
    pub attempts: u32,
    /// No attempt is made at or after this moment.
    pub expires: Instant,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A whole answer came.
    Answered(Answer),
    /// Surely not one byte of the request left: refused, unresolved, no route, TLS failed.
    Unsent,
    /// The driver kept it back: it had no socket, or the lane was paused, changed or lost before anything was sent. No
    /// attempt was made, and nothing is held against the endpoint.
    Withheld,
    /// No answer, or half of one: deadline, reset, closed. The request may still reach the endpoint.
    Silent,
    /// The driver gave it up with the lane's lease. The request may still reach the endpoint, and nothing is held against
    /// that; the attempt counts as little as that of a process that dies.
    CutOff,
}

impl Outcome {
    /// Whether the sender itself kept the attempt back or broke it off, so that nothing is learnt of it.
    pub(super) const fn is_by_us(&self) -> bool {
        matches!(self, Self::Withheld | Self::CutOff)
    }
}

/// What the engine needs of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The value of `Retry-After`, as it came.
    pub retry_after: Option<Box<[u8]>>,
    /// The value of `Date`, as it came: the endpoint's own idea of now.
    pub date: Option<Box<[u8]>>,
    /// The wall clock when the answer was complete.
    pub at: StoreTime,
}

/// Something for the driver to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Read due deliveries from the store. Settlements polled before this one come first.
    Claim {
        /// The lane.
        lane: LaneId,
        /// Our ownership of it.
        term: Term,
        /// At most so many.
        max: u32,
    },
    /// Make an attempt now.
    Send {
        /// Names the attempt in [`Input::Ended`].
        attempt: AttemptId,
        /// The lane.
        lane: LaneId,
        /// Our ownership of it.
        term: Term,
        /// The delivery.
        delivery: DeliveryId,
        /// Which attempt of the delivery this is, from 1.
        number: u32,
    },
    /// Write down what became of deliveries.
    Settle {
        /// Names the batch in [`Input::Settled`].
        batch: BatchId,
        /// Never empty.
        settlements: Vec<Settlement>,
    },
    /// Keep a lane's state. A lane has one that is not final unanswered at most. Settlements polled before it come first,
    /// or with it.
    Persist {
        /// The lane.
        lane: LaneId,
        /// Our ownership of it.
        term: Term,
        /// Names the record in [`Input::Persisted`].
        revision: Revision,
        /// The state. A record that [`LaneRecord::is_final`] gives the lane back: its lease may end.
        record: Box<LaneRecord>,
    },
    /// Tell operators that a lane works at another share of its contract. Not of each change, so that it is little however
    /// often the share changes.
    Tell {
        /// The lane.
        lane: LaneId,
        /// From the share that was told last to the present one.
        shift: Shift,
    },
    /// Tell operators that a lane's breaker opened, stays open for another cooldown, or closed.
    Turn {
        /// The lane.
        lane: LaneId,
        /// How the breaker stood before.
        before: Standing,
        /// How it stands now.
        breaker: Standing,
    },
}

/// What became of one delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The lane.
    pub lane: LaneId,
    /// The ownership under which it was claimed.
    pub term: Term,
    /// The delivery.
    pub delivery: DeliveryId,
    /// Attempts made so far, this one included.
    pub attempts: u32,
    /// The attempt that ended, if one did.
    pub attempt: Option<AttemptId>,
    /// What follows.
    pub fate: Fate,
}

/// What follows for a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The endpoint took it.
    Delivered,
    /// Try again, from then on.
    Retry {
        /// When it is due.
        due: Instant,
    },
    /// Given up.
    Dead(Reason),
    /// Not touched; it waits in the store as before.
    Released,
}

/// Why a delivery was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// All its attempts failed.
    Exhausted,
    /// It grew older than its time to live.
    Expired,
    /// The endpoint answered 410: it wants nothing any more.
    Gone,
}
