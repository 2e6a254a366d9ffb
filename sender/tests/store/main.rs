//! What any store must do (`contract`), what random commands must not break (`law`), and what is SQLite's own affair
//! (`sqlite`, `quick`, `kills`, `vacuum`). What an event taken in part means is said by its definition (`parts`).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod contract;
mod gone_back;
mod kills;
mod law;
mod log;
mod outbox;
mod parts;
mod pooled;
mod postgres;
mod postgres_clock;
mod postgres_journeys;
#[path = "../postgres_server/mod.rs"]
mod postgres_server;
mod quick;
mod sqlite;
mod tls;
mod transfer;
mod vacuum;
mod world;
