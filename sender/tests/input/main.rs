//! Each refusal must name fault and place, memory must stay bounded, and another lane must keep its contract's rate.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../binary/mod.rs"]
mod binary;
mod bystander;
mod endpoints;
mod lines;
mod outbox;
mod sockets;
mod subscribers;
