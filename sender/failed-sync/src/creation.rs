//! A file gets its name only once all of it is on the disk, and takes no other file's name.
//!
//! A new database is made in a file of another name beside it. So nobody opens a part of one, two programs that make
//! the same one end with one of the two, and a crash leaves all or nothing.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Result};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::place;
use crate::{Fault, beside, is_empty};

const MARK: &str = "-new-";
const MARK_DIGITS: usize = 16;
/// SQLite's files beside it.
const ENDS: [&str; 3] = ["-journal", "-wal", "-shm"];

/// After this long without a write its maker was killed.
const OLD: Duration = Duration::from_secs(3_600);

/// A file without a name of its own yet, removed with this.
#[derive(Debug)]
pub struct Unnamed(PathBuf);

impl Unnamed {
    /// An empty file beside `path` that only its owner may read. Removes those which a kill has left, an hour later.
    ///
    /// # Errors
    ///
    /// When the folder does not take it.
    #[expect(clippy::disallowed_methods, reason = "the name must differ from those of other processes")]
    pub fn beside(path: &Path) -> io::Result<Self> {
        let mut name = OsString::from(path);
        name.push(format!("{MARK}{:0MARK_DIGITS$x}", RandomState::new().hash_one(0)));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&name)?;
        // A file that stays does no harm.
        let _ = remove_old(path, &file);
        Ok(Self(name.into()))
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Gives it a name, for good: false if something has that name already. Its bytes must be on the disk.
    ///
    /// # Errors
    ///
    /// When the folder does not take the name, or can't be synced.
    pub fn name(self, path: &Path) -> io::Result<bool> {
        let named = match fs::hard_link(&self.0, path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(false),
            // Some file systems have no links.
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::PermissionDenied) => {
                renameat_with(CWD, &self.0, CWD, path, RenameFlags::NOREPLACE).map_err(io::Error::from)
            }
            linked => linked,
        };
        match named {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(false),
            named => named?,
        }
        drop(self);
        sync_folder(path)?;
        Ok(true)
    }
}

pub(crate) fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes the names of files in the folder of `path` durable.
///
/// # Errors
///
/// When the folder can't be synced.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder(path))?.sync_all()
}

/// By the clock of the file system, which has just made `new`.
fn remove_old(path: &Path, new: &File) -> io::Result<()> {
    let now = new.metadata()?.modified()?;
    let mut begin = path.file_name().unwrap_or_default().to_owned();
    begin.push(MARK);
    for entry in fs::read_dir(folder(path))? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(end) = name.as_encoded_bytes().strip_prefix(begin.as_encoded_bytes()) else { continue };
        let digits = ENDS.iter().find_map(|more| end.strip_suffix(more.as_bytes())).unwrap_or(end);
        let is_ours = digits.len() == MARK_DIGITS && digits.iter().all(u8::is_ascii_hexdigit);
        let age = now.duration_since(entry.metadata()?.modified()?).unwrap_or_default();
        if is_ours && age > OLD {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        // Renamed, it is gone; a file that stays does no harm.
        let _ = fs::remove_file(&self.0);
        for end in ENDS {
            let _ = fs::remove_file(beside(&self.0, end));
        }
    }
}

