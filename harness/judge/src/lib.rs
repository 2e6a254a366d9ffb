//! The judge: a pure function of a scenario and a trace. It depends neither on the sender nor on the receiver, so one
//! mistake cannot hide on both sides. In reading order:

mod spelling;

/// The scenario file: the load, the faults, and the objectives of a run.
pub mod scenario;

/// The recorded history of a run: written during the run, and read back as untrusted input.
pub mod trace;

/// Webhook signatures, implemented a second time for the judge.
pub mod signature;

/// The types that checks and cases share: entry, severity, verdict; and their selection by `--only` and `--skip`.
pub mod entry;

/// Pure functions from a trace and a scenario to a verdict with its witness.
pub mod check;

/// Every check of a sender and every case for a receiver.
pub mod catalogue;

/// Standards as lists of requirements, and certificates.
pub mod standard;

/// The exit codes that scripts rely on.
pub mod exit;

/// The verdict as a table, JSON, JUnit, Markdown, and a page.
pub mod report;
