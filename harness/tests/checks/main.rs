//! The judge, judged: exact checks against all pairs, traces with known verdicts, and traces that no check may pass.

mod asked;
mod backoff;
mod build;
mod exactness;
mod faults;
mod given_up;
mod golden;
mod owed;
mod queue;
mod traces;
