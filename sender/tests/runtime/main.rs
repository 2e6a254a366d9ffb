//! The running sender over real sockets: each emitted event arrives signed, once, within the contract.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod delivers;
mod sink;
mod start;
