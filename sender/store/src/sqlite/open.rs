//! Opening a file: checks that it is a store of the known version, and whether it may be written.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hookproof_failed_sync::{Fault, Found, begin_log, create, leave, log_alone, log_lost};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

use super::Options;
use super::erase::overwrite_freed_pages;
use super::failure::{Doing, failure};
use super::reserve::Reserve;
use super::values::Bits;
use crate::seal::{Keyring, Seal};
use crate::{Durability, StoreError};

/// "HKPF": marks a file as a store.
const APPLICATION_ID: i64 = 0x484B_5046;

/// The schema's version, in the file's `user_version`.
const VERSION: i64 = 1;
const SCHEMA: &str = include_str!("schema.sql");

/// How long a reader waits for another process while it opens the file. Later it never waits.
const READER_PATIENCE: Duration = Duration::from_secs(5);

/// A longer log shrinks to this size again.
const LOG_BYTES_KEPT: u32 = 64 << 20;

/// Page cache of a connection. A larger one costs more than it saves: after a balanced tree, SQLite scans the
/// writer's cache at each commit, and the operating system caches the file too.
const WRITER_CACHE_KIB: u32 = 4 * 1024;
/// How much a commit may change before it writes pages to the log, which it may have to write again.
const WRITER_SPILLS_KIB: u32 = 8 * 1024;
/// There are half a dozen reading connections, and SQLite empties a cache after each commit by another connection.
const READER_CACHE_KIB: u32 = 512;

const STATEMENTS_CACHED: usize = 128;

const OPENING: &str = "open the database";
const MAKING: &str = "create the database";

pub(super) fn writer(path: &Path, options: &Options) -> Result<Connection, StoreError> {
    let fill = |sql: &Connection| fill(sql, options);
    let failed = |doing| move |fault| failure_of(path, doing, fault);
    if options.create && !path.exists() {
        create(path, fill).map_err(failed(MAKING))?;
    }
    let (sql, found) = connect(path, options.patience)?;
    let is_made = recognise(&sql, path)?;
    if sql.is_readonly("main").doing(OPENING)? {
        let detail = format!("{} is not writable", path.display());
        return Err(StoreError::ReadOnly { doing: OPENING, detail });
    }
    if !is_made {
        refuse_cut(path)?;
        found.make(&sql, fill).map_err(failed(MAKING))?;
        recognise(&sql, path)?;
    }
    found.accept(&sql).map_err(failed(OPENING))?;
    begin_log(&sql, options.patience).map_err(failed(OPENING))?;
    let synchronous = match options.durability {
        Durability::PowerLoss => "FULL",
        Durability::Process => "NORMAL",
    };
    let settings = format!(
        "PRAGMA synchronous = {synchronous}; PRAGMA journal_size_limit = {LOG_BYTES_KEPT};
         PRAGMA cache_size = -{WRITER_CACHE_KIB}; PRAGMA cache_spill = -{WRITER_SPILLS_KIB};
         PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = OFF;"
    );
    sql.execute_batch(&settings).doing(OPENING)?;
    overwrite_freed_pages(&sql, true).doing(OPENING)?;
    // Only now, so that a new file can get its schema.
    if let Some(pages) = options.pages_max {
        let pragma = format!("PRAGMA max_page_count = {pages}");
        sql.query_row(&pragma, [], |_| Ok(())).doing(OPENING)?;
    }
    Ok(sql)
}

/// Opens a file, which a writer has open, for moving the log's content.
pub(super) fn mover(path: &Path) -> Result<Connection, StoreError> {
    let (sql, _) = connect(path, Duration::ZERO)?;
    sql.execute_batch("PRAGMA synchronous = NORMAL").doing(OPENING)?;
    Ok(sql)
}

pub(super) fn reader(path: &Path) -> Result<Connection, StoreError> {
    let (sql, found) = connect(path, READER_PATIENCE)?;
    if !recognise(&sql, path)? {
        refuse_cut(path)?;
        let detail = "it is empty; `serve` or `subscriber add` makes it a database".to_owned();
        return Err(StoreError::Foreign { path: path.to_owned(), detail });
    }
    found.accept(&sql).map_err(|fault| failure_of(path, OPENING, fault))?;
    let settings = format!(
        "PRAGMA query_only = ON; PRAGMA cache_size = -{READER_CACHE_KIB}; PRAGMA temp_store = MEMORY;"
    );
    sql.execute_batch(&settings).doing(OPENING)?;
    Ok(sql)
}

/// An empty file beside a reserve was a store.
fn refuse_cut(path: &Path) -> Result<(), StoreError> {
    let reserve = Reserve::path_beside(path);
    if !reserve.exists() {
        return Ok(());
    }
    let detail = format!(
        "it is empty, and {} shows that it was a database; restore a backup, or remove both to begin a new one",
        reserve.display()
    );
    Err(StoreError::Foreign { path: path.to_owned(), detail })
}

/// Collects all of a store in one file, which this process must not have open. Returns false if another program has
/// it open.
pub(super) fn leave_whole(path: &Path) -> Result<bool, StoreError> {
    let (sql, found) = connect(path, Duration::ZERO)?;
    if !recognise(&sql, path)? {
        return Ok(false);
    }
    found.accept(&sql).map_err(|fault| failure_of(path, OPENING, fault))?;
    leave(&sql).doing("leave the database in one file")
}

