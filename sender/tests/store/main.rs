//! The contract of every store (`contract`), the law under random commands (`law`), events taken in part (`parts`),
//! and behaviour of SQLite and PostgreSQL alone (the rest).

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
