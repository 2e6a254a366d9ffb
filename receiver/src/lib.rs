//! Hookproof's reference receiver: verifies webhooks strictly, and loses none that it has acknowledged.
//!
//! Read the modules in this order:
//!
//! - [`verify`]: is this request what the sender signed? Pure: no clock, no disk, no network.
//! - [`layer`]: the same as a tower layer, over the raw body, within bounds.
//! - [`inbox`]: committed first, acknowledged then, worked on after that.
//! - [`server`]: both behind a listener; [`relay`]: forwarding instead of keeping.
//! - [`answer`]: what is answered; [`clock`]: the one home of clocks.
//! - [`cli`]: all of it as commands.

pub mod answer;
pub mod cli;
pub mod clock;
pub mod inbox;
pub mod layer;
pub mod relay;
pub mod server;

pub use hookproof_verify as verify;
