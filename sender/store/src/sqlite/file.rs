use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::liveness::OwnerFiles;
use super::{Options, SqliteReader, SqliteStore, open};
use crate::Parts;
use crate::liveness::Liveness;
use crate::{Durability, Reader, Store, StoreError};

#[derive(Clone, Debug)]
pub struct SqliteFile(PathBuf);

impl SqliteFile {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl From<PathBuf> for SqliteFile {
    fn from(path: PathBuf) -> Self {
        Self(path)
    }
}

impl Parts for SqliteFile {
    fn writer(&self, durability: Durability, identity: u64) -> Result<Box<dyn Store>, StoreError> {
        let options = Options { durability, create: true, identity, ..Options::default() };
        Ok(Box::new(SqliteStore::open(&self.0, &options)?))
    }

    fn reader(&self) -> Result<Box<dyn Reader>, StoreError> {
        Ok(Box::new(SqliteReader::open(&self.0)?))
    }

    fn leave_whole(&self) -> Result<bool, StoreError> {
        open::leave_whole(&self.0)
    }

    fn liveness(&self) -> Arc<dyn Liveness> {
        Arc::new(OwnerFiles::of(&self.0))
    }
}
