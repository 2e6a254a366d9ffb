//! Rows that are damaged, or that the disk does not give: what is still read of them.

use rusqlite::{Error, ErrorCode, Result};

/// Whether this one row is to blame, not the store: the others can be read.
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

/// Whether the disk did not give what was asked for. It may give the rest, and this too at another time.
pub(super) fn is_about_the_disk(error: &Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure)
}

/// A value, or the least there is where the one in the row makes no sense.
pub(super) fn or_least<T: Default>(read: Result<T>) -> Result<T> {
    match read {
        Err(error) if is_about_the_row(&error) => Ok(T::default()),
        read => read,
    }
}
