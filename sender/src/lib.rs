//! Hookproof's sender: durable, exact, fair, on one machine.
//!
//! Read the modules in this order:
//!
//! - [`engine`]: every decision the sender makes, as a pure state machine. No clock, no disk, no network.
//! - [`store`]: what is owed and what became of it, on disk.

pub mod engine;
#[cfg(feature = "service")]
pub mod store;
