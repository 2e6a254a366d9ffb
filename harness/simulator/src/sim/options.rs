use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hookproof_judge::scenario::SECOND;
use hookproof_sender::engine::StoreTime;

use super::figures::Figures;
use super::liveness::Silence;
use super::mutant::{Loss, Mutant};
use super::progress::Progress;

/// The beginning of every run, by the endpoints' clocks: 15 January 2027.
pub const EPOCH: StoreTime = StoreTime(1_800_000_000 * SECOND);

/// In nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    pub commit_ns: (u64, u64),
    /// A request's or an answer's time on the network.
    pub wire_ns: (u64, u64),
    pub sample_ns: u64,
    pub upkeep_ns: u64,
    /// Delivered events are kept so long.
    pub keep_ns: u64,
}

impl Model {
    /// Similar to a machine with a fast disk.
    pub const CLOSE: Self = Self {
        commit_ns: (300_000, 2_000_000),
        wire_ns: (20_000, 150_000),
        sample_ns: SECOND / 4,
        upkeep_ns: SECOND / 2,
        keep_ns: 86_400 * SECOND,
    };

    /// For longer runs with more events: larger commits and fewer samples.
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

#[derive(Clone, Debug)]
pub struct Options {
    pub seed: Option<u64>,
    /// Holds the scenario's recordings.
    pub folder: PathBuf,
    /// Default: [`Model::fitting`].
    pub model: Option<Model>,
    pub keep: Keep,
    pub mutant: Option<Mutant>,
    /// Once, after so many of its kind.
    pub loses: Option<(Loss, u32)>,
    /// In nanoseconds.
    pub until: Option<u64>,
    /// The longest time that a sweep lets endpoints stop reading; 0 for none.
    pub stalls: hookproof_judge::scenario::Duration,
    /// A plan simulates so many of like subscribers; 0 for all.
    pub sample: usize,
    /// By subscriber: it stands for so many; 1 beyond the end.
    pub weights: Vec<u64>,
    /// True interrupts the simulation.
    pub interrupt: Arc<AtomicBool>,
    pub progress: Arc<Progress>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// The whole trace, with every request signed and verified.
    #[default]
    Trace,
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
            loses: None,
            until: None,
            stalls: hookproof_judge::scenario::Duration::default(),
            sample: 0,
            weights: Vec::new(),
            interrupt: Arc::default(),
            progress: Arc::default(),
        }
    }
}

#[derive(Debug)]
pub struct Simulated {
    /// In its file format, if it was kept.
    pub trace: Vec<u8>,
    /// SHA-256 of the trace, or of the run's content if no trace was kept.
    pub sha256: String,
    pub figures: Figures,
    /// Looked for where a trace is kept.
    pub silence: Option<Silence>,
}

pub(super) fn ns(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}
