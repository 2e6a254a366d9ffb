use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::liveness::OwnerFiles;
use super::{Options, SqliteReader, SqliteStore, open};
use crate::Parts;
use crate::liveness::Liveness;
use crate::seal::Keyring;
use crate::{Durability, Reader, Store, StoreError};

#[derive(Clone, Debug)]
pub struct SqliteFile {
    path: PathBuf,
    keys: Keyring,
}

impl SqliteFile {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) const fn keys(&self) -> &Keyring {
        &self.keys
    }

    pub(crate) fn with_keys(self, keys: Keyring) -> Self {
        Self { keys, ..self }
    }

    /// For a file that exists.
    pub(super) fn options(&self) -> Options {
        Options { keys: self.keys.clone(), ..Options::default() }
    }
}

impl From<PathBuf> for SqliteFile {
    fn from(path: PathBuf) -> Self {
        Self { path, keys: Keyring::default() }
    }
}

impl Parts for SqliteFile {
    fn writer(&self, durability: Durability, identity: u64) -> Result<Box<dyn Store>, StoreError> {
        let options = Options { durability, create: true, identity, ..self.options() };
        Ok(Box::new(SqliteStore::open(&self.path, &options)?))
    }

    fn reader(&self) -> Result<Box<dyn Reader>, StoreError> {
        Ok(Box::new(SqliteReader::open_with(&self.path, &self.keys)?))
    }

    fn leave_whole(&self) -> Result<bool, StoreError> {
        open::leave_whole(&self.path)
    }

    fn liveness(&self) -> Arc<dyn Liveness> {
        Arc::new(OwnerFiles::of(&self.path))
    }
}
