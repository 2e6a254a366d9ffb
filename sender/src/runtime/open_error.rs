use super::link::Failed;
use crate::store::{Database, StoreError};

/// Why a sender could not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The database cannot be opened.
    #[error("can't open the database {database}: {error}")]
    Store {
        /// The database.
        database: Database,
        /// The cause.
        error: StoreError,
    },
    /// A file beside the database failed.
    #[error("can't {doing} beside the database {database}: {error}")]
    Beside {
        /// The failed operation.
        doing: &'static str,
        /// The database.
        database: Database,
        /// The cause.
        error: std::io::Error,
    },
    /// The store did not carry out a command that the start needs.
    #[error("can't begin with the database {database}: {error}")]
    Begin {
        /// The database.
        database: Database,
        /// The cause.
        error: Failed,
    },
}
