//! Exact checks against all pairs, traces with known verdicts, and traces that no check may pass.

mod again;
mod alone;
mod applicability;
mod backoff;
mod begun;
mod broken;
mod build;
mod coalesced;
mod deadlines;
mod drawn;
mod emits;
mod exactness;
mod excuses;
mod faults;
#[path = "../../../../sender/tests/fuzzing/mod.rs"]
mod fuzzing;
mod given_up;
mod golden;
mod in_flight;
mod liveness;
mod owed;
mod pressure;
mod processes;
mod queue;
mod reader;
mod recovery;
mod retention;
mod rotations;
mod strangers;
mod traces;
mod truth;
mod unjudged;
mod wall_clock;
mod word;
mod words;
