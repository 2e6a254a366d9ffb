//! Who this process is to the store, and which other owners are dead.
//!
//! Each process holds a lock on a file of its own beside the database, for as long as it lives: the operating system
//! lets go of it however the process ends. Whoever can take the lock of another owner therefore knows that it is dead,
//! and need not wait for its leases to run out.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::store::lane::OwnerId;

/// This process as an owner of lanes. Dropping it lets others know that it is gone.
#[derive(Debug)]
pub(super) struct Owner {
    id: OwnerId,
    path: PathBuf,
    _lock: File,
}

impl Owner {
    /// A new owner of lanes in this database.
    ///
    /// # Errors
    /// When the lock file can't be made beside the database.
    pub(super) fn register(database: &Path, id: OwnerId) -> io::Result<Self> {
        let path = lock_path(database, id);
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path)?;
        lock.lock()?;
        Ok(Self { id, path, _lock: lock })
    }

    /// Who this is.
    #[must_use]
    pub(super) fn id(&self) -> OwnerId {
        self.id
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // Left behind, the file does no harm: it is not locked, which is what counts.
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether another owner is surely dead. One on another machine, or whose file is gone, may be alive.
#[must_use]
pub(super) fn is_surely_dead(database: &Path, id: OwnerId) -> bool {
    let path = lock_path(database, id);
    let Ok(file) = OpenOptions::new().write(true).open(&path) else { return false };
    match file.try_lock() {
        Ok(()) => {
            // Nobody needs the file any more; if it can't be removed, the next one to look tries again.
            let _ = fs::remove_file(&path);
            true
        }
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
    }
}

fn lock_path(database: &Path, id: OwnerId) -> PathBuf {
    let mut name = database.file_name().unwrap_or_default().to_owned();
    name.push(format!("-owner-{:016x}", id.0));
    database.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_dead_when_its_lock_is_free_and_never_before() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("sender.db");
        let owner = Owner::register(&database, OwnerId(7)).unwrap();
        assert!(!is_surely_dead(&database, owner.id()));
        assert!(!is_surely_dead(&database, OwnerId(8)), "nothing is known of an owner without a file");
        fs::copy(lock_path(&database, OwnerId(7)), lock_path(&database, OwnerId(9))).unwrap();
        assert!(is_surely_dead(&database, OwnerId(9)));
    }
}
