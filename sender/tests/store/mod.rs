//! `contract` runs for every store; `law` draws random commands; `parts` are events taken in part; the rest concerns
//! SQLite or PostgreSQL alone.

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
mod quick;
mod sqlite;
mod tls;
mod transfer;
mod vacuum;
mod world;
