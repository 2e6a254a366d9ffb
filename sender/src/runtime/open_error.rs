//! Why a sender could not begin.

use super::link::Failed;
use crate::store::{Database, StoreError};

/// A sender could not begin.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The database.
    #[error("can't open the database {database}: {error}")]
    Store {
        /// Which.
        database: Database,
        /// Why.
        error: StoreError,
    },
    /// Something else beside it.
    #[error("can't {doing} beside the database {database}: {error}")]
    Beside {
        /// What was being done.
        doing: &'static str,
        /// Which.
        database: Database,
        /// Why.
        error: std::io::Error,
    },
    /// The store did not carry out what has to be done at the start.
    #[error("can't begin with the database {database}: {error}")]
    Begin {
        /// Which.
        database: Database,
        /// Why.
        error: Failed,
    },
}
