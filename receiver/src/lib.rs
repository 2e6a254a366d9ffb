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

#[cfg(feature = "service")]
pub mod answer;
#[cfg(feature = "service")]
pub mod cli;
#[cfg(feature = "service")]
pub mod clock;
#[cfg(feature = "service")]
pub mod inbox;
#[cfg(feature = "service")]
pub mod layer;
#[cfg(feature = "service")]
pub mod relay;
#[cfg(feature = "service")]
pub mod server;
pub mod verify;
