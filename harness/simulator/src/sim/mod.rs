//! Ring 1: the production engine, dispatcher and store in virtual time, with modelled endpoints and faults. A heap of
//! events, no real clock, no threads: a seed decides everything, and the same seed does it again.
//!
//! In reading order; nobody imports what comes later:
//!
//! - `options`, `error`, `figures`, `ledger`: how a run is asked for, and what it amounts to.
//! - `mutant`: senders that the checks must find wanting, made by changing the dispatcher's events and effects.
//! - `commit_queue`: what waits for the store. `process`: one process of the sender, dispatcher and store.
//! - `heap`, `event`, `exchange`, `offers`, `errand`, `book`: what is to happen, what is under way, what is written down.
//! - `world`: all of that together, and the little that everybody does to it.
//! - `network`, `arrival`: requests and endpoints. `offer`: the emitter. `operators`: what they do. `trouble`: faults.
//!   `turns`: processes in their turn. `close`: looking into the queue, and the end.
//! - `simulation`: a run from its beginning to its end. `setup`, `subscribe`: the scenario in the sender's words.
//! - `judged`: the same checks as for a real run, less what virtual time can't show. `swarm`: one scenario, many seeds.
//!
//! Everything that the sender decides is decided by its own dispatcher. What is modelled: the time that a commit takes and
//! the time that bytes are under way, both drawn by the seed; the behaviours of the scenario's endpoints; crashes, stops,
//! clock steps, a store that can't write. What isn't: see ARCHITECTURE.md.

mod arrival;
mod book;
mod close;
mod commit_queue;
mod errand;
mod error;
mod event;
mod exchange;
pub mod figures;
mod heap;
mod judged;
pub mod ledger;
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
pub use judged::{judged, judged_disturbed, not_judged_disturbed, skipped};
pub use mutant::Mutant;
pub use options::{EPOCH, Keep, Model, Options, Simulated};
pub use setup::{declared, unmodelled};
pub use simulation::{remove_folders, simulate};
