//! Hookproof's sender: durable, exact, fair, on one machine or several.
//!
//! Read the modules in this order:
//!
//! - [`engine`]: every decision the sender makes, as a pure state machine. No clock, no disk, no network.
//! - [`store`]: what is owed and what became of it, on disk.
//! - [`event`]: what an emitter may offer, whom it concerns, and which bytes it becomes.
//! - [`guard`]: which addresses a delivery may be sent to.
//! - [`sign`]: proof to an endpoint that a body came from here, untouched.
//! - [`subscriber`]: what a subscriber is owed, as people write it and as the sender goes by it.
//! - [`roster`]: all subscribers at one moment, made ready.
//! - [`fanout`]: from one event to what each subscriber is owed; [`delivery_ids`]: what that is called outside.
//! - `operate`: what the API and the command line both tell operators, once.
//! - [`dispatch`]: every decision around the engine: lanes taken, kept and given back; what is claimed and written down.
//! - [`runtime`]: carries out what the dispatcher says, over sockets and disks.
//! - [`cli`]: all of it as commands.
//! - [`boot_clock`]: the machine's clock, which also counts the time in which it is suspended.
//! - [`units`]: lengths of time, rates and sizes as people write them.

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
