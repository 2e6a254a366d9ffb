//! Bad input of every kind against the real sender: over its sockets, in its outbox, in settings, and in what endpoints
//! answer. Whatever comes, the process goes on, every refusal says what is wrong and where, memory stays bounded, and
//! another lane gets what it is owed at the rate of its contract.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../binary/mod.rs"]
mod binary;
mod bystander;
mod endpoints;
mod lines;
mod outbox;
mod sockets;
mod subscribers;