fn failure_of(path: &Path, doing: &'static str, fault: Fault) -> StoreError {
    let path = path.to_owned();
    match fault {
        Fault::LogLost => StoreError::InPart { detail: log_lost(&path, "`hookproof sender backup`"), path },
        Fault::LogAlone => StoreError::InPart { detail: log_alone(&path), path },
        Fault::NoLog => StoreError::Io { doing, detail: format!("{}: {fault}", path.display()) },
        Fault::Io(error) => StoreError::Io { doing, detail: format!("{}: {error}", path.display()) },
        Fault::Sql(error) => failure(doing, &error),
    }
}

fn connect(path: &Path, patience: Duration) -> Result<(Connection, Found), StoreError> {
    // Without SQLITE_OPEN_URI, so that no path is read as a URI.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut sql = Connection::open_with_flags(path, flags).doing(OPENING)?;
    let found = Found::beside(&sql).map_err(|fault| failure_of(path, OPENING, fault))?;
    sql.busy_timeout(READER_PATIENCE).doing(OPENING)?;
    hookproof_failed_sync::repair(&sql).doing(OPENING)?;
    wait_for_others(&mut sql, patience).doing(OPENING)?;
    // Makes plans independent of bound values. Otherwise SQLite would compile some statements again for each value.
    sql.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).doing(OPENING)?;
    sql.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    Ok((sql, found))
}

/// How often a writer looks whether another one is done. SQLite's own pauses grow to 100 ms, and a process that commits
/// without pause would keep others out for seconds.
const LOOK: Duration = Duration::from_millis(2);

fn wait_for_others(sql: &mut Connection, patience: Duration) -> rusqlite::Result<()> {
    let looks = i32::try_from(patience.as_millis() / LOOK.as_millis()).unwrap_or(i32::MAX);
    sql.busy_handler(Some(move |look| {
        let waits = look < looks;
        if waits {
            std::thread::park_timeout(LOOK);
        }
        waits
    }))
}

/// Whether the file holds a store. False for an empty file. Fails for other files and other versions. Writes nothing.
fn recognise(sql: &Connection, path: &Path) -> Result<bool, StoreError> {
    let foreign = |detail: String| StoreError::Foreign { path: path.to_owned(), detail };
    let ask = |pragma: &str| sql.query_row(pragma, [], |row| row.get::<_, i64>(0));
    let application = match ask("PRAGMA application_id") {
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase) => {
            return Err(foreign("it is not an SQLite database; choose another file".to_owned()));
        }
        other => other.doing(OPENING)?,
    };
    let tables = ask("SELECT count(*) FROM sqlite_schema").doing(OPENING)?;
    if application == 0 && tables == 0 {
        return Ok(false);
    }
    if application != APPLICATION_ID {
        return Err(foreign("it is an SQLite database of another program; choose another file".to_owned()));
    }
    let found = ask("PRAGMA user_version").doing(OPENING)?;
    if found != VERSION {
        return Err(StoreError::OtherVersion { path: path.to_owned(), found, expected: VERSION });
    }
    Ok(true)
}

fn fill(sql: &Connection, options: &Options) -> rusqlite::Result<()> {
    sql.execute_batch(SCHEMA)?;
    if let Some(proof) = options.keys.proof()? {
        sql.execute("INSERT INTO sealing VALUES (1, ?1, 0)", [proof])?;
    }
    sql.execute(
        "INSERT INTO totals VALUES (1, ?1, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)",
        [Bits(options.identity)],
    )?;
    let marks = format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}");
    sql.execute_batch(&marks)
}

pub(super) fn proof(sql: &Connection) -> rusqlite::Result<Option<(String, bool)>> {
    sql.query_row("SELECT proof, plain FROM sealing", [], |row| Ok((row.get(0)?, row.get(1)?))).optional()
}

pub(super) fn unlock(sql: &Connection, path: &Path, keys: &Keyring) -> Result<Seal, StoreError> {
    keys.unlock(&path.display(), proof(sql).doing(OPENING)?)
}

/// Detects that the opened file was deleted, moved or replaced. SQLite would continue to write to the lost file.
#[derive(Debug)]
pub(super) struct Watched {
    path: PathBuf,
    known: Option<(u64, u64)>,
}

impl Watched {
    pub(super) fn new(path: &Path) -> Result<Self, StoreError> {
        // Without opening the file, because closing it would release SQLite's locks of this process.
        let metadata = std::fs::metadata(path).map_err(|error| StoreError::Io {
            doing: OPENING,
            detail: format!("{}: {error}", path.display()),
        })?;
        Ok(Self { path: path.to_owned(), known: file_number(&metadata) })
    }

    pub(super) fn check(&self, doing: &'static str) -> Result<(), StoreError> {
        let found = std::fs::metadata(&self.path);
        if self.known.is_some() && found.ok().and_then(|metadata| file_number(&metadata)) != self.known {
            return Err(StoreError::Missing { doing, path: self.path.clone() });
        }
        Ok(())
    }
}

/// Identifies a file, where the system supports it.
#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "other systems have none")]
fn file_number(metadata: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn file_number(_: &Metadata) -> Option<(u64, u64)> {
    None
}
