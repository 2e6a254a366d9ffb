//! Rows that are damaged or that the disk cannot read.

use rusqlite::{Error, ErrorCode, Result};

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
