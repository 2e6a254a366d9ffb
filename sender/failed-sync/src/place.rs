//! A database that lost its log is told from one that was closed.
//!
//! While it is open, its file says so: SQLite's header asks for a write-ahead log. [`leave`] takes that back, when all is in the one file.
//! A file that asks for a log which is not there, or is empty, was copied without it, unless nothing was in it: a process may be killed
//! just after the log's content was moved. So the file also says which file it is, by its number and the moment at which it was made,
//! which no copy shares, and where its log is: the number of its folder, and its name there. A copy is refused, and so is a file that was
//! moved without its log.
//!
//! Not noticed: a copy that is written over the original, into the same file, and a log that was deleted.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use rusqlite::{Connection, ErrorCode, Result, params};

use crate::{Fault, beside, creation, ends_the_process, is_empty};

/// `born`: nanoseconds since 1970; 0 where the file system does not say.
const TABLE: &str = "CREATE TABLE file_place (id INTEGER PRIMARY KEY CHECK (id = 1), inode INTEGER NOT NULL, born INTEGER NOT NULL,
        folder INTEGER NOT NULL, name BLOB NOT NULL) STRICT;
    INSERT INTO file_place VALUES (1, 0, 0, 0, x'')";

/// Tells a file from its copies, and its log's place. Not by the device, whose number changes when a machine starts.
#[derive(Clone, Debug)]
struct Place {
    inode: i64,
    born: i64,
    /// The folder's number, which stays when a folder is moved, or seen at another path.
    folder: i64,
    name: Vec<u8>,
}

impl Place {
    /// Where `file` is, or where it will be when it has the name `path` in its folder.
    fn of(file: &Path, path: &Path) -> io::Result<Self> {
        let found = file.metadata()?;
        let born = found.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        let born = born.and_then(|born| i64::try_from(born.as_nanos()).ok()).unwrap_or(0);
        let folder = creation::folder(file).metadata()?.ino().cast_signed();
        let name = path.file_name().unwrap_or_default().as_bytes().to_owned();
        Ok(Self { inode: found.ino().cast_signed(), born, folder, name })
    }

    fn is_file_of(&self, other: &Self) -> bool {
        self.inode == other.inode && (self.born == other.born || self.born == 0 || other.born == 0)
    }

    fn is_log_of(&self, other: &Self) -> bool {
        self.folder == other.folder && self.name == other.name
    }

    fn recorded(sql: &Connection) -> Result<Self> {
        let place = |row: &rusqlite::Row<'_>| {
            Ok(Self { inode: row.get(0)?, born: row.get(1)?, folder: row.get(2)?, name: row.get(3)? })
        };
        sql.query_row("SELECT inode, born, folder, name FROM file_place", [], place)
    }

    fn record(&self, sql: &Connection) -> Result<()> {
        let Self { inode, born, folder, name } = self;
        let update = "UPDATE file_place SET inode = ?1, born = ?2, folder = ?3, name = ?4";
        sql.execute(update, params![inode, born, folder, name]).map(drop)
    }
}

fn path(sql: &Connection) -> PathBuf {
    sql.path().map(PathBuf::from).unwrap_or_default()
}

/// Notes its place, or future place, in a new database.
pub(crate) fn begin(sql: &Connection, named: &Path) -> Result<(), Fault> {
    sql.execute_batch(TABLE)?;
    Ok(Place::of(&path(sql), named)?.record(sql)?)
}

/// The files beside a database before anything was read of it: SQLite makes a log where none is.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    log_is_empty: bool,
    log_is_there: bool,
}

impl Found {
    /// Looks; refuses a log that belongs to no file, which SQLite would delete.
    ///
    /// # Errors
    ///
    /// That, or when the files can't be looked at.
    pub fn beside(sql: &Connection) -> Result<Self, Fault> {
        let path = path(sql);
        let log_is_empty = is_empty(&beside(&path, "-wal"))?;
        if !log_is_empty && is_empty(&path)? {
            return Err(Fault::LogAlone);
        }
        Ok(Self { log_is_empty, log_is_there: beside(&path, "-wal").try_exists()? })
    }

