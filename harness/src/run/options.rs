//! The settings of a run, beside its scenario.

use std::path::PathBuf;

use super::live::Live;
use crate::endpoint::Reach;

/// The settings of a run, beside its scenario.
#[derive(Clone, Debug)]
pub struct Options {
    /// Replaces the scenario's seed.
    pub seed: Option<u64>,
    /// The driver file of another sender than ours.
    pub driver: Option<PathBuf>,
    /// The folder for the trace, the sender's files and its logs.
    pub out: PathBuf,
    /// The `hookproof` program, which starts the sender and wraps processes.
    pub program: PathBuf,
    /// The folder of the scenario's recordings.
    pub folder: PathBuf,
    /// Whether to show progress.
    pub show: bool,
    /// The way to the endpoints.
    pub reach: Reach,
    /// The live page.
    pub live: Option<Live>,
}

impl Options {
    pub(super) fn trace(&self) -> PathBuf {
        self.out.join("trace.jsonl")
    }
}
