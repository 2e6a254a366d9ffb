//! Traffic: the whole schedule of a run, computed before it begins, and the thread that keeps it.
//!
//! Open loop: an event is released when it is due, whatever became of those before it. A sender that slows down is
//! thereby offered no less, and its latency counts from when an event was meant to be offered, not from when there was
//! time to. In reading order:

mod chance;
mod curve;
mod generator;
mod recording;
mod schedule;
mod token;

pub use chance::{Chance, mix};
pub use generator::{Lag, Pace, play};
pub use recording::RecordingError;
pub use schedule::{Due, Schedule, ScheduleError};
pub use token::Tokens;
