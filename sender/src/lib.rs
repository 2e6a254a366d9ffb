//! Hookproof's sender: durable, exact and fair webhooks, on one machine or several.
//!
//! Read the modules in this order:
//!
//! - [`engine`]: the decisions, as a pure state machine. No clock, no disk, no network.
//! - [`store`]: durable queues and results.
//! - [`event`]: offers of emitters, and the bytes that are sent.
//! - [`guard`]: the addresses that deliveries may be sent to.
//! - [`sign`]: signatures for endpoints.
//! - [`subscriber`]: a subscriber's settings, as written and as validated.
//! - [`roster`]: all subscribers at one version.
//! - [`fanout`]: from an event to deliveries; [`delivery_ids`]: their public ids.
//! - `operate`: functions for operators, shared by the API and the command line.
//! - [`dispatch`]: decisions around the engine: leases of lanes, claims and records.
//! - [`runtime`]: carries out these decisions over sockets and disks.
//! - [`cli`]: the commands.
//! - [`boot_clock`]: the machine's clock; [`units`]: durations, rates and sizes as text.

#[cfg(feature = "service")]
pub mod api;
#[cfg(feature = "service")]
pub mod boot_clock;
#[cfg(feature = "service")]
pub mod cli;
#[cfg(feature = "service")]
pub mod delivery_ids;
#[cfg(feature = "service")]
pub mod dispatch;
#[cfg(feature = "service")]
mod documented;
pub mod engine;
#[cfg(feature = "service")]
pub mod event;
#[cfg(feature = "service")]
pub mod excerpt;
#[cfg(feature = "service")]
pub mod fanout;
#[cfg(all(test, feature = "service"))]
#[path = "../tests/fuzzing/mod.rs"]
mod fuzzing;
#[cfg(feature = "service")]
pub mod guard;
#[cfg(feature = "service")]
mod operate;
#[cfg(feature = "service")]
pub mod roster;
#[cfg(feature = "service")]
pub mod runtime;
#[cfg(feature = "service")]
pub mod sign;
#[cfg(feature = "service")]
pub mod store;
#[cfg(feature = "service")]
pub mod subscriber;
#[cfg(feature = "service")]
mod text_form;
#[cfg(feature = "service")]
pub mod transport;
#[cfg(feature = "service")]
pub mod units;
#[cfg(feature = "service")]
mod word_form;
