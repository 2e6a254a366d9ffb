//! Who this process is to the store, and which other owners are dead.
//!
//! Each process holds a lock on a file of its own beside the database, for as long as it lives: the operating system
//! lets go of it however the process ends. Whoever can take the lock of another owner therefore knows that it is dead,
//! and need not wait for its leases to run out. The files are beside the database itself, by whichever links it was found. Where
//! the database is on a server, there are none: who is dead is known by its lease alone.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::mem::ManuallyDrop;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::info;

use super::link::submit;
use super::lookout::{counts, dead_owners};
use crate::store::command::Command;
use crate::store::lane::OwnerId;
use crate::store::node::{Announcement, PROTOCOL};
use crate::store::thread::Handle;
use crate::store::{Database, Reader, StoreError};

/// Files of owners that are looked at, at once.
const FILES_MAX: usize = 10_000;

/// This process as an owner that has no lanes yet. Dropped, it leaves nothing behind.
#[derive(Debug)]
pub(super) struct Registration(Option<Owner>);

impl Registration {
    /// A new owner of lanes in this database.
    ///
    /// # Errors
    /// When the lock file can't be made beside the database.
    pub(super) fn new(database: &Database, id: OwnerId) -> io::Result<Self> {
        Owner::register(database, id).map(|owner| Self(Some(owner)))
    }

    /// Who this is.
    pub(super) fn id(&self) -> OwnerId {
        self.0.as_ref().expect("only `hold` takes it").id()
    }

    /// From here on the lock is held until the process ends.
    pub(super) fn hold(mut self) -> Owner {
        self.0.take().expect("only `hold` takes it")
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(owner) = self.0.take() {
            owner.end(true);
        }
    }
}

/// This process as an owner of lanes. Its lock is held until the process ends, unless it comes to an [`Self::end`]: whatever
/// else it drops, requests of it may be under way.
#[derive(Debug)]
pub(super) struct Owner {
    id: OwnerId,
    /// Nothing where the store is no file: then only its lease tells that it lives.
    lock: Option<(PathBuf, ManuallyDrop<File>)>,
}

impl Owner {
    fn register(database: &Database, id: OwnerId) -> io::Result<Self> {
        let Database::File(database) = database else { return Ok(Self { id, lock: None }) };
        let path = lock_path(database, id)?;
        loop {
            let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path)?;
            lock.lock()?;
            // Whoever cleaned up between the two lines above took it for a dead owner's.
            if fs::metadata(&path)
                .is_ok_and(|there| lock.metadata().is_ok_and(|ours| there.ino() == ours.ino()))
            {
                return Ok(Self { id, lock: Some((path, ManuallyDrop::new(lock))) });
            }
        }
    }

    /// Nothing is under way any more. If nothing of this owner is left in the store, its file goes too; else that tells others
    /// that it is dead.
    pub(super) fn end(self, left_nothing: bool) {
        let Some((path, lock)) = self.lock else { return };
        if left_nothing {
            // Left behind, the file does no harm: it is not locked, which is what counts.
            let _ = fs::remove_file(path);
        }
        drop(ManuallyDrop::into_inner(lock));
    }

    /// Who this is.
    #[must_use]
    pub(super) fn id(&self) -> OwnerId {
        self.id
    }
}

/// What this process says of itself to other nodes.
pub(super) fn announcement(name: Option<Arc<str>>, address: Option<Arc<str>>) -> Announcement {
    let usual = || {
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let number = std::process::id();
        // A machine's name may be as long as a node's: the number tells processes apart.
        let machine: String = machine.chars().filter(|letter| letter.is_ascii_graphic()).take(48).collect();
        format!("{machine}:{number}").into()
    };
    Announcement {
        name: name.unwrap_or_else(usual),
        version: env!("CARGO_PKG_VERSION").into(),
        protocol: PROTOCOL,
        address,
        unable: Arc::default(),
        draining: false,
    }
}

/// Whether another owner is surely dead. One on another machine, or whose file is gone, may be alive.
#[must_use]
pub(crate) fn process_is_dead(database: &Database, id: OwnerId) -> bool {
    matches!(try_lock(database, id), Some(Ok(())))
}

/// Whether another owner is surely alive, and on this machine.
#[must_use]
pub(crate) fn process_is_alive(database: &Database, id: OwnerId) -> bool {
    matches!(try_lock(database, id), Some(Err(TryLockError::WouldBlock)))
}

/// Whether the lock that an owner holds while it lives can be had; nothing if there is none to try.
fn try_lock(database: &Database, id: OwnerId) -> Option<Result<(), TryLockError>> {
    let path = lock_path(database.file()?, id).ok()?;
    let file = OpenOptions::new().write(true).open(path).ok()?;
    Some(file.try_lock())
}

/// Whether some other process may be alive on this database, as far as the files beside it tell. Where they can't be
/// listed, or one of them can't be told, some process may be.
#[must_use]
pub(super) fn others_are_alive(database: &Database, ourselves: Option<OwnerId>) -> bool {
    let may_be_alive = |id| Some(id) != ourselves && !process_is_dead(database, id);
    let Database::File(path) = database else { return true };
    match owners(path) {
        Ok(owners) => !owners.are_all || owners.ids.into_iter().any(may_be_alive),
        Err(_) => true,
    }
}

/// Whether some process may be alive on this database, as far as the files beside it tell.
#[must_use]
pub(crate) fn somebody_is_alive(database: &Database) -> bool {
    others_are_alive(database, None)
}

/// Nobody asks about a dead owner any more.
pub(super) fn bury(database: &Database, id: OwnerId) {
    if let Database::File(database) = database {
        // If its file can't be removed, the next one to look tries again.
        let _ = lock_path(database, id).and_then(fs::remove_file);
    }
}

