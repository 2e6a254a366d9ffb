//! Ring 1: the production engine and the production store in virtual time, with modelled endpoints and faults. A heap of
//! happenings, no real clock, no threads: a seed decides everything, and the same seed does it again.
//!
//! - `world`: what there is; `heap`: what is to happen, in order; `offer`: the emitter; `close`: the end.
//! - `process`: one process of the sender, engine and store; `lanes`, `deeds`: what it owns and does, in the order in which
//!   the sender's heart has it; `beat`: processes in their turn.
//! - `network`: requests and endpoints; `arrival`, `book`: how they are recorded; `trouble`: faults;
//!   `errand`: what operators do.
//! - `setup`: how the scenario has the sender started. - `subscribe`: the scenario's words in the sender's. - `mutant`: senders that the checks must find wanting.
//! - `ledger`: what the store says of itself. - `judged`: the same checks as for a real run, less what virtual time can't show.
//! - `swarm`: one scenario, many seeds. - `figures`: what a run amounts to, counted as it goes.
//!
//! What is modelled: the time that a commit takes and the time that bytes are under way, both drawn by the seed; the
//! behaviours of the scenario's endpoints; crashes, stops, clock steps, a store that can't write. What isn't: the time that
//! the sender's own code takes, the number of connections, and everything about TLS and HTTP.

mod arrival;
mod beat;
mod book;
mod close;
mod deeds;
mod errand;
pub mod figures;
mod heap;
mod judged;
mod lanes;
pub mod ledger;
mod mutant;
mod network;
mod offer;
mod process;
mod setup;
mod subscribe;
pub mod swarm;
mod trouble;
mod world;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hookproof_sender::engine::WallTime;
use hookproof_sender::store::StoreError;

pub use judged::{judged, skipped};
pub use mutant::Mutant;
pub use setup::unmodelled;
pub use world::simulate;

use crate::scenario::SECOND;
use figures::Figures;

/// When every simulated run begins, by the endpoints' clocks: 15 January 2027.
pub const EPOCH: WallTime = WallTime(1_800_000_000 * SECOND);

/// The times that the world takes, and how closely it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// A commit takes from so long to so long.
    pub commit_ns: (u64, u64),
    /// A request or an answer is under way from so long to so long.
    pub wire_ns: (u64, u64),
    /// The queue is looked into this often.
    pub sample_ns: u64,
    /// What expired is given up, and what was kept long enough deleted, this often.
    pub upkeep_ns: u64,
    /// For how long what is delivered is kept.
    pub keep_ns: u64,
}

impl Model {
    /// Close to what a machine with a fast disk does.
    pub const CLOSE: Self = Self {
        commit_ns: (300_000, 2_000_000),
        wire_ns: (20_000, 150_000),
        sample_ns: SECOND / 4,
        upkeep_ns: SECOND / 2,
        keep_ns: 86_400 * SECOND,
    };

    /// For runs of so long with so many events: large commits and few samples where a run is long.
    #[must_use]
    pub fn fitting(lasts_ns: u64, events: usize) -> Self {
        if events < 200_000 && lasts_ns < 7_200 * SECOND {
            return Self::CLOSE;
        }
        let commit = match events {
            ..500_000 => Self::CLOSE.commit_ns,
            500_000..3_000_000 => (200_000_000, 300_000_000),
            _ => (500_000_000, 700_000_000),
        };
        Self {
            commit_ns: commit,
            sample_ns: (lasts_ns / 3_000).max(SECOND),
            upkeep_ns: (lasts_ns / 5_000).clamp(SECOND, 30 * SECOND),
            keep_ns: 1_200 * SECOND,
            ..Self::CLOSE
        }
    }
}

/// How a scenario is simulated.
#[derive(Clone, Debug)]
pub struct Options {
    /// In the place of the scenario's.
    pub seed: Option<u64>,
    /// Where the scenario's recordings are.
    pub folder: PathBuf,
    /// The times that the world takes; those that fit the scenario without it.
    pub model: Option<Model>,
    /// What is kept of the run.
    pub keep: Keep,
    /// A bug that the sender is given.
    pub mutant: Option<Mutant>,
    /// Only what the traffic offers before this moment, in nanoseconds.
    pub until: Option<u64>,
    /// Once it is true, what is being simulated ends as interrupted.
    pub interrupt: Arc<AtomicBool>,
}

/// What is kept of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// The whole trace, every request signed and verified.
    #[default]
    Trace,
    /// The figures alone.
    Figures,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: None,
            folder: PathBuf::from("."),
            model: None,
            keep: Keep::Trace,
            mutant: None,
            until: None,
            interrupt: Arc::default(),
        }
    }
}

/// What a simulated run left behind.
#[derive(Debug)]
pub struct Simulated {
    /// The trace as it would be in a file, if it was kept.
    pub trace: Vec<u8>,
    /// SHA-256 of the trace, or of all that happened where none was kept.
    pub sha256: String,
    /// What it amounts to.
    pub figures: Figures,
}

/// A scenario that can't be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// Its traffic can't be scheduled.
    #[error(transparent)]
    Schedule(#[from] crate::traffic::ScheduleError),
    /// The sender doesn't take a subscriber.
    #[error("the sender refuses subscriber {name}: {why}")]
    Subscriber {
        /// Whose.
        name: String,
        /// Why.
        why: String,
    },
    /// An event is none that the sender takes.
    #[error("the sender refuses event {token}: {why}")]
    Event {
        /// Which.
        token: u64,
        /// Why.
        why: String,
    },
    /// The sender's arguments are none that it takes.
    #[error("[sender] arguments: {0}")]
    Argument(String),
    /// The store.
    #[error("the simulated sender can't {doing}: {error}")]
    Store {
        /// What was being done.
        doing: &'static str,
        /// Why.
        error: StoreError,
    },
    /// The database outgrows its folder.
    #[error("the simulated database does not fit into {}: {error}; set TMPDIR to a folder with room", .folder.display())]
    Full {
        /// Where it was.
        folder: PathBuf,
        /// Why.
        error: StoreError,
    },
    /// Somebody has seen enough.
    #[error("interrupted after {0} of virtual time")]
    Interrupted(crate::scenario::Duration),
    /// There is no room for the database.
    #[error("there is no folder for the simulated database: {0}")]
    Folder(std::io::Error),
    /// The simulator is wrong.
    #[error("the simulator is at fault: {0}")]
    Defect(String),
}

fn store_failed(doing: &'static str) -> impl Fn(StoreError) -> SimError {
    move |error| SimError::Store { doing, error }
}
