//! Which processes on a file are alive.
//!
//! Each process locks a file of its own beside the database. The operating system releases the lock when the process
//! ends. A process that can take another owner's lock knows that the owner is dead, and need not wait for its lease.
//! The files are beside the database itself, not beside a link to it.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::mem::ManuallyDrop;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::lane::OwnerId;
use crate::liveness::{Life, Liveness, Presence};

const FILES_MAX: usize = 10_000;

#[derive(Clone, Debug)]
pub(super) struct OwnerFiles {
    database: PathBuf,
}

#[derive(Debug)]
struct ProcessLock {
    path: PathBuf,
    lock: ManuallyDrop<File>,
}

#[derive(Default)]
struct Owners {
    ids: Vec<OwnerId>,
    are_all: bool,
}

impl OwnerFiles {
    pub(super) fn of(database: &Path) -> Self {
        Self { database: database.to_owned() }
    }

    fn beside(&self) -> io::Result<(PathBuf, OsString)> {
        let mut folder = fs::canonicalize(&self.database)?;
        let mut prefix = folder.file_name().unwrap_or_default().to_owned();
        prefix.push("-owner-");
        folder.pop();
        Ok((folder, prefix))
    }

    fn path_of(&self, id: OwnerId) -> io::Result<PathBuf> {
        let (folder, mut name) = self.beside()?;
        name.push(format!("{:016x}", id.0));
        Ok(folder.join(name))
    }

    fn owners(&self) -> io::Result<Owners> {
        let (folder, prefix) = self.beside()?;
        let mut owners = Owners { ids: Vec::new(), are_all: true };
        for file in fs::read_dir(folder)? {
            let name = file?.file_name();
            let Some(id) = name.as_encoded_bytes().strip_prefix(prefix.as_encoded_bytes()) else { continue };
            let id = std::str::from_utf8(id).ok().and_then(|id| u64::from_str_radix(id, 16).ok());
            match id.filter(|_| owners.ids.len() < FILES_MAX) {
                Some(id) => owners.ids.push(OwnerId(id)),
                None => owners.are_all = false,
            }
        }
        Ok(owners)
    }

    fn is_dead(&self, id: OwnerId) -> bool {
        self.life_of(id) == Life::Dead
    }
}

impl Liveness for OwnerFiles {
    fn sees_deaths(&self) -> bool {
        true
    }

    fn announce(&self, id: OwnerId) -> io::Result<Box<dyn Presence>> {
        let path = self.path_of(id)?;
        loop {
            let mut options = OpenOptions::new();
            // A user with access could lock it, and make a dead owner look alive.
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let lock = options.create(true).truncate(false).write(true).open(&path)?;
            lock.lock()?;
            // Between these two lines, another process may have removed the file as a dead owner's.
            if leads_to(&path, &lock) {
                return Ok(Box::new(ProcessLock { path, lock: ManuallyDrop::new(lock) }));
            }
        }
    }

    /// `Unknown` for an owner on another machine, or without a file.
    fn life_of(&self, id: OwnerId) -> Life {
        let file = self.path_of(id).and_then(|path| OpenOptions::new().write(true).open(path));
        match file.map(|file| file.try_lock()) {
            Ok(Ok(())) => Life::Dead,
            Ok(Err(TryLockError::WouldBlock)) => Life::Alive,
            Ok(Err(TryLockError::Error(_))) | Err(_) => Life::Unknown,
        }
    }

    /// True also when the files cannot be listed or examined.
    fn others_may_live(&self, ourselves: Option<OwnerId>) -> bool {
        let may_live = |id| Some(id) != ourselves && !self.is_dead(id);
        match self.owners() {
            Ok(owners) => !owners.are_all || owners.ids.into_iter().any(may_live),
            Err(_) => true,
        }
    }

    fn dead(&self) -> Vec<OwnerId> {
        let known = self.owners().map(|owners| owners.ids).unwrap_or_default();
        known.into_iter().filter(|id| self.is_dead(*id)).collect()
    }

    fn forget(&self, id: OwnerId) {
        // On failure, the next search tries again.
        let _ = self.path_of(id).and_then(|path| remove_if_free(&path));
    }
}

