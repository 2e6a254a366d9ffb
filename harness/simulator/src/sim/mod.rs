//! The shipped engine, dispatcher and store in virtual time, with modelled endpoints and faults. It uses a heap
//! of events, no real clock and no threads: the seed decides everything.
//!
//! In reading order; each module imports only earlier ones:
//!
//! - `options`, `error`, `figures`, `ledger`: the request for a run, and its results.
//! - `mutant`: defective senders that the checks must find, made by changing the dispatcher's events and
//!   effects.
//! - `liveness`: a lane that may send and does not.
//! - `commit_queue`: the store thread. `process`: one process of the sender.
//! - `heap`, `event`, `exchange`, `offers`, `errand`, `book`: the state of a run.
//! - `world`: all state together.
//! - `network`, `arrival`: requests and endpoints. `offer`: the emitter. `operators`: operator actions.
//!   `trouble`: faults. `turns`: the steps of processes. `close`: samples, and the end.
//! - `simulation`: a whole run. `setup`, `subscribe`: the scenario as the sender's settings.
//! - `judged`: the checks. `swarm`: one scenario, many seeds.
//!
//! The sender's own dispatcher makes all of the sender's decisions. The simulator models the time of commits
//! and of the network (drawn by the seed), the endpoints' behaviour, crashes, stops, clock steps and a store
//! that cannot write. See `docs/internals/simulation.md` for its limits.

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
pub use setup::{declared, unmodelled};
pub use simulation::{remove_folders, simulate};
