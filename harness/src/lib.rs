//! The harness: replays a viral spike against any sender, sends every awkward request to any receiver, and judges
//! both by its own observations. Only [`cli`] names the sender and the receiver. The pure parts are crates:
//! `hookproof-judge`, `hookproof-play` and `hookproof-simulator`.
//!
//! In reading order:

/// The command line, and its exit codes.
pub mod cli;

/// The generator: releases events when they are due.
pub mod traffic;

/// Mock receivers that behave as a scenario says, and stamp arrivals.
pub mod endpoint;

/// The database that a run gives to the sender under test.
pub mod database;

/// Starts and calls a sender under test.
pub mod driver;

#[cfg(test)]
#[path = "../../sender/tests/fuzzing/mod.rs"]
mod fuzzing;

pub mod fault;

/// The only source of time.
pub mod clock;

mod stall;

/// One run, from the scenario to the trace.
pub mod run;

pub mod rehearsal;

/// A scenario against a sender inside of a test.
mod in_process;

pub use in_process::{Harness, HarnessError, Judged, NewEvent, NewSubscriber, Sender};

pub mod wire;

/// The cases that certify a receiver.
pub mod suite;

pub mod load;
