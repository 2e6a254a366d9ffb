//! The cases that certify a receiver. Each sends one or a few requests, and knows a correct receiver's
//! answers.
//!
//! A case without evidence is `inconclusive`, never `pass`. A receiver that accepts nothing also rejects
//! forgeries, so everything depends on `sig.valid`, which is sent first and after every attack.
//!
//! In reading order: `Settings` is the request; the bench signs, sends and records; cases are tables of
//! requests with expectations, or scripts; `run` executes them; `Report` is the result.

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
