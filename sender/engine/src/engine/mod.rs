//! The engine makes every decision about sending.
//!
//! It is a state machine without a clock, a disk or a socket. A driver owns those and calls three functions:
//!
//! ```text
//!              handle(now, Input)                                 poll() -> Option<Output>
//!   driver ───────────────────────►  Engine  ─────────────────────────────────────────────►  driver
//!                                      │
//!                                      └── next_wake() -> Option<StoreTime>: call handle(…, Tick) then, at the latest
//! ```
//!
//! Handle one input or many, then poll until `None`, and carry the outputs out in order. Each output needs its answer,
//! unless the lane is lost:
//!
//! | output              | action of the driver                                    | answer               |
//! |---------------------|---------------------------------------------------------|----------------------|
//! | [`Output::Claim`]   | reads at most `max` due deliveries of a lane            | [`Input::Claimed`]   |
//! | [`Output::Send`]    | makes one HTTP request with one total deadline          | [`Input::Ended`]     |
//! | [`Output::Settle`]  | stores the results of deliveries                        | [`Input::Settled`]   |
//! | [`Output::Persist`] | stores a lane's record                                  | [`Input::Persisted`] |
//!
//! Unasked, the driver reports the ownership of lanes ([`Input::Take`], [`Input::Renew`], [`Input::Lose`],
//! [`Input::Leave`]), due work ([`Input::Work`]), and requests of operators ([`Input::Change`], [`Input::Pause`],
//! [`Input::Resume`], [`Input::Retry`], [`Input::Stop`]).
//!
//! A final record needs no answer. A final record and the loss of a lane both give back everything that the lane had
//! claimed.
//!
//! The path of a delivery: after `Work`, the engine `Claim`s as many as the lane may send soon. When limiter, breaker,
//! pressure, pause and pace agree, it emits `Send`. `Ended` charges the limiter and decides the fate, and `Settle`
//! carries fates to the store in batches.
//!
//! Guarantees:
//!
//! - The engine reads no clock and never sleeps: `now` is an argument. If `now` runs backwards, the latest one counts.
//! - No attempt starts that could break the contract, wherever between its start and its end the request arrives.
//!   [`limiter`] has the proof.
//! - No lane waits for another lane's endpoint. Lanes that may act take turns; other lanes wait in the timer. Two
//!   bounds apply to all lanes together: on attempts under way, past which a lane may have only one, and on unconfirmed
//!   settlements.
//! - No body, URL or secret passes through the engine.
//! - Windows, attempts and unconfirmed settlements are bounded.
//! - The same seed and inputs give the same outputs. There is no floating point.
//!
//! Reading order: [`time`], `message`; [`contract`] and [`limiter`]; [`retry`]; [`breaker`], [`baseline`],
//! [`pressure`]; `lane` for one subscriber; `machine` for all lanes.

#![deny(clippy::float_arithmetic, clippy::float_cmp)]

use std::fmt::{Debug, Display};
use std::ops::RangeInclusive;

pub use contract::{DEADLINE_MAX, DOUBT_MAX, Lateness};
pub use hookproof_words::ids::{DeliveryId, LaneId, Term};
pub use hookproof_words::time;
pub use lane::{LaneView, UnderWay};
pub use machine::{Engine, Limits};
pub use message::{
    Answer, Due, Fate, Holds, Input, LaneRecord, Origin, Outcome, Output, Reason, Refusal, Retried, Settings,
    Settlement, Takeover, Unpermitted,
};
pub use shift::{Shift, Why};
pub use time::{Nanos, StoreTime};

pub mod baseline;
pub mod breaker;
pub mod contract;
mod lane;
pub mod limiter;
mod machine;
mod message;
mod pace;
pub mod pressure;
mod reading;
pub mod retry;
mod settling;
mod shift;
mod timers;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value}; expected {allowed}")]
pub struct OutOfRange {
    /// The setting's name, as users write it: `limit.burst`.
    pub field: &'static str,
    pub value: String,
    pub allowed: String,
}

fn within<T>(field: &'static str, value: T, range: RangeInclusive<T>) -> Result<T, OutOfRange>
where
    T: PartialOrd + Display + Debug,
{
    if range.contains(&value) {
        return Ok(value);
    }
    let allowed = format!("{} to {}", range.start(), range.end());
    Err(OutOfRange { field, value: value.to_string(), allowed })
}

/// An engine never reuses an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// A version of a lane's record. It grows within one ownership, so confirming one record confirms all earlier
/// ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId(pub u64);
