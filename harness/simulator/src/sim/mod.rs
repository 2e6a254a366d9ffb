//! The shipped engine, dispatcher and store in virtual time, with modelled endpoints and faults. The seed decides
//! everything.
//!
//! The simulator models the time of commits and of the network (drawn by the seed), the endpoints' behaviour, crashes,
//! stops, clock steps and a store that cannot write. `docs/internals/simulation.md` lists its limits.
//!
//! Reading order: `options`; `process` and `commit_queue`, one process of the sender; `world`, all state together;
//! `network`, `offer`, `operators`, `trouble`, `turns` and `close`, which change it; `simulation`, a whole run;
//! `judged` and `liveness`, the verdicts; `swarm`, one scenario and many seeds.

mod arrival;
mod book;
mod close;
mod commit_queue;
mod error;
mod event;
mod exchange;
pub mod figures;
mod heap;
mod judged;
pub mod ledger;
mod liveness;
mod mutant;
mod network;
mod offer;
mod offers;
mod operators;
mod options;
mod process;
mod progress;
mod setup;
mod simulation;
mod subscribe;
pub mod swarm;
mod trouble;
mod turns;
mod world;

pub use error::SimError;
pub use judged::{judged, judged_disturbed, not_judged_disturbed, skipped, with_silence};
pub use liveness::Silence;
pub use mutant::{Loss, Mutant};
pub use options::{EPOCH, Keep, Model, Options, Simulated};
pub use progress::{Progress, idle_steps};
pub use setup::{declared, unmodelled};
pub use simulation::{remove_folders, simulate};
