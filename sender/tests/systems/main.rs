//! What the systems that this one grew from had, shown on the real sender with their own figures. The table beside this
//! file names the tests of each row; another test here holds the table to the sources.

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
