//! The shipped dispatcher and store in virtual time: a seed decides a whole run, and repeats it.
//!
//! In reading order:

/// One simulated run, from the scenario to the trace, and sweeps over many seeds.
pub mod sim;

/// The plan of a launch: the highest load, the first breach, and the changes that carry more.
pub mod plan;
