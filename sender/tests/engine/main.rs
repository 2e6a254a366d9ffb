//! The engine's guarantees, each stated from its definition and tried in virtual time.
//!
//! - `shell`: a store in memory, and what a driver does, without a clock.
//! - `world`: endpoints, and time that jumps from event to event.
//! - `judge`: what a contract means for arrivals, all pairs of them.
//! - `senders`: the engine and some broken senders behind one interface.
//! - `scripts`: what happens to a sender, at random.
//! - `doubtful`: a small sender with a rule of doubt to be spoilt.
//! - the others: the tests.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod baseline;
mod behaviour;
mod determinism;
mod doubtful;
mod fairness;
mod guarantee;
mod judge;
mod limiter;
mod liveness;
mod pauses;
mod pressure;
mod scripts;
mod senders;
mod shell;
mod waste;
mod world;
