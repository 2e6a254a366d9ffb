#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod attempts;
mod commands;
mod delivery;
mod encryption;
mod flow;
mod latencies;
mod live_change;
mod mcp;
mod nodes;
mod notices;
#[path = "../postgres_server/mod.rs"]
mod postgres_server;
mod refusals;
mod retry;
mod tokens;
mod world;
