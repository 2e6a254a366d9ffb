//! Every decision of Hookproof's sender, as state machines without a clock, a disk, a network or a runtime.
//!
//! Read the modules in this order:
//!
//! - [`engine`]: when each lane sends, and the reaction to each answer.
//! - [`messages`]: commands to a store and its replies, with the lanes, nodes and bodies in them.
//! - [`dispatch`]: decisions around the engine: leases, claims, records and settlements.

pub mod dispatch;
pub mod engine;
pub mod messages;
