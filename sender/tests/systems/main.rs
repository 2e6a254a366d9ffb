//! Features of earlier systems, with their own figures. The table beside this file names the tests of each row, and
//! another test compares it with the sources.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod backlog;
mod backoff;
#[path = "../binary/mod.rs"]
mod binary;
mod limits;
mod operating;
mod pressure;
mod shaping;
mod signing;
mod table;
