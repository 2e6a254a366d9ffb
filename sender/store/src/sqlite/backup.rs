//! A copy of a file in which programs work.

use std::fs::{self, File};
use std::path::Path;

use hookproof_failed_sync::Unnamed;
use rusqlite::ErrorCode;

use super::failure::Doing;
use super::open;
use crate::StoreError;
use crate::vacuum::BackupError;

const COPY: &str = "copy the database";

/// SQLite's instructions between two looks at how far it is: a few hundred rows.
const STEP: i32 = 10_000;

/// Writes one state of a file into a new one, packed. `goes_on` is given the bytes of the copy so far, and of the
/// original; if it returns false, nothing of the copy stays. The log of the original is not cut meanwhile. Returns the
/// bytes of the copy. Fails when the copy's name is taken, or a file can't be read or written.
pub(crate) fn backup(
    path: &Path,
    copy: &Path,
    mut goes_on: impl FnMut(u64, u64) -> bool + Send + 'static,
) -> Result<u64, BackupError> {
    let unwritten = |error: std::io::Error| StoreError::Io {
        doing: COPY,
        detail: format!("{}: {error}", copy.display()),
    };
    let taken = || BackupError::Taken(copy.display().to_string());
    if fs::symlink_metadata(copy).is_ok() {
        return Err(taken());
    }
    let mut sql = open::reader(path)?;
    sql.execute_batch("PRAGMA query_only = OFF").doing(COPY)?;
    let new = Unnamed::beside(copy).map_err(unwritten)?;
    let place = new.path().to_owned();
    let name = place.to_str().ok_or_else(|| BackupError::NoText(copy.display().to_string()))?.to_owned();
    let bytes = fs::metadata(path).map_or(0, |original| original.len());
    let ends = move || !goes_on(fs::metadata(&place).map_or(0, |copy| copy.len()), bytes);
    sql.progress_handler(STEP, Some(ends)).doing(COPY)?;
    match sql.execute("VACUUM INTO ?1", [name]) {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
            return Err(BackupError::Interrupted);
        }
        copied => copied.doing(COPY)?,
    };
    let written = File::open(new.path()).map_err(unwritten)?;
    written.sync_all().map_err(unwritten)?;
    let bytes = written.metadata().map_err(unwritten)?.len();
    if new.name(copy).map_err(unwritten)? { Ok(bytes) } else { Err(taken()) }
}
