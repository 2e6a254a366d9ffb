//! The judge, judged: exact checks against all pairs, traces with known verdicts, and traces that no check may pass.

mod build;
mod exactness;
mod golden;
mod owed;
mod traces;
