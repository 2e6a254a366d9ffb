//! A failed sync ends the process.
//!
//! Linux drops the pages that a failed `fsync` covered, and says so once: the next `fsync` succeeds without them. SQLite goes on all the
//! same, in two ways that lose what was acknowledged:
//!
//! - A checkpoint that a reader or a writer holds up moves part of the log without a sync, and counts that part as moved (`nBackfill`, in
//!   the index of the log). If the sync of a later checkpoint fails, nobody writes that part again, and the log is overwritten.
//! - A commit that did not wait for its own sync is in the log before one that did. If that sync fails, the next one
//!   succeeds, and leaves a hole in the log at which a recovery stops.
//!
//! So [`ends_the_process`] ends it with 70, without closing anything, since SQLite moves the log as it closes a file. Before, it makes the
//! index of the log invalid while nobody can write: each process that has the file open, and each that opens it, reads the whole log
//! again, and counts none of it as moved. It also leaves a file beside the database, which [`repair`] finds when one of ours opens it:
//! this writes the log over itself and syncs it, so that it has no hole. That file needs no sync, since a power cut
//! takes what was not synced from memory as well.
//!
//! What this does not cover: a process that is killed between the failure and the file, while another one stays on the database; and
//! other programs on the database that move its log and ignore that their own sync failed.

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

/// The exit code: the disk failed, and not whoever called.
const EXIT: i32 = 70;

/// How long to wait for a commit that is under way, so that none comes after.
const PATIENCE: Duration = Duration::from_secs(5);

/// Both copies of the head of the log's index. SQLite reads the log anew where they make no sense.
const INDEX_HEAD: [u8; 96] = [0; 96];

/// So much of a log is written over itself at once.
const CHUNK: usize = 1 << 20;

/// Whether SQLite says that a sync failed.
fn is_failed_sync(error: &Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    code.is_some_and(|code| code == SQLITE_IOERR_FSYNC || code == SQLITE_IOERR_DIR_FSYNC)
}

thread_local! {
    /// Whether a sync failed in a commit's hook on this thread. SQLite reports an error of the hook as a plain `SQLITE_ERROR`.
    static FAILED_IN_HOOK: Cell<bool> = const { Cell::new(false) };
}

/// Moves as much of a log as may be moved, after a commit. If it can't be now, the next commit tries again. A failed sync
/// fails the commit that asked for it, and [`ends_the_process`] then ends the process.
///
/// # Errors
///
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

/// Hands a result of SQLite's on, unless a sync has failed: then this process ends, and this does not return.
///
/// # Errors
///
/// All others.
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
         check the disk, then start it anew"
    );
    if let Err(error) = prepare_the_next(sql, Path::new(place)) {
        tracing::error!(%error, db = place, "the next process can't be told: end all that use the database before one starts");
    }
    std::process::exit(EXIT)
}

fn prepare_the_next(sql: &Connection, database: &Path) -> io::Result<()> {
    File::create(beside(database, MARK))?;
    if !sql.is_autocommit() {
        sql.execute_batch("ROLLBACK").map_err(io::Error::other)?;
    }
    sql.busy_timeout(PATIENCE).map_err(io::Error::other)?;
    // Held until the process ends: nobody commits or begins the log anew.
    sql.execute_batch("BEGIN IMMEDIATE").map_err(io::Error::other)?;
    invalidate_index(database)
}

/// Makes good what a process left that ended for a failed sync. Whoever opens a database calls this before anything else.
///
/// # Errors
///
/// When the log can't be written, or another process keeps writing.
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
        // Another process has done the same.
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    });
    repaired.map_err(|error| {
        let code = rusqlite::ffi::Error::new(SQLITE_IOERR_FSYNC);
        Error::SqliteFailure(
            code,
            Some(format!("the log can't be written again after a failed sync: {error}")),
        )
    })?;
    tracing::warn!(db = %database.display(), "a sync had failed: the log was written again");
    Ok(())
}

/// What the file is called that says of a database that a sync failed.
const MARK: &str = "-unsynced";

fn beside(database: &Path, end: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Has each process read the log again. Only while nobody else may write.
fn invalidate_index(database: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).open(beside(database, "-shm")) {
        // Never closed: that would give up the locks that SQLite holds on it for this process.
        Ok(index) => ManuallyDrop::new(index).write_all_at(&INDEX_HEAD, 0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Writes the log over itself, so that the system writes all of it to the disk. Only while nobody else may write.
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
