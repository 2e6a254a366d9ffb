//! Hookproof's sender: durable, exact and fair webhooks, on one machine or several.
//!
//! Read the modules in this order:
//!
//! - [`engine`]: the decisions, as a pure state machine, in a crate of its own.
//! - [`store`]: durable queues and results.
//! - [`event`]: offers of emitters, and the bytes that are sent.
//! - [`guard`]: the addresses that deliveries may be sent to.
//! - [`sign`]: signatures for endpoints.
//! - [`subscriber`]: a subscriber's settings; [`tls_files`]: its certificates; [`oauth`]: its OAuth 2.0 client;
//!   [`permission`]: its endpoint's permission; [`roster`]: all subscribers at one version.
//! - [`fanout`]: from an event to deliveries; [`delivery_ids`]: their public ids.
//! - `operate`: decisions for operators, shared by the API and the command line.
//! - [`dispatch`]: decisions around the engine: leases of lanes, claims and records.
//! - [`runtime`]: carries out these decisions over sockets and disks.
//! - [`cli`]: the commands.
//! - [`boot_clock`]: the machine's clock; [`units`]: durations, rates and sizes as text.

pub mod api;
pub mod boot_clock;
pub mod cli;
pub mod delivery_ids;
pub mod dispatch;
mod documented;
pub mod event;
pub mod fanout;
#[cfg(test)]
#[path = "../tests/fuzzing/mod.rs"]
mod fuzzing;
pub mod guard;
pub mod oauth;
mod operate;
pub mod permission;
pub mod roster;
pub mod runtime;
pub mod sign;
pub mod spans;
pub mod subscriber;
pub mod tls_files;
pub mod transport;
mod word_form;

pub use hookproof_engine::engine;
pub use hookproof_store as store;
pub use hookproof_words::{excerpt, units};
