//! The folder of the sender's files, emptied before a run and locked for it. Without a marker nothing is removed.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use hookproof_judge::scenario::Scenario;

use super::RunError;

/// The holder of its lock owns the folder.
pub(super) const MARKER: &str = ".hookproof-run";

/// Locked until this is dropped or the harness is killed.
#[derive(Debug)]
pub struct Home {
    path: PathBuf,
    _marker: File,
}

impl Home {
    /// Empties it: files of an earlier run would be another sender's history.
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

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Keeps the marker, without which another run could create and lock a second one.
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

/// Raises it to its maximum, and checks it before the endpoints open. The sender inherits it.
pub(super) fn raise_files(scenario: &Scenario) -> Result<(), RunError> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    const OTHERS: u64 = 100;
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // On an error the check below decides.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let subscribers = scenario.subscribers.len();
    // A listener for each, and a connection for each concurrent request; one without a bound.
    let connections =
        scenario.subscribers.iter().map(|one| one.limit.in_flight.map_or(1, |most| u64::from(most).max(1)));
    let listeners = u64::try_from(subscribers).unwrap_or(u64::MAX);
    let needed = connections.fold(listeners.saturating_add(OTHERS), u64::saturating_add);
    if needed > limit { Err(RunError::Files { subscribers, needed, limit }) } else { Ok(()) }
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
        assert!(refused.is_askers() && refused.to_string().contains("not the folder of a run"), "{refused}");
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
