//! The engine's guarantees, each tested from its definition in virtual time.
//!
//! - `shell`: a store in memory, and a driver without a clock.
//! - `world`: endpoints, and time that jumps from event to event.
//! - `judge`: the contract for all pairs of arrivals.
//! - `senders`: the engine and broken senders behind one interface.
//! - `scripts`: random events for a sender.
//! - `doubtful`: a small sender with a rule of doubt to falsify.
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
