//! One run, from the scenario to the trace.

mod clock;
mod recorder;

pub use clock::{Clock, nanos};
pub use recorder::{QUEUE_MAX, Recorder};
