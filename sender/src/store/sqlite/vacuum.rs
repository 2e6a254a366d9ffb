//! Gives the disk back what was deleted.
//!
//! Pages of deleted rows are used again, so a file grows only as far as what it holds at once; it does not shrink by itself.
//! SQLite's `VACUUM` writes what is left into a temporary file, from there into the log, and then moves the log into the file. So
//! whoever is killed meanwhile leaves all that was there, and applications that have the file open, to emit through the outbox, go on
//! with the same one: a new file under the old name would take what they still write to the old one along.

use std::fs;
use std::path::Path;

use hookproof_failed_sync::ends_the_process;
use rusqlite::Connection;

use super::failure::{Doing, failure};
use super::liveness::OwnerFiles;
use super::{Options, SqliteReader, open};
use crate::store::StoreError;
use crate::store::liveness::Liveness as _;
use crate::store::vacuum::{Space, VacuumError};

const VACUUM: &str = "vacuum the store";
const CUT: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

/// How large the file is, without its log.
fn space(sql: &Connection) -> rusqlite::Result<Space> {
    let ask = |pragma: &str| sql.query_row(pragma, [], |row| row.get::<_, u64>(0));
    let page = ask("PRAGMA page_size")?;
    let bytes_of = |pages: u64| pages.saturating_mul(page);
    let (pages, free) = (ask("PRAGMA page_count")?, ask("PRAGMA freelist_count")?);
    Ok(Space { bytes: bytes_of(pages), free_bytes: bytes_of(free) })
}

/// Room that a vacuum takes beside the file: what is left once in the temporary file and once in the log, whose pages have
/// headers and an index.
const fn room_needed(space: Space) -> u64 {
    let left = space.bytes.saturating_sub(space.free_bytes);
    left.saturating_mul(2).saturating_add(left / 64).saturating_add(1 << 20)
}

/// Gives the disk back what was deleted from a file: how large it was, and its size in bytes now. Sets where SQLite puts temporary files in all of this process.
///
/// # Errors
///
/// When somebody works on the file, when the disk is too full, or when the file cannot be read and written.
pub(in crate::store) fn vacuum(path: &Path) -> Result<(Space, u64), VacuumError> {
    let unreadable = |error: std::io::Error| StoreError::Io {
        doing: VACUUM,
        detail: format!("{}: {error}", path.display()),
    };
    if OwnerFiles::of(path).others_may_live(None) {
        return Err(VacuumError::Delivering(path.display().to_string()));
    }
    // An empty file is not made a store here.
    drop(open::reader(path)?);
    let sql = open::writer(path, &Options::default())?;
    let place = fs::canonicalize(path).map_err(unreadable)?;
    let folder = place.parent().unwrap_or(Path::new("/"));
    // The folder's disk is the one whose room is known. SQLite takes a path only as text: another goes by its own choice.
    if let Some(folder) = folder.to_str() {
        sql.pragma_update(None, "temp_store_directory", folder).doing(VACUUM)?;
    }
    sql.execute_batch("PRAGMA temp_store = FILE").doing(VACUUM)?;
    if !cut(&sql)? {
        return Err(VacuumError::InUse(path.display().to_string()));
    }
    let before = space(&sql).doing(VACUUM)?;
    let disk = rustix::fs::statvfs(folder).map_err(|error| unreadable(error.into()))?;
    let (needed, left) = (room_needed(before), disk.f_bavail.saturating_mul(disk.f_frsize));
    if left < needed {
        return Err(VacuumError::NoRoom { folder: folder.display().to_string(), needed, left });
    }
    if let Err(error) = ends_the_process(&sql, sql.execute_batch("VACUUM")) {
        // What it has written into the log is of no use, and the disk may be full of it. Where that fails the next one does it.
        let _ = cut(&sql);
        return Err(match failure(VACUUM, &error) {
            StoreError::Busy { .. } => VacuumError::InUse(path.display().to_string()),
            error => error.into(),
        });
    }
    if !cut(&sql)? {
        return Err(VacuumError::KeptLong(path.display().to_string()));
    }
    Ok((before, fs::metadata(&place).map_err(unreadable)?.len()))
}

/// Moves the log into the file, which gets its new size by that: false, if some program reads or writes for longer than one waits.
fn cut(sql: &Connection) -> Result<bool, StoreError> {
    let is_busy: bool = ends_the_process(sql, sql.query_row(CUT, [], |row| row.get(0))).doing(VACUUM)?;
    Ok(!is_busy)
}

impl SqliteReader {
    /// How large the file is, and how much of that is free.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn space(&self) -> Result<Space, StoreError> {
        self.moment("measure the store", |sql| space(sql))
    }
}
