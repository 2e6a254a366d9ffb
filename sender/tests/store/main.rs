//! What any store must do (`contract`), what random commands must not break (`law`), and what is SQLite's own affair
//! (`sqlite`, `kills`).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod contract;
mod kills;
mod law;
mod log;
mod sqlite;
mod world;
