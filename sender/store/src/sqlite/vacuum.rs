//! Returns the space of deleted rows to the disk.
//!
//! SQLite's `VACUUM` writes the content to a temporary file, then to the log, and moves the log into the same file. So a kill
//! loses nothing, and applications that have the file open keep working with it.

use std::fs;
use std::path::Path;

use hookproof_failed_sync::{ends_the_process, leave};
use rusqlite::Connection;

use super::failure::{Doing, failure};
use super::liveness::OwnerFiles;
use super::{CLOSE_PATIENCE, Options, SqliteReader, open};
use crate::StoreError;
use crate::liveness::Liveness as _;
use crate::vacuum::{Space, VacuumError};

const VACUUM: &str = "vacuum the database";
const CUT: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

fn space(sql: &Connection) -> rusqlite::Result<Space> {
    let ask = |pragma: &str| sql.query_row(pragma, [], |row| row.get::<_, u64>(0));
    let page = ask("PRAGMA page_size")?;
    let bytes_of = |pages: u64| pages.saturating_mul(page);
    let (pages, free) = (ask("PRAGMA page_count")?, ask("PRAGMA freelist_count")?);
    Ok(Space { bytes: bytes_of(pages), free_bytes: bytes_of(free) })
}

/// Space needed beside the file: the content in the temporary file and again in the log, with the log's overhead.
const fn room_needed(space: Space) -> u64 {
    let left = space.bytes.saturating_sub(space.free_bytes);
    left.saturating_mul(2).saturating_add(left / 64).saturating_add(1 << 20)
}

/// Sets SQLite's folder for temporary files in the whole process.
pub(crate) fn vacuum(path: &Path) -> Result<(Space, u64), VacuumError> {
    let unreadable = |error| unreadable(path, error);
    if OwnerFiles::of(path).others_may_live(None) {
        return Err(VacuumError::Delivering(path.display().to_string()));
    }
    // An empty file must not become a store.
    drop(open::reader(path)?);
    let sql = open::writer(path, &Options::default()).map_err(|error| in_use(path, error))?;
    let vacuumed = pack(path, &sql);
    // If another program has the file open, the last program to close it leaves its log.
    let left = leave(&sql).doing(VACUUM);
    let before = vacuumed?;
    left?;
    Ok((before, fs::metadata(path).map_err(unreadable)?.len()))
}

fn unreadable(path: &Path, error: std::io::Error) -> StoreError {
    StoreError::Io { doing: VACUUM, detail: format!("{}: {error}", path.display()) }
}

fn in_use(path: &Path, error: StoreError) -> VacuumError {
    match error {
        StoreError::Busy { .. } => VacuumError::InUse(path.display().to_string()),
        error => error.into(),
    }
}

fn pack(path: &Path, sql: &Connection) -> Result<Space, VacuumError> {
    let unreadable = |error| unreadable(path, error);
    let place = fs::canonicalize(path).map_err(unreadable)?;
    let folder = place.parent().unwrap_or(Path::new("/"));
    // The folder's disk is the one that was measured. SQLite needs the path as text; otherwise it chooses itself.
    if let Some(folder) = folder.to_str() {
        sql.pragma_update(None, "temp_store_directory", folder).doing(VACUUM)?;
    }
    sql.execute_batch("PRAGMA temp_store = FILE").doing(VACUUM)?;
    if !cut(sql)? {
        return Err(VacuumError::InUse(path.display().to_string()));
    }
    let before = space(sql).doing(VACUUM)?;
    let disk = rustix::fs::statvfs(folder).map_err(|error| unreadable(error.into()))?;
    let (needed, left) = (room_needed(before), disk.f_bavail.saturating_mul(disk.f_frsize));
    if left < needed {
        return Err(VacuumError::NoRoom { folder: folder.display().to_string(), needed, left });
    }
    if let Err(error) = ends_the_process(sql, sql.execute_batch("VACUUM")) {
        // Its pages in the log are useless and may fill the disk. If this fails, the next vacuum does it.
        let _ = cut(sql);
        return Err(in_use(path, failure(VACUUM, &error)));
    }
    if !cut(sql)? {
        return Err(VacuumError::KeptLong(path.display().to_string()));
    }
    Ok(before)
}

/// Moves the log into the file, which then gets its new size. Returns false if another program reads or writes for
/// too long.
fn cut(sql: &Connection) -> Result<bool, StoreError> {
    let is_busy: bool = ends_the_process(sql, sql.query_row(CUT, [], |row| row.get(0))).doing(VACUUM)?;
    Ok(!is_busy)
}

pub(crate) fn empty_log(path: &Path) -> Result<bool, StoreError> {
    let doing = "empty the database's log";
    let sql = open::mover(path)?;
    // SQLite waits for readers and writers, and not for another checkpoint.
    sql.busy_timeout(CLOSE_PATIENCE).doing(doing)?;
    let is_busy = sql.query_row(CUT, [], |row| row.get::<_, bool>(0));
    Ok(!ends_the_process(&sql, is_busy).doing(doing)?)
}

impl SqliteReader {
    pub fn space(&self) -> Result<Space, StoreError> {
        self.moment("measure the database", |sql| space(sql))
    }
}
