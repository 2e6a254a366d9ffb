//! The harness: replays a viral spike against any sender, sends every awkward request to any receiver, and judges
//! both by its own observations. Only [`cli`] names the sender and the receiver. The pure parts are crates:
//! `hookproof-judge`, `hookproof-play` and `hookproof-simulator`.
//!
//! In reading order:

#![warn(missing_docs)]

/// The command line, and its exit codes.
pub mod cli;

/// The generator, which releases the events of a schedule when they are due.
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

/// The means by which faults are injected.
pub mod fault;

/// The only source of time.
pub mod clock;

/// Threads that run later than they wanted to.
mod stall;

/// One run, from the scenario to the trace.
pub mod run;

/// Tests a driver file.
pub mod rehearsal;

/// A scenario played against a sender inside of a test.
mod in_process;

pub use in_process::{Harness, HarnessError, Judged, NewEvent, NewSubscriber, Sender};

/// Raw HTTP against a receiver.
pub mod wire;

/// The cases that certify a receiver.
pub mod suite;

/// Open-loop load on a receiver.
pub mod load;
