//! All tests of the harness in one program: it links once, and the waits of one test are the work of another.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod driver;
mod endpoint;
mod gate;
#[cfg(target_os = "linux")]
mod interrupted;
mod page;
mod plan;
#[path = "../../sender/tests/postgres_server/mod.rs"]
mod postgres_server;
mod receiver_mutants;
mod run;
mod scenarios;
mod sender_mutants;
mod sim;
mod suite;
mod traffic;
