//! The real binary on temporary databases, as a person or a script would use it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod commands;
mod delivery;
mod live_change;
mod nodes;
mod refusals;
mod world;
