//! The engine: every decision that the sender makes, and nothing else.

pub mod ids;
pub mod time;

pub use ids::{AttemptId, BatchId, DeliveryId, LaneId, Term};
pub use time::{Instant, Nanos, WallTime};
