use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use hookproof_failed_sync::{Fault, Found, begin_log, create, leave, log_alone, log_lost, move_log, repair};
use rusqlite::hooks::Wal;
use rusqlite::{Connection, OpenFlags};
use tracing::info;

/// "HKPI": marks an inbox's file.
const APPLICATION_ID: i64 = 0x484B_5049;
const VERSION: i64 = 1;
const PATIENCE: Duration = Duration::from_secs(5);

/// A page that many commits change is moved once.
const CHECKPOINT_PAGES: i32 = 8_192;

/// The failures that an acknowledged delivery survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    #[default]
    PowerLoss,
    /// Any end of the process. A power cut may lose the last commits.
    Process,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{path} is in use by another receiver; end that receiver first, or name another file")]
    InUse { path: PathBuf },
    #[error("{path} is not an inbox; name another file")]
    Foreign { path: PathBuf },
    #[error(
        "{path} has schema {found}; expected {VERSION}: use the version of the program that made it, or another \
         file"
    )]
    OtherVersion { path: PathBuf, found: i64 },
    /// A file without its log, or a log without its file.
    #[error("{detail}")]
    InPart {
        /// The missing part, and the remedy.
        detail: String,
    },
    #[error("cannot open the inbox {path}: {detail}")]
    Failed { path: PathBuf, detail: String },
}

impl OpenError {
    pub(super) fn sql(path: &Path) -> impl Fn(rusqlite::Error) -> Self {
        move |error| Self::Failed { path: path.to_owned(), detail: error.to_string() }
    }

    fn fault(path: &Path) -> impl Fn(Fault) -> Self {
        move |fault| match fault {
            Fault::LogLost => Self::InPart {
                detail: log_lost(path, "`sqlite3` with VACUUM INTO, or after an orderly stop"),
            },
            Fault::LogAlone => Self::InPart { detail: log_alone(path) },
            Fault::NoLog => Self::io(path)(std::io::Error::other(fault)),
            Fault::Io(error) => Self::io(path)(error),
            Fault::Sql(error) => Self::sql(path)(error),
        }
    }

    pub(super) fn io(path: &Path) -> impl Fn(std::io::Error) -> Self {
        move |error| Self::Failed { path: path.to_owned(), detail: error.to_string() }
    }
}

/// Keeps other processes from the file. The system releases it when the process ends.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // A child process that is just being started may hold a copy. On failure, closing still releases it.
        let _ = self.0.unlock();
    }
}

impl Lock {
    /// Waits up to `within` for another process.
    pub(super) fn take(path: &Path, within: Duration) -> Result<Self, OpenError> {
        if !path.exists() {
            create(path, fill).map_err(OpenError::fault(path))?;
        }
        // All names of a file must share one lock.
        let mut name = path.canonicalize().map_err(OpenError::io(path))?.into_os_string();
        name.push("-lock");
        let place = PathBuf::from(name);
        let file = private().open(&place).map_err(OpenError::io(&place))?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) if within.is_zero() => {
                Err(OpenError::InUse { path: path.to_owned() })
            }
            Err(TryLockError::WouldBlock) => {
                info!(db = %path.display(), ?within, "waiting for the previous receiver to end");
                match wait(file, within) {
                    Some(locked) => locked.map_err(OpenError::io(&place)),
                    None => Err(OpenError::InUse { path: path.to_owned() }),
                }
            }
            Err(TryLockError::Error(error)) => Err(OpenError::io(&place)(error)),
        }
    }
}

/// A thread waits, since locking has no timeout. A late lock is released at once.
fn wait(file: File, within: Duration) -> Option<std::io::Result<Lock>> {
    let (give, taken) = sync_channel(0);
    let waiting = std::thread::Builder::new().name("inbox-lock".to_owned()).spawn(move || {
        let _late = give.send(file.lock().map(|()| Lock(file)));
    });
    match waiting {
        Ok(_) => taken.recv_timeout(within).ok(),
        Err(error) => Some(Err(error)),
    }
}

/// A file that was deleted or replaced under its name would lose deliveries.
#[derive(Debug)]
pub(super) struct Watched {
    path: PathBuf,
    identity: Identity,
}

#[cfg(unix)]
type Identity = (u64, u64);
#[cfg(not(unix))]
type Identity = ();

