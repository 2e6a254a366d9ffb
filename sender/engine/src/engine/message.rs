//! Inputs and outputs of the engine, with a lane's settings and record.

use std::sync::Arc;

use hookproof_words::states::AttemptOutcome;
pub use hookproof_words::states::{Fate, Reason};
use serde::{Deserialize, Serialize};

use super::baseline::BaselineRecord;
use super::breaker::{BreakerPolicy, BreakerRecord, Disabled, Standing};
use super::contract::{Contract, Lateness};
use super::limiter::Snapshot;
use super::pressure::PressurePolicy;
use super::retry::{Meaning, RetryPolicy};
use super::shift::{Shift, ShiftRecord};
use super::time::{Nanos, StoreTime};
use super::{AttemptId, BatchId, DeliveryId, LaneId, Revision, Term};

#[derive(Clone, Debug)]
pub enum Input {
    Tick,
    Take(Box<Takeover>),
    Renew {
        lane: LaneId,
        /// Any other than the present one is ignored.
        term: Term,
        /// The lane starts no attempt at or after this moment.
        until: StoreTime,
    },
    /// Another process owns the lane now. Results of its attempts under way are ignored, except that a success
    /// is still reported.
    Lose {
        lane: LaneId,
        term: Term,
    },
    /// Give a lane back: start nothing, finish the attempts under way, persist the state and forget the lane.
    Leave {
        lane: LaneId,
    },
    /// Lowered limits hold at once.
    Change {
        lane: LaneId,
        settings: Arc<Settings>,
    },
    /// Attempts under way continue.
    Pause {
        lane: LaneId,
    },
    Resume {
        lane: LaneId,
    },
    /// An open breaker lets one probe through before the end of its cooldown. No limit changes.
    Retry {
        lane: LaneId,
        /// Ignored if the lane or a former owner has handled it.
        asked: Retried,
    },
    /// The store has, or will have, a due delivery for a lane.
    Work {
        lane: LaneId,
        /// Now for a new event.
        due: StoreTime,
    },
    Claimed {
        lane: LaneId,
        term: Term,
        /// The deliveries, oldest due time first: at most as many as were asked for, and none that the lane
        /// already holds.
        due: Vec<Due>,
        /// The due time of the lane's next delivery that it does not hold. May lie in the past.
        next: Option<StoreTime>,
    },
    /// The last byte of its answer was read, or no answer will come.
    Ended {
        attempt: AttemptId,
        outcome: Outcome,
    },
    Settled {
        batch: BatchId,
    },
    /// That record, or a later one, is durable. A late confirmation only slows the lane down; an early one breaks the
    /// contract if the process dies.
    Persisted {
        lane: LaneId,
        term: Term,
        revision: Revision,
    },
    /// Give back every lane. The end is reached when [`super::Engine::is_at_rest`] returns true.
    Stop,
}

#[derive(Clone, Debug)]
pub struct Takeover {
    pub lane: LaneId,
    pub term: Term,
    pub settings: Arc<Settings>,
    pub origin: Origin,
    /// The lane starts no attempt at or after this moment, unless the lease is renewed.
    pub lease_until: StoreTime,
    /// The due time of the lane's first waiting delivery, if any.
    pub next: Option<StoreTime>,
    pub paused: bool,
}

