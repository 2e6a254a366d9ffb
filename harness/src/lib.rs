//! The harness: replays a viral spike against any sender, sends every awkward request to any receiver, and judges both
//! from what it saw. It is a stranger to what it judges: nothing outside [`cli`] (which hands over to the other command
//! lines) and the simulator may name the sender or the receiver, and a test proves it.
//!
//! In reading order:

/// The command line: what is asked, and the exit code of the answer.
pub mod cli;

/// The schedule of a run, computed before it begins, and the generator that keeps it.
pub mod traffic;

/// Mock receivers that behave as a scenario says, and stamp what arrives.
pub mod endpoint;

/// The database that a run gives to the sender under test.
pub mod database;

/// How the harness starts and talks to a sender under test.
pub mod driver;

/// What is done to the sender under test while it works.
pub mod fault;

/// The one home of time.
pub mod clock;

/// One run, from the scenario to the trace.
pub mod run;

/// A driver file, tried before it is trusted.
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

/// How far a launch stretches, what breaks first, and what would carry it.
pub mod plan;
