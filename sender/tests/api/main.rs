//! Requests go to the router, except where a socket makes a difference.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod alerts;
mod dead;
mod deliveries;
mod events;
mod forget;
#[path = "../fuzzing/mod.rs"]
mod fuzzing;
mod jobs;
mod machines;
mod mutated;
mod nodes;
mod plan;
#[path = "../postgres_server/mod.rs"]
mod postgres_server;
mod refusals;
mod retry;
mod shed;
mod socket;
mod subscribers;
mod tokens;
mod world;