#[derive(Clone, Debug)]
pub enum Origin {
    Fresh,
    /// The previous owner gave the lane back in order, and nothing has been sent since.
    Resumed {
        record: LaneRecord,
        /// A lower bound on the time since then; zero where no clock can prove more.
        downtime: Nanos,
    },
    /// The engine assumes that everything that the record allows was just sent.
    Seized {
        /// The last durable record, or nothing if it is unreadable. Then the engine assumes the present contract and
        /// the longest deadline, quarantine and doubt that any settings allow. A lane without any record is
        /// [`Self::Fresh`].
        record: Option<LaneRecord>,
        /// A lower bound on the time since the record was taken; zero where no clock can prove more.
        downtime: Nanos,
        /// Attempts that the store knows to have ended after [`LaneRecord::taken_at`]: how long ago, rounded
        /// down, and how many. Required if the lane has window caps now or had them in the record; otherwise it
        /// may be empty. An attempt that is in the record as well counts twice.
        ended: Vec<(Nanos, u32)>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    pub delivery: DeliveryId,
    pub attempts: u32,
    pub expires: StoreTime,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Answered(Answer),
    /// No byte of the request left, with proof: refused, unresolved, no route, TLS failed.
    Unsent,
    /// As [`Self::Unsent`], by the fault of the sender's proxy. It counts as an attempt, and not against the endpoint.
    ProxyFailed,
    /// The driver withheld it: no socket was free, or the lane was paused, changed or lost before anything was
    /// sent. It does not count as an attempt or against the endpoint.
    Withheld,
    /// As [`Self::Withheld`], for want of the endpoint's permission.
    Unpermitted(Refusal),
    /// No complete answer: deadline, reset, closed. The request may still reach the endpoint.
    Silent,
    /// The driver cut it off when the lease ended. The request may still reach the endpoint. It does not count
    /// as an attempt or against the endpoint.
    CutOff,
}

impl Outcome {
    /// The store's record of it, with the status of the answer; none if the sender itself ended the attempt.
    #[must_use]
    pub fn recorded(&self) -> Option<(AttemptOutcome, Option<u16>)> {
        Some(match self {
            Self::Answered(Answer { status, .. }) if Meaning::of(*status) == Meaning::Success => {
                (AttemptOutcome::Delivered, Some(*status))
            }
            Self::Answered(Answer { status, .. }) => (AttemptOutcome::Rejected, Some(*status)),
            Self::Unsent | Self::ProxyFailed => (AttemptOutcome::Unsent, None),
            Self::Silent => (AttemptOutcome::Silent, None),
            Self::Withheld | Self::Unpermitted(_) | Self::CutOff => return None,
        })
    }

    /// The sender withheld the attempt or cut it off.
    pub(super) const fn is_by_us(&self) -> bool {
        matches!(self, Self::Withheld | Self::Unpermitted(_) | Self::CutOff)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    NoAnswer,
    NoOrigin,
    OtherOrigin,
    NoRate,
    /// Requests a minute.
    Slower(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub retry_after: Option<Box<[u8]>>,
    /// The raw value of `Date`: the endpoint's own clock.
    pub date: Option<Box<[u8]>>,
    pub at: StoreTime,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Read due deliveries from the store, after all settlements polled before.
    Claim { lane: LaneId, term: Term, max: u32 },
    Send {
        attempt: AttemptId,
        lane: LaneId,
        term: Term,
        delivery: DeliveryId,
        /// The delivery's attempt, from 1.
        number: u32,
    },
    Settle {
        batch: BatchId,
        /// Never empty.
        settlements: Vec<Settlement>,
    },
    /// Store it after or together with all settlements polled before. At most one record of a lane that is not final
    /// awaits its answer.
    Persist {
        lane: LaneId,
        term: Term,
        revision: Revision,
        /// One that [`LaneRecord::is_final`] gives the lane back: its lease may end.
        record: Box<LaneRecord>,
    },
    /// Tell operators that a lane tries its endpoint at once, as one of them asked.
    Retry {
        lane: LaneId,
        /// Also despite the pause that the endpoint asked for.
        insist: bool,
    },
    /// Tell operators that a lane works at another share of its contract. Few changes are reported, which
    /// bounds the number of outputs.
    Tell {
        lane: LaneId,
        /// Since the last report.
        shift: Shift,
    },
    /// The breaker opened, stays open for another cooldown, or closed.
    Turn { lane: LaneId, before: Standing, breaker: Standing },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settlement {
    pub lane: LaneId,
    pub term: Term,
    pub delivery: DeliveryId,
    /// Attempts made so far, this one included.
    pub attempts: u32,
    pub attempt: Option<AttemptId>,
    pub fate: Fate,
    /// Disables the lane, unless an operator asked after this version of the subscriber set.
    pub disables: Option<(Disabled, u64)>,
}

/// The versions of the subscriber set with which an operator last asked to try an endpoint at once; 0 means never.
/// Clocks may be set back, versions only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retried {
    pub asked: u64,
    /// The last one that also ended the pause that the endpoint had asked for.
    pub insisted: u64,
}

impl Retried {
    /// Whether an operator asked after the version `handled`, and if so, whether also to end the endpoint's pause.
    #[must_use]
    pub fn since(self, handled: u64) -> Option<bool> {
        (self.asked > handled).then_some(self.insisted > handled)
    }
}

/// Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneRecord {
    pub(super) limiter: Snapshot,
    pub(super) clean: bool,
    /// Asked for by the endpoint.
    pub(super) pause: u64,
    pub(super) breaker: Option<BreakerRecord>,
    #[serde(default)]
    pub(super) baseline: Option<BaselineRecord>,
    /// For other processes: the next owner begins with the whole contract.
    pub(super) throttle: Option<ShiftRecord>,
    /// The version of the last handled [`Retried`].
    pub(super) handled: u64,
    /// With the rest and the length of its pause, and of whom it was asked.
    pub(super) refused: Option<(Refusal, u64, u64, Option<u64>)>,
    pub(super) at: u64,
    pub(super) term: u64,
}

impl LaneRecord {
    /// True for the last record of an owner that gave the lane back in order.
    #[must_use]
    pub fn is_final(&self) -> bool {
        self.clean
    }

