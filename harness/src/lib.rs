//! The harness: replays a viral spike against any sender, sends every awkward request to any receiver, and
//! judges both by its own observations. It is a stranger to both: only [`cli`] (for the other command lines)
//! and the simulator may name the sender or the receiver; a test enforces that.
//!
//! In reading order:

/// The command line, and its exit codes.
pub mod cli;

/// The schedule of a run, computed before it begins, and the generator that keeps it.
pub mod traffic;

/// Mock receivers that behave as a scenario says, and stamp arrivals.
pub mod endpoint;

/// The database that a run gives to the sender under test.
pub mod database;

/// Starts and calls a sender under test.
pub mod driver;

/// Faults of the sender under test.
pub mod fault;

/// The only source of time.
pub mod clock;

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

/// The production engine and store in virtual time.
pub mod sim;

/// The plan of a launch: its headroom, its first breach, and the changes that carry more.
pub mod plan;