impl Watched {
    pub(super) fn new(path: &Path) -> std::io::Result<Self> {
        Ok(Self { path: path.to_owned(), identity: identity(path)? })
    }

    pub(super) fn is_there(&self) -> Result<(), String> {
        match identity(&self.path) {
            Ok(found) if found == self.identity => Ok(()),
            Ok(_) => Err(format!("{} was replaced by another file", self.path.display())),
            Err(error) => Err(format!("{}: {error}", self.path.display())),
        }
    }
}

fn identity(path: &Path) -> std::io::Result<Identity> {
    let found = std::fs::metadata(path)?;
    #[cfg(unix)]
    return Ok({
        use std::os::unix::fs::MetadataExt as _;
        (found.dev(), found.ino())
    });
    #[cfg(not(unix))]
    return Ok(drop(found));
}

/// The only connection that writes, so that commits never wait for each other.
pub(super) fn writer(path: &Path, durability: Durability) -> Result<Connection, OpenError> {
    let failed = OpenError::sql(path);
    if !path.exists() {
        create(path, fill).map_err(OpenError::fault(path))?;
    }
    let (mut sql, found) = connect(path)?;
    let empty: bool =
        sql.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0)).map_err(&failed)?;
    if empty {
        found.make(&sql, fill).map_err(OpenError::fault(path))?;
    }
    recognise(&sql, path)?;
    found.accept(&sql).map_err(OpenError::fault(path))?;
    begin_log(&sql, PATIENCE).map_err(OpenError::fault(path))?;
    let synchronous = match durability {
        Durability::PowerLoss => "FULL",
        Durability::Process => "NORMAL",
    };
    let settings = format!(
        "PRAGMA synchronous = {synchronous}; PRAGMA journal_size_limit = 67108864;
         PRAGMA cache_size = -32768; PRAGMA temp_store = MEMORY;"
    );
    sql.execute_batch(&settings).map_err(&failed)?;
    // SQLite's own checkpoint would not report a failed sync.
    let moving = |log: &mut Wal, pages: i32| if pages < CHECKPOINT_PAGES { Ok(()) } else { move_log(log) };
    sql.wal_hook(Some(moving)).map_err(&failed)?;
    Ok(sql)
}

fn fill(sql: &Connection) -> rusqlite::Result<()> {
    sql.execute_batch(include_str!("schema.sql"))?;
    sql.execute_batch(&format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}"))
}

/// Leaves all of an inbox in one file, which this process has closed: false, if another program has it open.
pub(super) fn leave_whole(path: &Path) -> Result<bool, OpenError> {
    let (sql, found) = connect(path)?;
    recognise(&sql, path)?;
    found.accept(&sql).map_err(OpenError::fault(path))?;
    leave(&sql).map_err(OpenError::sql(path))
}

/// Rewrites the present version, to test whether writing works.
pub(super) fn write_nothing_new(sql: &Connection) -> rusqlite::Result<()> {
    sql.execute_batch(&format!("PRAGMA user_version = {VERSION};"))
}

pub(super) fn reader(path: &Path) -> Result<Connection, OpenError> {
    let failed = OpenError::sql(path);
    let (sql, found) = connect(path)?;
    recognise(&sql, path)?;
    found.accept(&sql).map_err(OpenError::fault(path))?;
    sql.execute_batch("PRAGMA query_only = ON; PRAGMA temp_store = MEMORY;").map_err(&failed)?;
    Ok(sql)
}

fn connect(path: &Path) -> Result<(Connection, Found), OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let sql = Connection::open_with_flags(path, flags).map_err(OpenError::sql(path))?;
    let found = Found::beside(&sql).map_err(OpenError::fault(path))?;
    sql.busy_timeout(PATIENCE).map_err(OpenError::sql(path))?;
    repair(&sql).map_err(OpenError::sql(path))?;
    Ok((sql, found))
}

fn recognise(sql: &Connection, path: &Path) -> Result<(), OpenError> {
    let number = |pragma: &str| sql.query_row(pragma, [], |row| row.get(0)).map_err(OpenError::sql(path));
    if number("PRAGMA application_id")? != APPLICATION_ID {
        return Err(OpenError::Foreign { path: path.to_owned() });
    }
    match number("PRAGMA user_version")? {
        VERSION => Ok(()),
        found => Err(OpenError::OtherVersion { path: path.to_owned(), found }),
    }
}

/// Options for files that only their owner can read, because bodies may be personal.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}