/// Removes a file unless its owner is alive: the owner may have taken the lock meanwhile. The lock is held during the
/// removal, so a process about to take it finds the name gone and starts again.
fn remove_if_free(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    if file.try_lock().is_ok() && leads_to(path, &file) { fs::remove_file(path) } else { Ok(()) }
}

fn leads_to(path: &Path, file: &File) -> bool {
    fs::metadata(path).is_ok_and(|there| file.metadata().is_ok_and(|here| there.ino() == here.ino()))
}

impl Presence for ProcessLock {
    fn end(self: Box<Self>, left_nothing: bool) {
        let Self { path, lock } = *self;
        if left_nothing {
            // A remaining file does no harm without its lock.
            let _ = fs::remove_file(path);
        }
        drop(ManuallyDrop::into_inner(lock));
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    fn database(name: impl AsRef<Path>) -> (tempfile::TempDir, OwnerFiles) {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join(name);
        fs::write(&database, "").unwrap();
        (folder, OwnerFiles { database })
    }

    #[test]
    fn an_owner_is_dead_when_its_lock_is_free_and_never_before() {
        let (_folder, files) = database("sender.db");
        let owner = files.announce(OwnerId(7)).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &fs::metadata(files.path_of(OwnerId(7)).unwrap()).unwrap().permissions(),
        );
        assert_eq!(mode & 0o777, 0o600, "nobody else may lock it");
        assert_eq!(files.life_of(OwnerId(7)), Life::Alive);
        assert_eq!(files.life_of(OwnerId(8)), Life::Unknown, "nothing is known of an owner without a file");
        let path = |id| files.path_of(OwnerId(id)).unwrap();
        fs::copy(path(7), path(9)).unwrap();
        assert_eq!(files.life_of(OwnerId(9)), Life::Dead);
        assert_eq!(files.dead(), [OwnerId(9)]);
        files.forget(OwnerId(9));
        assert_eq!(files.life_of(OwnerId(9)), Life::Unknown);
        drop(owner);
        assert_eq!(files.life_of(OwnerId(7)), Life::Alive, "its requests may be under way");
    }

    #[test]
    fn a_process_that_locks_after_it_was_declared_dead_is_remembered() {
        let (_folder, files) = database("sender.db");
        // The state of its file before it has the lock.
        File::create(files.path_of(OwnerId(7)).unwrap()).unwrap();
        assert_eq!(files.dead(), [OwnerId(7)]);
        let owner = files.announce(OwnerId(7)).unwrap();
        files.forget(OwnerId(7));
        assert_eq!(files.life_of(OwnerId(7)), Life::Alive);
        owner.end(true);
    }

    #[test]
    fn a_process_that_ends_unannounced_is_found_dead() {
        let (folder, files) = database("sender.db");
        files.announce(OwnerId(7)).unwrap().end(false);
        assert_eq!(files.dead(), [OwnerId(7)]);
        files.announce(OwnerId(7)).unwrap().end(true);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "the database");
    }

    #[test]
    fn another_that_is_alive_is_seen_whatever_the_database_is_called_and_by_whichever_link() {
        use std::os::unix::ffi::OsStrExt as _;
        for name in [OsStr::new("sender.db"), OsStr::from_bytes(b"sender-\xff.db")] {
            let (folder, files) = database(name);
            let links = tempfile::tempdir().unwrap();
            let link = links.path().join("link.db");
            std::os::unix::fs::symlink(&files.database, &link).unwrap();
            let link = OwnerFiles { database: link };
            assert!(!files.others_may_live(None) && !link.others_may_live(None), "{name:?}");
            let owner = link.announce(OwnerId(7)).unwrap();
            assert!(files.others_may_live(None) && link.others_may_live(None), "{name:?}");
            assert!(!files.others_may_live(Some(OwnerId(7))), "{name:?}");
            owner.end(true);
            assert!(!link.others_may_live(None), "{name:?}");
            drop(folder);
            assert!(files.others_may_live(None), "nobody knows");
        }
    }

    #[test]
    fn a_file_that_names_no_owner_may_be_anybodys() {
        let (folder, files) = database("sender.db");
        fs::write(folder.path().join("sender.db-owner-somebody"), "").unwrap();
        assert!(files.others_may_live(None));
        assert!(files.dead().is_empty());
    }
}
