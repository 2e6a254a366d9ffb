//! Converts SQLite's errors into the store's, and tells which rows are damaged or cannot be read from the disk.

use rusqlite::ffi::{SQLITE_IOERR_SHMSIZE, SQLITE_IOERR_WRITE};
use rusqlite::types::Type;
use rusqlite::{Error, ErrorCode, Result};

use crate::StoreError;
use crate::seal::SealError;

pub(super) fn failure(doing: &'static str, error: &Error) -> StoreError {
    let detail = error.to_string();
    match error.sqlite_error_code() {
        // SQLite's own code for a full disk does not cover quotas, file size limits, or the log's index.
        _ if is_refused_write(error) => StoreError::Full { doing, detail },
        _ if is_busy(error) => StoreError::Busy { doing, detail },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StoreError::ReadOnly { doing, detail },
        Some(
            ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::FileLockingProtocolFailed
            | ErrorCode::OutOfMemory
            | ErrorCode::NoLargeFileSupport,
        ) => StoreError::Io { doing, detail },
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Damaged { doing, detail },
        Some(ErrorCode::OperationInterrupted) => StoreError::TooMuch { doing },
        _ => StoreError::Broken { doing, detail },
    }
}

pub(super) fn is_refused_write(error: &Error) -> bool {
    let extended = error.sqlite_error().map(|error| error.extended_code);
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
        || matches!(extended, Some(SQLITE_IOERR_WRITE | SQLITE_IOERR_SHMSIZE))
}

/// Whether another connection has the lock, or wrote meanwhile.
pub(super) fn is_busy(error: &Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

pub(super) trait Doing<T> {
    fn doing(self, what: &'static str) -> Result<T, StoreError>;
}

impl<T> Doing<T> for rusqlite::Result<T> {
    fn doing(self, what: &'static str) -> Result<T, StoreError> {
        self.map_err(|error| failure(what, &error))
    }
}

pub(super) fn is_about_the_row(error: &Error) -> bool {
    match error {
        Error::QueryReturnedNoRows
        | Error::FromSqlConversionFailure(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::InvalidColumnType(..)
        | Error::Utf8Error(..) => true,
        other => other.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt),
    }
}

/// Whether the disk failed to read. Other rows, or a later try, may succeed.
pub(super) fn is_about_the_disk(error: &Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure)
}

/// Returns the default for an invalid value.
pub(super) fn or_least<T: Default>(read: Result<T>) -> Result<T> {
    match read {
        Err(error) if is_about_the_row(&error) => Ok(T::default()),
        read => read,
    }
}

/// A value that does not open makes its row unreadable, and no other.
impl From<SealError> for Error {
    fn from(error: SealError) -> Self {
        if error.is_about_the_row() {
            Self::FromSqlConversionFailure(0, Type::Blob, Box::new(error))
        } else {
            Self::UserFunctionError(Box::new(error))
        }
    }
}
