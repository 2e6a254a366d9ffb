//! All tests of the sender in one program: it links once, and the waits of one test are the work of another.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod api;
mod binary;
mod cli;
mod console;
mod crash;
mod dispatch;
mod faults;
mod fuzzing;
mod input;
mod postgres_server;
mod power_loss;
mod runtime;
mod store;
mod systems;
mod transport;
mod vectors;
