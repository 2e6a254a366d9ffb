//! The parts of a store, for either kind.

use std::sync::Arc;

use super::liveness::Liveness;
use super::{Durability, Reader, Store, StoreError};

/// The parts of a store. The writer provides claims ([`Store::claimer`], [`Store::quick_claims`]), and the reader
/// provides other processes' changes ([`super::read::Notices`]). [`super::Database`] knows the kind.
pub trait Parts {
    /// Opens the store for writing, and makes it if it is missing.
    ///
    /// # Errors
    ///
    /// If it is not a store of this version, or cannot be read and written.
    fn writer(&self, durability: Durability, identity: u64) -> Result<Box<dyn Store>, StoreError>;

    /// Opens the store for reading.
    ///
    /// # Errors
    ///
    /// If it is missing, is not a store of this version, or cannot be read.
    fn reader(&self) -> Result<Box<dyn Reader>, StoreError>;

    /// Collects a store of several files in one, after this process has closed it. Returns false if another program
    /// has it open.
    ///
    /// # Errors
    ///
    /// When it cannot be read and written.
    fn leave_whole(&self) -> Result<bool, StoreError> {
        Ok(true)
    }

    /// The knowledge of living processes.
    fn liveness(&self) -> Arc<dyn Liveness>;
}
