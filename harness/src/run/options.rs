//! What a run goes by, beside its scenario.

use std::path::PathBuf;

use super::live::Live;
use crate::endpoint::Reach;

/// What a run goes by, beside its scenario.
#[derive(Clone, Debug)]
pub struct Options {
    /// In the place of the scenario's.
    pub seed: Option<u64>,
    /// Another sender than ours.
    pub driver: Option<PathBuf>,
    /// Where the trace, the sender's files and its logs go.
    pub out: PathBuf,
    /// The `hookproof` program, of which the sender and the holders of processes are started.
    pub program: PathBuf,
    /// Where the scenario's recordings are.
    pub folder: PathBuf,
    /// Whether to show the run on a terminal.
    pub show: bool,
    /// How endpoints are to be reached.
    pub reach: Reach,
    /// Where it is shown while it goes on.
    pub live: Option<Live>,
}

impl Options {
    /// The file of the trace.
    pub(super) fn trace(&self) -> PathBuf {
        self.out.join("trace.jsonl")
    }
}
