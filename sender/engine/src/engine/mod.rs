//! The engine: every decision that the sender makes, and nothing else.
//!
//! It is a state machine without a clock, a disk or a socket. Its driver (the runtime over real sockets, the
//! simulator in virtual time, a test) owns those, and calls three things:
//!
//! ```text
//!              handle(now, Input)                                 poll() -> Option<Output>
//!   driver ───────────────────────►  Engine  ─────────────────────────────────────────────►  driver
//!                                      │
//!                                      └── next_wake() -> Option<Instant>: call handle(…, Tick) then, at the latest
//! ```
//!
//! Handle what is at hand, one input or many, then poll until `None`, and carry out what comes out in that order. Each
//! output has its answer, which must come, or the lane must be lost:
//!
//! | the engine says        | the driver does                                          | and answers with          |
//! |------------------------|----------------------------------------------------------|---------------------------|
//! | [`Output::Claim`]      | reads that many due deliveries of a lane from the store  | [`Input::Claimed`]        |
//! | [`Output::Send`]       | makes one HTTP request, with one total deadline          | [`Input::Ended`]          |
//! | [`Output::Settle`]     | has the store write down what became of deliveries       | [`Input::Settled`]        |
//! | [`Output::Persist`]    | has the store keep a lane's state                        | [`Input::Persisted`]      |
//!
//! It sets its timer by [`Engine::next_wake`], and answers that with [`Input::Tick`].
//!
//! Unasked, the driver reports ownership of lanes ([`Input::Take`], [`Input::Renew`], [`Input::Lose`],
//! [`Input::Leave`]), work ([`Input::Work`]), and what an operator wants ([`Input::Change`], [`Input::Pause`],
//! [`Input::Resume`], [`Input::Stop`]).
//!
//! A record that is final needs no answer. It, and the loss of a lane, give back everything that the lane had claimed.
//!
//! The life of one delivery: `Work` says that a lane has something due; the engine `Claim`s as much as the lane's
//! contract lets it send soon; `Claimed` fills the lane's short window; when limiter, breaker and pressure all agree
//! it comes out as `Send`; `Ended` charges the limiter and decides its fate; `Settle` carries the fate to the store,
//! with many others.
//!
//! What never happens here:
//!
//! - No clock is read and nothing sleeps: `now` is an argument, and an earlier one than before counts as the latest.
//! - No attempt starts that the contract does not allow, wherever between its start and its end the request reaches
//!   the endpoint. The argument is at the head of [`limiter`].
//! - No lane waits for another's endpoint. Lanes that may act take turns; a lane that may not is only, if time will free
//!   it, in the timer. Two bounds concern all: on attempts under way, past which a lane may have only one, and on
//!   settlements that the store has not answered.
//! - No body, URL or secret passes through: the driver keeps those, by delivery and by lane.
//! - Nothing grows without bound: a lane's window, its attempts, and the settlements not yet answered have limits.
//! - No floating point and no hidden randomness: the same seed and inputs give the same outputs.
//!
//! The files, in reading order: [`time`] and [`ids`] (words), `message` (what goes in and out), [`contract`] and
//! [`limiter`] (what a subscriber may be sent, and the guarantee), [`retry`] and [`retry_after`] (what follows a
//! failure), [`breaker`], [`baseline`], [`pressure`] and `shift` (when to hold back, and why), `reading`, `record`, `start` and `lane` (all of these for one subscriber),
//! `timers`, `attempts`, `settling`, and `machine` (all lanes).

#![deny(clippy::float_arithmetic, clippy::float_cmp)]

mod attempts;
pub mod baseline;
pub mod breaker;
pub mod calendar;
pub mod contract;
pub mod ids;
mod lane;
mod lanes;
mod lateness;
pub mod limiter;
mod machine;
mod message;
mod moves;
mod pace;
pub mod pressure;
mod range;
mod reading;
mod record;
pub mod retry;
pub mod retry_after;
mod rng;
mod settings;
mod settling;
mod shift;
mod start;
mod timers;
mod view;

pub use hookproof_words::time;
pub use ids::{AttemptId, BatchId, DeliveryId, LaneId, Revision, Term};
pub use lateness::{DEADLINE_MAX, DOUBT_MAX, Lateness};
pub use machine::{Engine, Limits};
pub use message::{Answer, Due, Fate, Input, Origin, Outcome, Output, Reason, Settlement, Takeover};
pub use range::OutOfRange;
pub use record::LaneRecord;
pub use settings::Settings;
pub use shift::{Shift, Why};
pub use time::{Instant, Nanos, StoreTime};
pub use view::{LaneView, UnderWay};
