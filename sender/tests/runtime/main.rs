//! The running sender over real sockets: what is emitted arrives, signed, once, within the contract.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod delivers;
mod sink;
mod start;
