//! Hookproof's reference receiver: verifies webhooks strictly, and loses none that it has acknowledged.
//!
//! Read the modules in this order:
//!
//! - [`verify`]: checks that the sender signed a request. Pure: no clock, no disk, no network.
//! - [`layer`]: verification as a tower layer.
//! - [`inbox`]: commits a delivery, acknowledges it, then processes it.
//! - [`server`]: both behind a listener; [`relay`]: forwards instead of storing.
//! - [`answer`]: the answers to senders; [`clock`]: the only module that reads clocks.
//! - [`cli`]: the commands.

pub mod answer;
pub mod cli;
pub mod clock;
pub mod inbox;
pub mod layer;
pub mod relay;
pub mod server;

pub use hookproof_verify as verify;
