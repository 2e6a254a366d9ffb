//! What the dispatcher has its shell do.

use std::sync::Arc;

use super::event::Order;
use super::subscribers::SubscriberSet;
use crate::engine::breaker::Standing;
use crate::engine::{AttemptId, Instant, LaneId, LaneRecord, Shift, Term};
use crate::messages::Command;
use crate::messages::reply::ClaimedRow;

/// Something to do.
#[derive(Debug)]
pub enum Effect<S: SubscriberSet> {
    /// Make an attempt.
    Send(NewAttempt<S>),
    /// Attempts of this lane of which nothing has been written yet are not to be made: they end as
    /// [`crate::engine::Outcome::Withheld`]. Attempts that come after this effect are not meant.
    Withdraw {
        /// The lane.
        lane: LaneId,
    },
    /// The same for a lane that is not ours any more; and [`Effect::Extend`] does not mean it, so that what is under way ends
    /// with its lease.
    Forget {
        /// The lane.
        lane: LaneId,
    },
    /// The leases of all our lanes were renewed: attempts under way may go on for as long.
    Extend {
        /// Until when the leases hold.
        until: Instant,
    },
    /// Have the store carry out a command. Effects that ask the store are submitted in their order.
    Ask {
        /// Comes back with the answer.
        order: Order,
        /// The command.
        command: Command,
    },
    /// Have the store keep a lane's record. The shell encodes it ([`super::handover::seal`]), with the machine's moment.
    Persist {
        /// Comes back with the answer.
        order: Order,
        /// The lane.
        lane: LaneId,
        /// Our ownership of it.
        term: Term,
        /// The record.
        record: Arc<LaneRecord>,
    },
    /// Something that operators may want to know.
    Tell(News),
}

/// An attempt to make.
#[derive(Debug)]
pub struct NewAttempt<S: SubscriberSet> {
    /// Comes back with its end.
    pub attempt: AttemptId,
    /// The lane.
    pub lane: LaneId,
    /// What to send.
    pub row: ClaimedRow,
    /// Attempt number, starting at 1.
    pub number: u32,
    /// To whom, as of the decision.
    pub subscriber: Arc<S::Subscriber>,
    /// For how long it may be sent.
    pub limits: SendLimits,
}

/// For how long an attempt may still be sent, by the steady clock. [`Effect::Withdraw`] may end that sooner, and
/// [`Effect::Extend`] moves the end of the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendLimits {
    /// The attempt is over by then, counted from the decision to make it.
    pub deadline: Instant,
    /// Nothing of it is written at or after this moment, and what was is given up
    /// ([`crate::engine::Outcome::CutOff`]): the lane may be somebody else's. [`Instant::NEVER`] is no end.
    pub lease_until: Instant,
}

/// What operators may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// A lane is ours.
    Took {
        /// The lane.
        lane: LaneId,
        /// Our ownership of it.
        term: Term,
    },
    /// A lane belongs to another process now.
    Lost {
        /// The lane.
        lane: LaneId,
        /// The ownership that ended.
        term: Term,
    },
    /// A lane cannot move; it is tried again.
    Stuck {
        /// The lane.
        lane: LaneId,
        /// Why.
        why: Arc<str>,
    },
    /// A lane that was stuck moves again.
    Moves {
        /// The lane.
        lane: LaneId,
    },
    /// A lane works at another share of its contract.
    Shifted {
        /// The lane.
        lane: LaneId,
        /// From the share that was told last to the present one, and why.
        shift: Shift,
    },
    /// A lane's breaker opened, stays open for another cooldown, or closed.
    Turned {
        /// The lane.
        lane: LaneId,
        /// The subscriber's name, while it is known.
        name: Option<Arc<str>>,
        /// How the breaker stood before.
        before: Standing,
        /// How it stands now.
        breaker: Standing,
    },
    /// Something was not written down, and the process ends: it is as after a crash.
    GaveUp {
        /// The lane.
        lane: LaneId,
        /// Why.
        why: Arc<str>,
    },
}
