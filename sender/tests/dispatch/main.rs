//! The dispatcher in virtual time, on a real store: what it does when the store fails, when lanes come and go, and when it
//! is to stop. The tests are its shell.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod budget;
mod failures;
mod nodes;
mod ownership;
mod world;
