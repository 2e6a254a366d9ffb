//! Hookproof's sender: durable, exact, fair, on one machine.
//!
//! Read the modules in this order:
//!
//! - [`engine`]: every decision the sender makes, as a pure state machine. No clock, no disk, no network.

pub mod engine;
