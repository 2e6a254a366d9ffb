//! The words of Hookproof's sender, which its engine, its stores and its programs share. Pure: time and random bytes are arguments.
//!
//! - [`ids`], [`time`], [`states`]: numbers, moments and kinds with a type of their own.
//! - [`event_type`], [`pattern`], [`public_id`]: an event's type, which types a subscriber wants, names that partners see.
//! - [`units`]: lengths of time, rates and sizes as people write them; [`excerpt`]: a stranger's text in a message.
//! - [`numbers`] and, by the features of the same names, `sqlite` and `postgres`: how databases write them.

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
