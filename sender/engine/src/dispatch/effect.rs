use std::fmt;
use std::sync::Arc;

use super::event::Order;
use crate::engine::breaker::Standing;
use crate::engine::{AttemptId, LaneId, LaneRecord, Nanos, Settings, Shift, StoreTime, Term};
use crate::messages::Command;
use crate::messages::lane::Retried;
use crate::messages::reply::ClaimedRow;

#[derive(Debug)]
pub enum Effect<S: SubscriberSet> {
    Send(NewAttempt<S>),
    /// Withhold the lane's attempts that have not written a byte: they end as
    /// [`crate::engine::Outcome::Withheld`]. Attempts sent after this effect are not affected.
    Withdraw {
        lane: LaneId,
    },
    /// As [`Effect::Withdraw`], for a lost lane. [`Effect::Extend`] no longer applies to it: attempts under way end
    /// with its lease.
    Forget {
        lane: LaneId,
    },
    /// The leases of all our lanes were renewed: attempts under way may continue until then.
    Extend {
        until: StoreTime,
    },
    /// Submit the commands of several effects in order.
    Submit {
        /// Returned with the answer.
        order: Order,
        command: Command,
    },
    /// The shell encodes it with the machine's moment ([`super::handover::seal`]).
    Persist {
        order: Order,
        lane: LaneId,
        term: Term,
        record: Arc<LaneRecord>,
    },
    Report(News),
}

#[derive(Debug)]
pub struct NewAttempt<S: SubscriberSet> {
    pub attempt: AttemptId,
    pub lane: LaneId,
    pub row: ClaimedRow,
    /// Attempt number, starting at 1.
    pub number: u32,
    pub subscriber: Arc<S::Subscriber>,
    pub limits: SendLimits,
}

/// The time limits of an attempt, by the steady clock. [`Effect::Withdraw`] may end it sooner, and
/// [`Effect::Extend`] moves the end of the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendLimits {
    /// The end of the attempt, counted from the decision to make it.
    pub deadline: StoreTime,
    /// The shell then stops writing and gives up the attempt ([`crate::engine::Outcome::CutOff`]), because another
    /// process may own the lane. [`StoreTime::NEVER`] means no end.
    pub lease_until: StoreTime,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    Took {
        lane: LaneId,
        term: Term,
    },
    Lost {
        lane: LaneId,
        term: Term,
    },
    Stuck {
        lane: LaneId,
        why: Arc<str>,
    },
    Moves {
        lane: LaneId,
    },
    Shifted {
        lane: LaneId,
        /// From the last reported share to the present one, with the reason.
        shift: Shift,
    },
    /// A lane's breaker opened, stays open for another cooldown, or closed.
    Turned {
        lane: LaneId,
        before: Standing,
        breaker: Standing,
    },
    Retried {
        lane: LaneId,
        /// Also to end the pause that the endpoint asked for.
        insist: bool,
    },
    /// State was not written, and the process ends: the effect is that of a crash.
    GaveUp {
        lane: LaneId,
        why: Arc<str>,
    },
}

pub trait SubscriberSet {
    type Subscriber: Subscriber;

    fn get(&self, lane: LaneId) -> Option<&Arc<Self::Subscriber>>;

    /// All subscribers, in the order of their lanes.
    fn subscribers(&self) -> impl Iterator<Item = &Arc<Self::Subscriber>>;
}

pub trait Subscriber: fmt::Debug {
    fn lane(&self) -> LaneId;

    fn name(&self) -> &Arc<str>;

    /// The same `Arc` as before, unless the settings have changed.
    fn settings(&self) -> &Arc<Settings>;

    fn deadline(&self) -> Nanos;

    fn is_sendable(&self) -> bool;

    fn retried(&self) -> Retried;

    /// True if this process cannot serve it: the secret of its region is missing, or its settings are
    /// unreadable.
    fn is_broken(&self) -> bool;
}
