//! Ends the process after a failed sync.
//!
//! Linux drops the pages of a failed `fsync` and reports the failure once: the next `fsync` succeeds without
//! them. SQLite continues, and can then lose acknowledged data in two ways:
//!
//! - A checkpoint delayed by another connection moves part of the log without a sync, and counts it as moved
//!   (`nBackfill` in the log's index). If a later checkpoint's sync fails, that part is not moved again, and
//!   the log is overwritten.
//! - An unsynced commit may precede a synced one in the log. If that sync fails, the next sync succeeds and
//!   leaves a hole, at which recovery stops.
//!
//! So [`ends_the_process`] leaves a marker file, takes the write lock, invalidates the log's index, and exits
//! with code 70. It does not close the database, since closing would move the log. Every process then reads the
//! whole log again, and counts none of it as moved.
//!
//! [`repair`], called when a process opens the database, finds the marker, writes the log over itself and
//! syncs it. The marker needs no sync, since a power cut also drops the unsynced pages.
//!
//! Not covered: a process that is killed before it leaves the marker, while another one keeps the database
//! open; and other programs that move the log and ignore their own failed syncs.

mod creation;
mod place;

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::ManuallyDrop;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::ffi::{SQLITE_IOERR_DIR_FSYNC, SQLITE_IOERR_FSYNC};
use rusqlite::hooks::Wal;
use rusqlite::{Connection, Error, Result};

pub use creation::{Unnamed, create, sync_folder};
pub use place::{Found, begin_log, leave, log_alone, log_lost};

#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error("its log is missing")]
    LogLost,
    #[error("SQLite makes no write-ahead log there; put it on a local file system")]
    NoLog,
    #[error("its log is there without it")]
    LogAlone,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Sql(#[from] Error),
}

const EXIT: i32 = 70;

/// How long to wait for a running commit, so that none follows.
const PATIENCE: Duration = Duration::from_secs(5);

/// Both copies of the index's head. SQLite reads the log again if they are invalid.
const INDEX_HEAD: [u8; 96] = [0; 96];

const CHUNK: usize = 1 << 20;

fn is_failed_sync(error: &Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    code.is_some_and(|code| code == SQLITE_IOERR_FSYNC || code == SQLITE_IOERR_DIR_FSYNC)
}

thread_local! {
    /// SQLite reports that as a plain `SQLITE_ERROR`.
    static FAILED_IN_HOOK: Cell<bool> = const { Cell::new(false) };
}

/// Checkpoints the log after a commit. If it is busy, the next commit tries again. A failed sync fails that
/// commit, and [`ends_the_process`] then ends the process.
///
/// # Errors
/// When a sync failed.
pub fn move_log(log: &mut Wal) -> Result<()> {
    match log.checkpoint() {
        Err(error) if is_failed_sync(&error) => {
            FAILED_IN_HOOK.set(true);
            Err(error)
        }
        _ => Ok(()),
    }
}

/// Ends the process if a sync failed.
///
/// # Errors
/// All other errors of SQLite.
pub fn ends_the_process<T>(sql: &Connection, result: Result<T>) -> Result<T> {
    match result {
        Err(error) if is_failed_sync(&error) || FAILED_IN_HOOK.get() => end(sql, &error),
        result => result,
    }
}

#[expect(
    clippy::exit,
    clippy::disallowed_methods,
    reason = "whatever is closed in order loses what was acknowledged"
)]
fn end(sql: &Connection, error: &Error) -> ! {
    let place = sql.path().unwrap_or_default();
    tracing::error!(
        %error,
        db = place,
        "the disk did not keep what was written (a sync failed): this process ends, so that the next one writes the log again; \
         check the disk, then restart it"
    );
    if let Err(error) = prepare_the_next(sql, Path::new(place)) {
        tracing::error!(%error, db = place, "the next process cannot be told: end all that use the database before one starts");
    }
    std::process::exit(EXIT)
}

fn prepare_the_next(sql: &Connection, database: &Path) -> io::Result<()> {
    let marked = File::create(beside(database, MARK));
    // Without the marker too: other processes on the database read the index.
    make_others_read_again(sql, database)?;
    marked.map(drop)
}

fn make_others_read_again(sql: &Connection, database: &Path) -> io::Result<()> {
    if !sql.is_autocommit() {
        sql.execute_batch("ROLLBACK").map_err(io::Error::other)?;
    }
    sql.busy_timeout(PATIENCE).map_err(io::Error::other)?;
    // Held until the process ends, so that none commits or restarts the log.
    sql.execute_batch("BEGIN IMMEDIATE").map_err(io::Error::other)?;
    invalidate_index(database)
}

/// Repairs the log after a failed sync. Call it first after opening a database.
///
/// # Errors
/// When the log cannot be written, or another process keeps writing.
pub fn repair(sql: &Connection) -> Result<()> {
    let Some(database) = sql.path().filter(|path| !path.is_empty()).map(PathBuf::from) else { return Ok(()) };
    let mark = beside(&database, MARK);
    if !mark.exists() {
        return Ok(());
    }
    sql.execute_batch("BEGIN IMMEDIATE")?;
    let repaired = rewrite_log(&database).and_then(|()| invalidate_index(&database));
    sql.execute_batch("ROLLBACK")?;
    let repaired = repaired.and_then(|()| match std::fs::remove_file(&mark) {
        // Another process has repaired the log.
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    });
    repaired.map_err(|error| {
        let code = rusqlite::ffi::Error::new(SQLITE_IOERR_FSYNC);
        Error::SqliteFailure(
            code,
            Some(format!("the log cannot be written again after a failed sync: {error}")),
        )
    })?;
    tracing::warn!(db = %database.display(), "a sync had failed: the log was written again");
    Ok(())
}

const MARK: &str = "-unsynced";

fn beside(database: &Path, end: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Whether a file is not there, or has nothing in it.
fn is_empty(path: &Path) -> io::Result<bool> {
    match path.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        found => Ok(found?.len() == 0),
    }
}

/// Makes each process read the log again. Needs the write lock.
fn invalidate_index(database: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).open(beside(database, "-shm")) {
        // Closing would release SQLite's locks on the file for this process.
        Ok(index) => ManuallyDrop::new(index).write_all_at(&INDEX_HEAD, 0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// So that the system writes all of it to the disk. Needs the write lock.
fn rewrite_log(database: &Path) -> io::Result<()> {
    let log = match OpenOptions::new().read(true).write(true).open(beside(database, "-wal")) {
        Ok(log) => log,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut chunk = vec![0; CHUNK];
    let mut offset = 0;
    loop {
        let read = log.read_at(&mut chunk, offset)?;
        if read == 0 {
            return log.sync_all();
        }
        log.write_all_at(&chunk[..read], offset)?;
        offset += read as u64;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_missing_marker_keeps_no_other_process_from_reading_the_log_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        let sql = Connection::open(&path).unwrap();
        sql.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
        sql.execute_batch("CREATE TABLE x (x)").unwrap();
        std::fs::create_dir(beside(&path, MARK)).unwrap();
        prepare_the_next(&sql, &path).unwrap_err();
        let index = std::fs::read(beside(&path, "-shm")).unwrap();
        assert_eq!(index[..INDEX_HEAD.len()], INDEX_HEAD);
    }
}
