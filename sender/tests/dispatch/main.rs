//! The dispatcher in virtual time, on a real store. The tests act as its shell.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod budget;
mod disabling;
mod failures;
mod nodes;
mod ownership;
mod retries;
mod world;
