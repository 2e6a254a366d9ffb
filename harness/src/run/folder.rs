//! The folder of the sender's files: empty when a run begins, and one run's alone while it goes on.
//!
//! It is emptied before each run, so it must be a run's folder and nobody else's. A marker in it says so; without one,
//! nothing that is there is ever removed.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::RunError;

/// The file that says whose folder it is. Whoever holds its lock has the folder.
pub(super) const MARKER: &str = ".hookproof-run";

/// The folder, ours until this is dropped; a harness that is killed gives it back as well.
#[derive(Debug)]
pub struct Home {
    path: PathBuf,
    /// Its lock goes with it.
    _marker: File,
}

impl Home {
    /// Takes a folder, which is made where it isn't there, and empties it: what an earlier run left there would be another
    /// sender's past.
    pub fn take(path: &Path) -> Result<Self, RunError> {
        let failed = |error| RunError::File { path: path.to_owned(), error };
        std::fs::create_dir_all(path).map_err(failed)?;
        let marker = path.join(MARKER);
        let marked = marker.symlink_metadata().is_ok_and(|found| found.is_file());
        if !marked && std::fs::read_dir(path).map_err(failed)?.next().is_some() {
            return Err(RunError::Foreign { path: path.to_owned() });
        }
        let marker = OpenOptions::new().create(true).append(true).open(&marker).map_err(failed)?;
        match marker.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(RunError::Occupied { path: path.to_owned() }),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        empty(path).map_err(failed)?;
        Ok(Self { path: path.to_owned(), _marker: marker })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Removes all but the marker. It stays, lest somebody else make and lock another one in its place.
fn empty(path: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_name() == MARKER {
            continue;
        }
        if entry.file_type()?.is_dir() {
            std::fs::remove_dir_all(entry.path())?;
        } else {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_a_runs_is_refused_and_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let precious = folder.path().join("src.rs");
        std::fs::write(&precious, "precious").unwrap();
        let refused = Home::take(folder.path()).unwrap_err();
        assert!(refused.is_askers() && refused.to_string().contains("not a run's folder"), "{refused}");
        assert_eq!(std::fs::read_to_string(precious).unwrap(), "precious");
    }

    #[test]
    fn a_folder_of_an_earlier_run_is_emptied() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("sender");
        drop(Home::take(&home).unwrap());
        std::fs::create_dir(home.join("data")).unwrap();
        std::fs::write(home.join("data/sender.db"), "the past").unwrap();
        let taken = Home::take(&home).unwrap();
        let left: Vec<_> = taken.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [MARKER]);
    }

    #[test]
    fn two_runs_at_once_do_not_share_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let first = Home::take(folder.path()).unwrap();
        std::fs::write(folder.path().join("sender.db"), "in use").unwrap();
        let refused = Home::take(folder.path()).unwrap_err();
        assert!(refused.is_askers() && refused.to_string().contains("another run"), "{refused}");
        assert!(folder.path().join("sender.db").exists(), "what a run works with was removed under it");
        drop(first);
        assert!(Home::take(folder.path()).is_ok(), "a folder is given back");
    }
}