    /// Makes the tables of an empty file, which another program may have open.
    ///
    /// # Errors
    ///
    /// When the disk does not take them.
    pub fn make(self, sql: &Connection, fill: impl FnOnce(&Connection) -> Result<()>) -> Result<(), Fault> {
        creation::make(sql, &path(sql), fill)
    }

    /// Refuses a database that lost its log, and has any other that may be written say where it is now. Nothing is written to one
    /// that says so already.
    ///
    /// # Errors
    ///
    /// That, or when the database can't be read, or not written though it has to be.
    pub fn accept(self, sql: &Connection) -> Result<(), Fault> {
        let path = path(sql);
        let here = Place::of(&path, &path)?;
        let recorded = match Place::recorded(sql) {
            // Damage is for others to find.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => return Ok(()),
            recorded => recorded?,
        };
        let (is_file, is_log) = (here.is_file_of(&recorded), here.is_log_of(&recorded));
        if is_file && is_log {
            return Ok(());
        }
        let mode: String = sql.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
        let lacks_log = if is_file { !self.log_is_there } else { self.log_is_empty };
        if mode == "wal" && lacks_log {
            return Err(Fault::LogLost);
        }
        if sql.is_readonly("main")? {
            return Ok(());
        }
        // Before the file asks for a log, or before that is moved.
        Ok(here.record(sql)?)
    }
}

/// Has a database ask for a log, and makes that, with a name that is on the disk. Nothing may be acknowledged before. Waits up to
/// `patience` for others that do the same.
///
/// # Errors
///
/// When the file system takes no log, another program has the database open, or the folder can't be synced. A sync of the database that
/// fails ends the process.
pub fn begin_log(sql: &Connection, patience: Duration) -> Result<(), Fault> {
    if set_mode_in_turn(sql, "WAL", patience)? != "wal" {
        return Err(Fault::NoLog);
    }
    // SQLite makes the log when it reads. It syncs the folder too, and ignores a failure.
    sql.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(creation::sync_folder(&path(sql))?)
}

/// SQLite does not wait for a connection that changes the mode as well. For a transaction of it SQLite does, so this tries
/// again after one.
#[expect(clippy::disallowed_methods, reason = "SQLite's waiting is real time")]
fn set_mode_in_turn(sql: &Connection, mode: &str, patience: Duration) -> Result<String> {
    let began = Instant::now();
    loop {
        match set_mode(sql, mode) {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && began.elapsed() < patience =>
            {
                sql.execute_batch("BEGIN IMMEDIATE; ROLLBACK")?;
            }
            result => return result,
        }
    }
}

/// Returns the mode. SQLite commits it after the only row of its answer.
fn set_mode(sql: &Connection, mode: &str) -> Result<String> {
    let set = || {
        let mut pragma = sql.prepare(&format!("PRAGMA journal_mode = {mode}"))?;
        let mut rows = pragma.query([])?;
        while rows.next()?.is_some() {}
        Ok(())
    };
    ends_the_process(sql, set())?;
    sql.query_row("PRAGMA journal_mode", [], |row| row.get(0))
}

/// Leaves all of a database in one file, which asks for no log: false, if another program has it open. The file must be one of ours.
///
/// # Errors
///
/// When it can't be read or written.
pub fn leave(sql: &Connection) -> Result<bool> {
    match set_mode(sql, "DELETE") {
        Ok(mode) => Ok(mode != "wal"),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => Ok(false),
        Err(error) => Err(error),
    }
}

/// In words: the reason, and the remedy. `backup` makes a whole copy.
#[must_use]
pub fn log_lost(path: &Path, backup: &str) -> String {
    let path = path.display();
    format!(
        "{path} was copied or moved while it was open, without its log {path}-wal, so the newest commits are missing; end all \
         programs that have it open and copy or move both files, or make the copy by {backup}; if you do without what is missing: sqlite3 {path} 'PRAGMA journal_mode = DELETE'"
    )
}

/// For a log without its file.
#[must_use]
pub fn log_alone(path: &Path) -> String {
    let path = path.display();
    format!(
        "{path} is missing or empty, and its log {path}-wal is not; put the file back that the log belongs to, or move the log away"
    )
}
