//! The judge: a pure function of a scenario and a trace. It depends neither on the sender nor on the receiver, so one
//! mistake cannot hide on both sides. In reading order:

mod spelling;

/// The scenario file: the load, the faults, and the objectives of a run.
pub mod scenario;

/// The recorded history of a run: written during the run, and read back as untrusted input.
pub mod trace;

/// Webhook signatures, a second time.
pub mod signature;

/// The types that checks and cases share.
pub mod entry;

/// Pure functions from a trace and a scenario to a verdict.
pub mod check;

/// Every check of a sender and every case for a receiver.
pub mod catalogue;

pub mod standard;

pub mod exit;

/// The verdict as a table, JSON, JUnit, Markdown, and a page.
pub mod report;
