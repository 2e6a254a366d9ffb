//! How to open a database, and its parts.

use std::sync::Arc;

use super::liveness::LeasesAlone;
use super::{Address, PostgresReader, PostgresStore};
use crate::store::lane::Limits;
use crate::store::liveness::Liveness;
use crate::store::parts::Parts;
use crate::store::{Durability, Reader, Store, StoreError};

/// How to open a database.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// How much it may hold.
    pub limits: Limits,
    /// Make the tables if there are none.
    pub create: bool,
    /// Something random, which a new database keeps for good.
    pub identity: u64,
}

impl Parts for Address {
    /// What a server's acknowledgements survive is the server's own setting.
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