    /// The holds on the lane according to this record, if it was taken at `at`.
    #[must_use]
    pub fn holds(&self, at: StoreTime) -> Holds {
        let (in_doubt, left) = self.limiter.in_doubt();
        Holds {
            breaker: self.breaker.map_or(Standing::Closed, |record| record.standing(at)),
            throttle: self.throttle.map(|record| record.shift(at)),
            paused_until: at + Nanos(self.pause),
            refused: self.refused.map(|(refusal, left, _, permission)| Unpermitted {
                refusal,
                until: at + Nanos(left),
                permission,
            }),
            in_doubt,
            in_doubt_until: left.map(|left| at + left),
        }
    }

    /// The moment of the record, on the scale of the driver that persisted it. The record may miss attempts
    /// that ended at or after this moment.
    #[must_use]
    pub fn taken_at(&self) -> StoreTime {
        StoreTime(self.at)
    }
}

/// They outlive the lane's owner; for operators only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holds {
    pub breaker: Standing,
    /// The last change of the share, while that is below the contract.
    pub throttle: Option<Shift>,
    /// Asked for by the endpoint.
    pub paused_until: StoreTime,
    pub refused: Option<Unpermitted>,
    /// Attempts that ended without an answer and may still arrive.
    pub in_doubt: u32,
    /// The latest moment at which the last of these is released. An answer may bring it forward.
    pub in_doubt_until: Option<StoreTime>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unpermitted {
    pub refusal: Refusal,
    /// The endpoint is asked again then.
    pub until: StoreTime,
    /// [`Settings::permission`] at that time.
    pub permission: Option<u64>,
}

/// Lanes with equal settings share one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    contract: Contract,
    retry: RetryPolicy,
    breaker: BreakerPolicy,
    pressure: PressurePolicy,
    lateness: Lateness,
    permission: Option<u64>,
}

impl Settings {
    #[must_use]
    pub fn new(
        contract: Contract,
        retry: RetryPolicy,
        breaker: BreakerPolicy,
        pressure: PressurePolicy,
        lateness: Lateness,
    ) -> Self {
        Self { contract, retry, breaker, pressure, lateness, permission: None }
    }

    #[must_use]
    pub fn asking(self, permission: Option<u64>) -> Self {
        Self { permission, ..self }
    }

    /// What is asked of whom: a refusal ends when it changes.
    #[must_use]
    pub fn permission(&self) -> Option<u64> {
        self.permission
    }

    #[must_use]
    pub fn contract(&self) -> &Contract {
        &self.contract
    }

    #[must_use]
    pub fn retry(&self) -> &RetryPolicy {
        &self.retry
    }

    #[must_use]
    pub fn breaker(&self) -> &BreakerPolicy {
        &self.breaker
    }

    #[must_use]
    pub fn pressure(&self) -> &PressurePolicy {
        &self.pressure
    }

    #[must_use]
    pub fn lateness(&self) -> Lateness {
        self.lateness
    }
}
