//! Every decision of the sender, as state machines without a clock, a disk, a network or a runtime.
//!
//! Reading order: [`engine`] decides when each lane sends; [`messages`] are commands to a store and its replies;
//! [`dispatch`] decides around the engine: leases, claims, records and settlements.

pub mod dispatch;
pub mod engine;
pub mod messages;
