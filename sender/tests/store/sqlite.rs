//! What is SQLite's own affair.

use hookproof_sender::store::lane::Limits;
use hookproof_sender::store::sqlite::{Durability, Options, SqliteReader, SqliteStore};
use hookproof_sender::store::{Reader, Store};
use tempfile::TempDir;

use crate::world::Backend;

/// A store in a file of its own.
pub(crate) struct File {
    folder: TempDir,
    limits: Limits,
}

impl File {
    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("store.db")
    }

    fn options(&self) -> Options {
        // Tests kill no machines.
        let durability = Durability::Process;
        Options { durability, limits: self.limits, create: true, identity: u64::MAX, ..Options::default() }
    }
}

impl Backend for File {
    fn new(limits: Limits) -> Self {
        Self { folder: folder(), limits }
    }

    fn store(&self) -> Box<dyn Store> {
        Box::new(SqliteStore::open(&self.path(), &self.options()).unwrap())
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(SqliteReader::open(&self.path()).unwrap())
    }

    fn after_power_cut(&self) -> Self {
        let copy = Self { folder: folder(), limits: self.limits };
        for name in ["store.db", "store.db-wal"] {
            std::fs::copy(self.folder.path().join(name), copy.folder.path().join(name)).unwrap();
        }
        copy
    }

    fn application_emits(&self, kind: &str, key: Option<&str>, data: &str, event: Option<&str>) {
        let application = rusqlite::Connection::open(self.path()).unwrap();
        application
            .execute(
                "INSERT INTO outbox (type, key, data, event) VALUES (?1, ?2, ?3, ?4)",
                (kind, key, data, event),
            )
            .unwrap();
    }
}

/// In memory, where the system offers that: thousands of stores come and go.
pub(crate) fn folder() -> TempDir {
    let memory = std::path::Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}
