//! Each guarantee from its definition, in virtual time.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod baseline;
mod behaviour;
mod determinism;
mod disabling;
mod doubtful;
mod fairness;
mod guarantee;
mod judge;
mod limiter;
mod liveness;
mod pauses;
mod pressure;
mod retries;
mod scripts;
mod senders;
mod shell;
mod waste;
mod world;
