//! What the dispatcher hears.

use std::sync::Arc;

use super::budget::Portion;
use super::moment::Moment;
use crate::engine::{AttemptId, DeliveryId, LaneId, Nanos, Outcome, Revision, StoreTime, Term};
use crate::messages::Reply;
use crate::messages::command::{self, Attempt};
use crate::messages::node::Nodes;

/// Something that happened.
#[derive(Debug)]
pub enum Event<S> {
    /// Time passed; nothing else.
    Tick,
    /// Lanes have something to do, from those moments on.
    Work(Vec<(LaneId, StoreTime)>),
    /// These are all nodes now, or a lane was handed back: said as soon as the store tells of it. The
    /// answers to renewals tell the same, later.
    Nodes(Nodes),
    /// Subscribers have changed; all of them, changed or not.
    Roster(Arc<S>),
    /// An attempt of [`super::Effect::Send`] is over, or was held back.
    Ended {
        /// The attempt.
        attempt: AttemptId,
        /// Its delivery.
        delivery: DeliveryId,
        /// How it went.
        result: AttemptEnd,
    },
    /// The store answered [`super::Effect::Ask`] or [`super::Effect::Persist`].
    Answered(Answered),
    /// Give everything back and come to an end.
    Stop,
}

/// How an attempt went.
#[derive(Clone, Debug)]
pub struct AttemptEnd {
    /// For the engine.
    pub outcome: Outcome,
    /// For the store's record of attempts; nothing if no attempt was made, or the sender itself broke it off.
    pub record: Option<Attempt>,
}

impl AttemptEnd {
    /// Nothing could be sent: as good as a connection that was refused.
    #[must_use]
    pub fn impossible(now: StoreTime, why: &str) -> Self {
        let record = Attempt {
            at: now,
            latency: Nanos::ZERO,
            outcome: command::Outcome::Unsent,
            status: None,
            error: Some(why.into()),
            body_hash: 0,
            received: None,
        };
        Self { outcome: Outcome::Unsent, record: Some(record) }
    }

    /// No attempt was made, and nothing is held against the endpoint.
    #[must_use]
    pub const fn withheld() -> Self {
        Self { outcome: Outcome::Withheld, record: None }
    }

    /// The attempt was given up with its lane's lease: as if the process had died, nothing is written down of it.
    #[must_use]
    pub const fn cut_off() -> Self {
        Self { outcome: Outcome::CutOff, record: None }
    }
}

/// What the store answered.
#[derive(Debug)]
pub struct Answered {
    /// What was asked of it.
    pub order: Order,
    /// Its answer. A refusal is a reply, not a failure.
    pub reply: Result<Reply, Failure>,
    /// The machine's moment when it answered [`Order::Acquire`]; nothing where the machine does not tell one, and for
    /// other orders.
    pub moment: Option<Moment>,
}

/// Says which question of the dispatcher an answer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// To hand deliveries out.
    Claim {
        /// The lane.
        lane: LaneId,
        /// Our ownership of it.
        term: Term,
        /// At most so many.
        max: u32,
        /// What of the budget the answer may take.
        portion: Portion,
    },
    /// To write settlements down: the number that the dispatcher gave them.
    Settle(u64),
    /// To keep a lane's record.
    Persist {
        /// The lane.
        lane: LaneId,
        /// Our ownership of it.
        term: Term,
        /// The record, as the engine names it.
        revision: Revision,
    },
    /// To renew our leases, counted from that moment.
    Renew {
        /// When it was asked.
        asked: StoreTime,
    },
    /// To have us be no node any more.
    Retire,
    /// To make lanes ours, their leases counted from that moment.
    Acquire {
        /// When it was asked.
        asked: StoreTime,
    },
}

/// A command was not carried out, and nothing of it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The store has no room for it now.
    #[error("the store has no room for it now")]
    Full,
    /// The store can't do it, and the same command is not likely to succeed soon: why.
    #[error("{0}")]
    Lasting(Arc<str>),
    /// The store has ended.
    #[error("the store has been stopped")]
    Stopped,
}
