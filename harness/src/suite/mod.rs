//! The cases that certify a receiver: each sends one request or a few, and knows what a correct receiver answers.
//!
//! A case that saw nothing is `inconclusive`, never `pass`: what a receiver that accepts nothing rejects proves nothing,
//! so everything rests on `sig.valid`, which is sent first, and again after every case that attacks.
//!
//! In reading order: `Settings` says what is asked; the bench signs, sends and remembers; the cases are tables of
//! requests with what is wanted, and courses for what a table can't say; `run` goes through them; `Report` is what
//! came of it.

mod bench;
mod bytes;
mod cases;
mod course;
mod effects;
mod hooks;
mod known;
mod page;
mod record;
mod report;
mod run;
mod settings;
mod table;
mod want;

pub use bytes::date;
pub use hookproof_judge::catalogue::{SelectError, Selection};
pub use hooks::Hooks;
pub use known::{Known, KnownError};
pub use record::Recorded;
pub use report::{Counts, Report, Row, Stopped};
pub use run::{Step, run};
pub use settings::Settings;
