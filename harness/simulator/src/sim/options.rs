//! How a scenario is simulated, and what that leaves behind.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hookproof_sender::engine::StoreTime;

use super::figures::Figures;
use super::mutant::Mutant;
use hookproof_judge::scenario::SECOND;

/// When every simulated run begins, by the endpoints' clocks: 15 January 2027.
pub const EPOCH: StoreTime = StoreTime(1_800_000_000 * SECOND);

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
    /// For how long a sweep lets endpoints stop reading at most; nothing for not at all.
    pub stalls: hookproof_judge::scenario::Duration,
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
            stalls: hookproof_judge::scenario::Duration::default(),
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

/// A length of time, in nanoseconds.
pub(super) fn ns(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}
