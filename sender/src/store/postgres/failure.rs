//! PostgreSQL's errors, in the store's words.

use tokio_postgres::error::Severity;

use crate::store::StoreError;

/// What the server said, or else what happened to the connection.
pub(in crate::store) fn said(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| with_sources(error), |told| told.message().to_owned())
}

/// Says what was being done when PostgreSQL failed.
pub(in crate::store) fn failure(doing: &'static str, error: &tokio_postgres::Error) -> StoreError {
    let Some(told) = error.as_db_error() else {
        let detail = with_sources(error);
        let source = std::error::Error::source(error);
        // Without an answer of the server, the connection is lost; else what came could not be read.
        let lost = error.is_closed() || source.is_none_or(|source| source.is::<std::io::Error>());
        return if lost { StoreError::Lost { doing, detail } } else { StoreError::Broken { doing, detail } };
    };
    let detail = told.message().to_owned();
    let is_fatal = told.parsed_severity() == Some(Severity::Fatal);
    match told.code().code() {
        // A lock that is not to be had in time, locks in a circle, an order that can't be kept.
        "55P03" | "40P01" | "40001" => StoreError::Busy { doing, detail },
        "57014" => StoreError::Cancelled { doing, detail },
        "25006" => StoreError::TakesNoWrites { doing, detail },
        "42501" => StoreError::Forbidden { doing, detail },
        "53100" => StoreError::Full { doing, detail },
        code => match code.get(..2) {
            // The user, its password, or whence it comes; a database that is not there.
            Some("28" | "3D") => StoreError::NotAdmitted { doing, detail },
            // The connection, the server's end, too many connections, a transaction that was ended while it waited for us.
            Some("08" | "57" | "53" | "25") => StoreError::Lost { doing, detail },
            // The database takes no connections for now.
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

/// Whether the server has said no to a statement, and goes on. What it says as it ends says nothing of what it was at: it may have
/// committed just before.
pub(super) fn is_refused(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|told| told.parsed_severity() == Some(Severity::Error))
}
