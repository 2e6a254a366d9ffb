//! Converts PostgreSQL's errors into the store's.

use std::collections::BTreeSet;

use tokio_postgres::error::Severity;

use crate::StoreError;
use crate::engine::LaneId;

pub(crate) fn message_of(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| with_sources(error), |told| told.message().to_owned())
}

pub(crate) fn failure(doing: &'static str, error: &tokio_postgres::Error) -> StoreError {
    let Some(told) = error.as_db_error() else {
        let detail = with_sources(error);
        let source = std::error::Error::source(error);
        // Without an answer from the server the connection is lost. Any other error means unreadable data.
        let lost = error.is_closed() || source.is_none_or(|source| source.is::<std::io::Error>());
        return if lost { StoreError::Lost { doing, detail } } else { StoreError::Broken { doing, detail } };
    };
    let detail = told.message().to_owned();
    let is_fatal = told.parsed_severity() == Some(Severity::Fatal);
    match told.code().code() {
        // Lock timeout, deadlock, serialization failure.
        "55P03" | "40P01" | "40001" => StoreError::Busy { doing, detail },
        "57014" => StoreError::Cancelled { doing, detail },
        "25006" => StoreError::TakesNoWrites { doing, detail },
        "42501" => StoreError::Forbidden { doing, detail },
        "53100" => StoreError::Full { doing, detail },
        code => match code.get(..2) {
            // Wrong user, password, origin or database.
            Some("28" | "3D") => StoreError::NotAdmitted { doing, detail },
            // Connection failure, shutdown, too many connections, idle transaction ended.
            Some("08" | "57" | "53" | "25") => StoreError::Lost { doing, detail },
            // The database refuses connections for now.
            Some("55") if is_fatal => StoreError::Lost { doing, detail },
            Some("58") => StoreError::Io { doing, detail },
            _ => StoreError::Broken { doing, detail: format!("{detail} ({code})") },
        },
    }
}

fn with_sources(error: &tokio_postgres::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// Whether the server refused a statement and continues. A fatal error says nothing about the statement, which may
/// have committed just before.
pub(super) fn is_refused(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|told| told.parsed_severity() == Some(Severity::Error))
}

/// Why a commit stops before its end.
#[derive(Debug)]
pub(super) enum Stop {
    Database(tokio_postgres::Error),
    /// More must be locked first.
    Unlocked(Wanted),
    Broken(&'static str),
}

pub(super) type Result<T> = std::result::Result<T, Stop>;

impl From<tokio_postgres::Error> for Stop {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl Stop {
    pub(super) fn lanes(lanes: impl IntoIterator<Item = LaneId>) -> Self {
        Self::Unlocked(Wanted { lanes: lanes.into_iter().collect(), ..Wanted::default() })
    }
}

pub(super) struct Failed {
    pub(super) stop: Stop,
    pub(super) doing: &'static str,
}

impl Stop {
    pub(super) const fn doing(self, doing: &'static str) -> Failed {
        Failed { stop: self, doing }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    pub(super) lanes: BTreeSet<LaneId>,
    pub(super) owners: bool,
    pub(super) state: bool,
    /// The writer's row, which was missing.
    pub(super) writer: bool,
}

impl Wanted {
    pub(super) fn add(&mut self, more: Self) {
        self.lanes.extend(more.lanes);
        self.owners |= more.owners;
        self.state |= more.state;
        self.writer |= more.writer;
    }
}
