//! Traffic: the whole schedule of a run, computed before it begins.
//!
//! Open loop: an event is released when it is due, regardless of earlier ones. A slow sender is offered no
//! less, and its latency counts from the intended moment. In reading order:

mod chance;
mod curve;
mod recording;
mod schedule;
mod token;

pub use chance::{Chance, mix};
pub use recording::RecordingError;
pub use schedule::{Due, Schedule, ScheduleError};
pub use token::Tokens;
