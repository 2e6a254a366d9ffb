//! Hookproof's reference receiver: verifies webhooks strictly, and loses none that it has acknowledged.
//!
//! Read the modules in this order:
//!
//! - [`verify`]: is this request what the sender signed? Pure: no clock, no disk, no network.

pub mod verify;
