use std::sync::Arc;

use super::liveness::LeasesAlone;
use super::{Address, Options, PostgresReader, PostgresStore};
use crate::liveness::Liveness;
use crate::parts::Parts;
use crate::{Durability, Reader, Store, StoreError};

impl Parts for Address {
    /// Ignores the durability: the server's own settings decide it.
    fn writer(&self, _: Durability, identity: u64) -> Result<Box<dyn Store>, StoreError> {
        let options = Options { create: true, identity, ..Options::default() };
        Ok(Box::new(PostgresStore::open(self, &options)?))
    }

    fn reader(&self) -> Result<Box<dyn Reader>, StoreError> {
        Ok(Box::new(PostgresReader::open(self)?))
    }

    fn liveness(&self) -> Arc<dyn Liveness> {
        Arc::new(LeasesAlone)
    }
}
