//! The API against a real sender on a database of its own. Where the socket adds nothing, requests go to the router.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod alerts;
mod dead;
mod deliveries;
mod events;
mod machines;
mod nodes;
mod plan;
#[path = "../postgres_server/mod.rs"]
mod postgres_server;
mod refusals;
mod shed;
mod socket;
mod subscribers;
mod world;
