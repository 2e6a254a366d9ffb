//! The judge, judged: exact checks against all pairs, traces with known verdicts, and traces that no check may pass.

mod again;
mod asked;
mod backoff;
mod begun;
mod broken;
mod build;
mod coalesced;
mod deadlines;
mod emits;
mod exactness;
mod excuses;
mod faults;
mod given_up;
mod golden;
mod in_flight;
mod mutator;
mod owed;
mod processes;
mod queue;
mod recovery;
mod rotations;
mod strangers;
mod traces;
mod truth;
mod word;
mod words;