/// Owners that are surely dead, by the files that they left beside the database.
pub(super) fn the_dead(database: &Database) -> Vec<OwnerId> {
    let Database::File(path) = database else { return Vec::new() };
    let known = owners(path).map(|owners| owners.ids).unwrap_or_default();
    known.into_iter().filter(|id| process_is_dead(database, *id)).collect()
}

/// Owners by their files.
#[derive(Default)]
struct Owners {
    ids: Vec<OwnerId>,
    /// There is no other file that an owner may have a lock on.
    are_all: bool,
}

fn owners(database: &Path) -> io::Result<Owners> {
    let (folder, prefix) = beside(database)?;
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

/// The folder that the database is in, and how the names of its owners' files begin.
fn beside(database: &Path) -> io::Result<(PathBuf, OsString)> {
    let mut folder = fs::canonicalize(database)?;
    let mut prefix = folder.file_name().unwrap_or_default().to_owned();
    prefix.push("-owner-");
    folder.pop();
    Ok((folder, prefix))
}

/// Removes the files of dead owners that nobody counts on: killed commands, most of all.
pub(super) fn bury_the_dead(database: &Database, reader: &dyn Reader) -> Result<(), StoreError> {
    let dead = the_dead(database);
    let owners = if dead.is_empty() { Vec::new() } else { reader.owners()? };
    let is_counted_on = |id| owners.iter().any(|owner| owner.owner == id && counts(owner));
    dead.into_iter().filter(|id| !is_counted_on(*id)).for_each(|id| bury(database, id));
    Ok(())
}

/// Frees the lanes of owners that are surely dead, without waiting for their leases: on a server nobody knows of any.
pub(super) fn evict_the_dead(
    database: &Database,
    reader: &dyn Reader,
    store: &Handle,
    ourselves: OwnerId,
) -> Result<(), StoreError> {
    if database.file().is_none() {
        return Ok(());
    }
    let is_dead = |owner| process_is_dead(database, owner);
    for owner in dead_owners(reader.owners()?, ourselves, is_dead) {
        info!(owner = owner.owner.0, lanes = owner.lanes, "another process has died; its lanes are free");
        let (id, database) = (owner.owner, database.to_owned());
        submit(store, vec![Command::Evict(id)], move |reply| {
            // Until then its file has to tell others that it is dead.
            if reply.is_ok() {
                bury(&database, id);
            }
        });
    }
    Ok(())
}

fn lock_path(database: &Path, id: OwnerId) -> io::Result<PathBuf> {
    let (folder, mut name) = beside(database)?;
    name.push(format!("{:016x}", id.0));
    Ok(folder.join(name))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    /// A database in a folder of its own.
    fn database(name: impl AsRef<Path>) -> (tempfile::TempDir, Database) {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join(name);
        fs::write(&database, "").unwrap();
        (folder, Database::File(database))
    }

    #[test]
    fn an_owner_is_dead_when_its_lock_is_free_and_never_before() {
        let (_folder, database) = database("sender.db");
        let owner = Owner::register(&database, OwnerId(7)).unwrap();
        assert!(!process_is_dead(&database, owner.id()));
        assert!(!process_is_dead(&database, OwnerId(8)), "nothing is known of an owner without a file");
        let path = |id| lock_path(database.file().unwrap(), OwnerId(id)).unwrap();
        fs::copy(path(7), path(9)).unwrap();
        assert!(process_is_dead(&database, OwnerId(9)));
        assert_eq!(the_dead(&database), [OwnerId(9)]);
        bury(&database, OwnerId(9));
        assert!(!process_is_dead(&database, OwnerId(9)));
        drop(owner);
        assert!(!process_is_dead(&database, OwnerId(7)), "its requests may be under way");
    }

    #[test]
    fn who_retires_leaves_nothing_behind_and_neither_does_who_never_began() {
        let (folder, database) = database("sender.db");
        Registration::new(&database, OwnerId(7)).unwrap().hold().end(true);
        drop(Registration::new(&database, OwnerId(8)).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "the database");
    }

    #[test]
    fn who_ends_without_having_been_heard_is_seen_to_be_dead() {
        let (_folder, database) = database("sender.db");
        Registration::new(&database, OwnerId(7)).unwrap().hold().end(false);
        assert_eq!(the_dead(&database), [OwnerId(7)]);
    }

    #[test]
    fn another_that_is_alive_is_seen_whatever_the_database_is_called_and_by_whichever_link() {
        use std::os::unix::ffi::OsStrExt as _;
        for name in [OsStr::new("sender.db"), OsStr::from_bytes(b"sender-\xff.db")] {
            let (folder, database) = database(name);
            let links = tempfile::tempdir().unwrap();
            let link = links.path().join("link.db");
            std::os::unix::fs::symlink(database.file().unwrap(), &link).unwrap();
            let link = Database::File(link);
            assert!(!others_are_alive(&database, None) && !others_are_alive(&link, None), "{name:?}");
            let owner = Owner::register(&link, OwnerId(7)).unwrap();
            assert!(others_are_alive(&database, None) && others_are_alive(&link, None), "{name:?}");
            assert!(!others_are_alive(&database, Some(OwnerId(7))), "{name:?}");
            owner.end(true);
            assert!(!others_are_alive(&link, None), "{name:?}");
            drop(folder);
            assert!(others_are_alive(&database, None), "nobody knows");
        }
    }

    #[test]
    fn a_file_that_names_no_owner_may_be_anybodys() {
        let (folder, database) = database("sender.db");
        fs::write(folder.path().join("sender.db-owner-somebody"), "").unwrap();
        assert!(others_are_alive(&database, None));
        assert!(the_dead(&database).is_empty());
    }
}
