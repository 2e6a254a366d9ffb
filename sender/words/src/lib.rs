//! The types that the sender's engine, stores and programs share. Pure: time and random bytes are arguments.
//!
//! - [`ids`], [`time`], [`states`]: typed numbers, moments and kinds.
//! - [`event_type`], [`pattern`], [`public_id`]: the type of an event, sets of types, public names.
//! - [`units`]: durations, rates and sizes as text; [`excerpt`]: untrusted text in messages.
//! - [`numbers`] and, by the features of the same names, `sqlite` and `postgres`: their form in databases.

pub mod event_type;
pub mod excerpt;
pub mod ids;
pub mod numbers;
pub mod pattern;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod public_id;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod states;
mod text_form;
pub mod time;
pub mod units;
