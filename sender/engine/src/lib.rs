//! Every decision of Hookproof's sender, as state machines: no clock, no disk, no network, no runtime.
//!
//! Read the modules in this order:
//!
//! - [`engine`]: when each lane sends, and what follows an answer.
//! - [`messages`]: commands to a store and its replies, with the lanes, nodes and bodies that they name.
//! - [`dispatch`]: every decision around the engine: lanes taken, kept and given back; what is claimed and written down.

pub mod dispatch;
pub mod engine;
pub mod messages;
