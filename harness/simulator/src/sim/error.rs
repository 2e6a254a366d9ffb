use std::path::PathBuf;

use hookproof_sender::store::StoreError;

use hookproof_judge::check::verdict::show;
use hookproof_judge::scenario::Duration;
use hookproof_play::traffic::ScheduleError;

#[derive(Debug, thiserror::Error)]
pub enum SimError {
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    #[error("the sender refuses subscriber {name}: {why}")]
    Subscriber { name: String, why: String },
    #[error("the sender refuses event {token}: {why}")]
    Event {
        /// The event's number in the schedule.
        token: u64,
        why: String,
    },
    #[error("[sender] arguments: {0}")]
    Argument(String),
    #[error("the simulated sender cannot {doing}: {error}")]
    Store { doing: &'static str, error: StoreError },
    #[error("the simulated database does not fit into {}: {error}; set TMPDIR to a folder with more room", .folder.display())]
    Full {
        /// The folder that contains the run's own folder.
        folder: PathBuf,
        error: StoreError,
    },
    #[error("interrupted after {} of virtual time", show(.0.0))]
    Interrupted(Duration),
    #[error("no folder for the simulated database: {0}")]
    Folder(std::io::Error),
    #[error("defect of the simulator: {0}")]
    Defect(String),
}

pub(super) fn store_failed(doing: &'static str) -> impl Fn(StoreError) -> SimError {
    move |error| SimError::Store { doing, error }
}
