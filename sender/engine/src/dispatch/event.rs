use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::budget::Portion;
use crate::engine::{AttemptId, DeliveryId, LaneId, Nanos, Outcome, Revision, StoreTime, Term};
use crate::messages::Reply;
use crate::messages::command::{Attempt, AttemptOutcome, Details};
use crate::messages::node::Nodes;

#[derive(Debug)]
pub enum Event<S> {
    Tick,
    /// Lanes have due work from these moments on.
    Work(Vec<(LaneId, StoreTime)>),
    /// Answers to renewals report the same later.
    Nodes(Nodes),
    Roster(Arc<S>),
    /// An attempt of [`super::Effect::Send`] ended or was withheld.
    Ended {
        attempt: AttemptId,
        delivery: DeliveryId,
        result: AttemptEnd,
    },
    Answered(Answered),
    Stop,
}

#[derive(Clone, Debug)]
pub struct AttemptEnd {
    pub outcome: Outcome,
    /// Nothing if no attempt was made, or the sender itself cut it off.
    pub record: Option<Attempt>,
}

impl AttemptEnd {
    /// Nothing could be sent: the same as a refused connection.
    #[must_use]
    pub fn impossible(now: StoreTime, why: &str) -> Self {
        let record = Attempt {
            at: now,
            latency: Nanos::ZERO,
            outcome: AttemptOutcome::Unsent,
            status: None,
            error: Some(why.into()),
            body_hash: 0,
            received: None,
            details: Details::default(),
        };
        Self { outcome: Outcome::Unsent, record: Some(record) }
    }

    /// No attempt was made; it does not count against the endpoint.
    #[must_use]
    pub const fn withheld() -> Self {
        Self { outcome: Outcome::Withheld, record: None }
    }
}

#[derive(Debug)]
pub struct Answered {
    pub order: Order,
    /// A refusal is a reply, not a failure.
    pub reply: Result<Reply, Failure>,
    /// For [`Order::Acquire`], the machine's moment of the answer, if the machine has one.
    pub moment: Option<Moment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Claim { lane: LaneId, term: Term, max: u32, portion: Portion },
    Settle(u64),
    Persist { lane: LaneId, term: Term, revision: Revision },
    Renew { asked: StoreTime },
    Retire,
    Acquire { asked: StoreTime },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The store has no room for it now.
    #[error("the queue of the database is full")]
    Full,
    /// The store cannot do it, and a retry is unlikely to succeed soon. Contains the reason.
    #[error("{0}")]
    Lasting(Arc<str>),
    #[error("the database has been closed")]
    Stopped,
}

/// A time that processes on the same machine can compare, independent of the wall clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    boot: String,
    /// In nanoseconds.
    uptime: u64,
}

impl Moment {
    #[must_use]
    pub fn at(boot: &str, uptime: Nanos) -> Self {
        Self { boot: boot.to_owned(), uptime: uptime.0 }
    }

    #[must_use]
    pub fn parts(&self) -> (&str, Nanos) {
        (&self.boot, Nanos(self.uptime))
    }

    /// The time that has surely passed since `earlier`; zero after a reboot.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Nanos {
        Nanos(if self.boot == earlier.boot { self.uptime.saturating_sub(earlier.uptime) } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_time_of_the_same_boot_counts() {
        let (early, late) = (Nanos::from_secs(1), Nanos(5_000_000_001));
        assert_eq!(Moment::at("a", late).since(&Moment::at("a", early)), Nanos(4_000_000_001));
        assert_eq!(Moment::at("a", late).since(&Moment::at("b", early)), Nanos::ZERO);
        assert_eq!(Moment::at("a", early).since(&Moment::at("a", late)), Nanos::ZERO);
    }
}
