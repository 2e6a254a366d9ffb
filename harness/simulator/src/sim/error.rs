//! What keeps a scenario from being simulated.

use std::path::PathBuf;

use hookproof_sender::store::StoreError;

use hookproof_judge::scenario::Duration;
use hookproof_play::traffic::ScheduleError;

/// A scenario that can't be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// Its traffic can't be scheduled.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
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
    Interrupted(Duration),
    /// There is no room for the database.
    #[error("there is no folder for the simulated database: {0}")]
    Folder(std::io::Error),
    /// The simulator is wrong.
    #[error("the simulator is at fault: {0}")]
    Defect(String),
}

pub(super) fn store_failed(doing: &'static str) -> impl Fn(StoreError) -> SimError {
    move |error| SimError::Store { doing, error }
}
