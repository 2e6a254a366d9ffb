//! A database that lost its log is told from one that was closed.
//!
//! While it is open, its file says so: SQLite's header asks for a write-ahead log. [`leave`] takes that back, when all is in the one file.
//! A file that asks for a log which is not there, or is empty, was copied without it, unless nothing was in it: a process may be killed
//! just after the log's content was moved. So the file also says where it is, by its number and the moment at which it was made,
//! which no copy shares. A copy in another place is refused.
//!
//! A copy that is written over the original, into the same file, is not noticed.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rusqlite::{Connection, ErrorCode, Result};

use crate::{Fault, beside, creation, ends_the_process, is_empty};

/// `born`: nanoseconds since 1970; 0 where the file system does not say.
const TABLE: &str = "CREATE TABLE file_place (id INTEGER PRIMARY KEY CHECK (id = 1), inode INTEGER NOT NULL, born INTEGER NOT NULL) STRICT;
    INSERT INTO file_place VALUES (1, 0, 0)";

/// What tells a file from its copies. Not the device, whose number changes when a machine starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    inode: i64,
    born: i64,
}

impl Place {
    fn of(found: &Metadata) -> Self {
        let born = found.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        let born = born.and_then(|born| i64::try_from(born.as_nanos()).ok()).unwrap_or(0);
        Self { inode: found.ino().cast_signed(), born }
    }

    const fn is(self, other: Self) -> bool {
        self.inode == other.inode && (self.born == other.born || self.born == 0 || other.born == 0)
    }

    fn recorded(sql: &Connection) -> Result<Self> {
        let place = |row: &rusqlite::Row<'_>| Ok(Self { inode: row.get(0)?, born: row.get(1)? });
        sql.query_row("SELECT inode, born FROM file_place", [], place)
    }

    fn record(self, sql: &Connection) -> Result<()> {
        sql.execute("UPDATE file_place SET inode = ?1, born = ?2", [self.inode, self.born]).map(drop)
    }
}

fn path(sql: &Connection) -> PathBuf {
    sql.path().map(PathBuf::from).unwrap_or_default()
}

/// Notes in a new database where it is.
pub(crate) fn begin(sql: &Connection) -> Result<(), Fault> {
    sql.execute_batch(TABLE)?;
    Ok(Place::of(&path(sql).metadata()?).record(sql)?)
}

/// What is beside a database before anything was read of it: SQLite makes a log where none is.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    log_is_empty: bool,
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
        Ok(Self { log_is_empty })
    }

    /// Makes the tables of an empty file, which another program may have open.
    ///
    /// # Errors
    ///
    /// When the disk does not take them.
    pub fn make(self, sql: &Connection, fill: impl FnOnce(&Connection) -> Result<()>) -> Result<(), Fault> {
        creation::make(sql, fill)
    }

    /// Refuses a database that lost its log, and has any other say where it is now. Nothing is written to one that says so already.
    ///
    /// # Errors
    ///
    /// That, or when the database can't be read, or not written though it has to be.
    pub fn accept(self, sql: &Connection) -> Result<(), Fault> {
        let here = Place::of(&path(sql).metadata()?);
        match Place::recorded(sql) {
            Ok(recorded) if here.is(recorded) => return Ok(()),
            // Damage is for others to find.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => return Ok(()),
            recorded => drop(recorded?),
        }
        let mode: String = sql.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
        if mode == "wal" && self.log_is_empty {
            return Err(Fault::LogLost);
        }
        // Before the file asks for a log, or before that is moved.
        Ok(here.record(sql)?)
    }
}

/// Leaves all of a database in one file, which asks for no log: false, if another program has it open. The file must be one of ours.
///
/// # Errors
///
/// When it can't be read or written.
pub fn leave(sql: &Connection) -> Result<bool> {
    let left = sql.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get::<_, String>(0));
    match ends_the_process(sql, left) {
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
        "{path} was copied while it was open, without its log {path}-wal, so the newest commits are missing; copy both files, or \
         make the copy by {backup}; if you do without what is missing: sqlite3 {path} 'PRAGMA journal_mode = DELETE'"
    )
}

/// The same of a log that is there without its file.
#[must_use]
pub fn log_alone(path: &Path) -> String {
    let path = path.display();
    format!(
        "{path} is missing or empty, and its log {path}-wal is not; put the file back that the log belongs to, or move the log away"
    )
}