/// Makes a database by one step, unless a file has that name.
///
/// # Errors
///
/// When the disk does not take it, or the log of another database has the name that its own would have.
pub fn create(path: &Path, fill: impl FnOnce(&Connection) -> Result<()>) -> Result<(), Fault> {
    if !is_empty(&beside(path, "-wal"))? {
        return Err(Fault::LogAlone);
    }
    let new = Unnamed::beside(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let sql = Connection::open_with_flags(new.path(), flags)?;
    make(&sql, path, fill)?;
    sql.close().map_err(|(_, error)| error)?;
    // Another program may have been faster.
    new.name(path)?;
    Ok(())
}

/// Makes the tables of a database that has none, in one transaction that is on the disk when this returns. Without a log, so that no copy
/// of the file lacks them. `path`: the name that the file has, or gets.
pub(crate) fn make(
    sql: &Connection,
    path: &Path,
    fill: impl FnOnce(&Connection) -> Result<()>,
) -> Result<(), Fault> {
    sql.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))?;
    sql.execute_batch("PRAGMA synchronous = FULL; BEGIN IMMEDIATE")?;
    let tables = sql.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0));
    let made = match tables {
        Ok(0) => fill(sql).map_err(Fault::from).and_then(|()| place::begin(sql, path)),
        // Another program was faster.
        Ok(1_u32..) => Ok(()),
        Err(error) => Err(error.into()),
    };
    match made {
        Ok(()) => Ok(sql.execute_batch("COMMIT")?),
        Err(fault) => {
            sql.execute_batch("ROLLBACK")?;
            Err(fault)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use crate::begin_log;

    /// Fills a store with the maker's name.
    fn fill(name: &'static str) -> impl Fn(&Connection) -> Result<()> {
        move |sql| {
            sql.execute_batch(&format!("CREATE TABLE made (by TEXT); INSERT INTO made VALUES ('{name}')"))
        }
    }

    fn makers(sql: &Connection) -> Vec<String> {
        let mut rows = sql.prepare("SELECT by FROM made ORDER BY rowid").unwrap();
        let names = rows.query_map([], |row| row.get(0)).unwrap();
        names.map(Result::unwrap).collect()
    }

    fn files(folder: &Path) -> Vec<OsString> {
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name()).collect()
    }

    #[test]
    fn of_two_that_make_a_store_at_once_one_wins_and_both_open_the_same_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let mut first = None;
        // The second begins, and the first makes the store, opens it and writes before the second is done.
        create(&path, |sql| {
            create(&path, fill("first")).unwrap();
            let opened = Connection::open(&path)?;
            opened.execute_batch("INSERT INTO made VALUES ('after')")?;
            first = Some(opened);
            fill("second")(sql)
        })
        .unwrap();
        let second = Connection::open(&path).unwrap();
        second.execute_batch("INSERT INTO made VALUES ('last')").unwrap();
        for sql in [&first.unwrap(), &second] {
            assert_eq!(makers(sql), ["first", "after", "last"]);
        }
        assert_eq!(files(folder.path()), ["store.db"], "nothing of the second is left");
    }

    /// With a waiter of its own, a connection's `busy_timeout` is 0.
    #[test]
    fn those_that_begin_a_log_at_once_wait_for_each_other() {
        for _ in 0..50 {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("store.db");
            create(&path, fill("one")).unwrap();
            let together = Barrier::new(4);
            let begin = || {
                let mut sql = Connection::open(&path).unwrap();
                sql.busy_handler(Some(|_| {
                    std::thread::yield_now();
                    true
                }))
                .unwrap();
                together.wait();
                begin_log(&sql, Duration::MAX).unwrap();
            };
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(begin);
                }
            });
        }
    }

    #[test]
    fn a_store_is_made_once_in_an_empty_file_that_an_application_has_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        fs::write(&path, "").unwrap();
        let application = Connection::open(&path).unwrap();
        let count = "SELECT count(*) FROM sqlite_schema";
        assert_eq!(application.query_row(count, [], |row| row.get(0)), Ok(0));
        let first = Connection::open(&path).unwrap();
        let second = Connection::open(&path).unwrap();
        make(&first, &path, fill("first")).unwrap();
        make(&second, &path, |_| panic!("it is made already")).unwrap();
        for sql in [&application, &first, &second] {
            assert_eq!(makers(sql), ["first"]);
        }
        // The file asks for no log, so that its copies are whole.
        let mode: String = application.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, "delete");
    }

    #[test]
    fn a_store_that_cannot_be_filled_leaves_an_empty_file_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let half = |sql: &Connection| sql.execute_batch("CREATE TABLE made (by TEXT); no SQL");
        assert!(create(&path, half).is_err());
        assert_eq!(files(folder.path()), Vec::<OsString>::new());
        fs::write(&path, "").unwrap();
        assert!(make(&Connection::open(&path).unwrap(), &path, half).is_err());
        assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    }
}
