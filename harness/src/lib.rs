//! The harness: replays a viral spike against any sender, sends every awkward request to any receiver, and judges both
//! from what it saw. It is a stranger to what it judges: nothing outside [`cli`] (which hands over to the other command
//! lines) and the simulator may name the sender or the receiver, and a test proves it.
//!
//! In reading order:

/// The command line: what is asked, and the exit code of the answer.
pub mod cli;

/// The exit codes that scripts rely on.
pub mod exit;

/// The scenario file: what a run plays and what must hold.
pub mod scenario;

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

/// The recorded history of a run.
pub mod trace;

/// The words that checks and cases share: entry, severity, verdict.
pub mod entry;

/// The selection of checks or cases by `--only` and `--skip`.
pub mod select;

/// Pure functions from a trace and a scenario to a verdict with its witness.
pub mod check;

/// Every check of a sender and every case for a receiver.
pub mod catalogue;

/// One run, from the scenario to the trace.
pub mod run;

/// A driver file, tried before it is trusted.
pub mod rehearsal;

/// A scenario played against a sender inside of a test.
mod in_process;

pub use in_process::{Harness, HarnessError, Judged, NewEvent, NewSubscriber, Sender};

/// The verdict, for terminals, machines and people who would rather look.
pub mod report;

/// Webhook signatures and raw HTTP, written for the judge alone.
pub mod wire;

/// The cases that certify a receiver.
pub mod suite;

/// Open-loop load on a receiver.
pub mod load;

/// The production engine and store in virtual time.
pub mod sim;

/// How far a launch stretches, what breaks first, and what would carry it.
pub mod plan;
