//! What a process knows of a store, whichever it is.

use std::sync::Arc;

use super::liveness::Liveness;
use super::{Durability, Reader, Store, StoreError};

/// A store by its parts. Claims come with the one that writes ([`Store::claimer`], [`Store::quick_claims`]), notices of what
/// others did with the one that reads ([`super::read::Notices`]). [`super::Database`] says which store it is.
pub trait Parts {
    /// Opens it to write to, made if there is nothing.
    ///
    /// # Errors
    ///
    /// When it is not ours, is of another version, or cannot be read and written.
    fn writer(&self, durability: Durability, identity: u64) -> Result<Box<dyn Store>, StoreError>;

    /// Opens it to read from.
    ///
    /// # Errors
    ///
    /// When there is nothing of ours, or it is of another version, or cannot be read.
    fn reader(&self) -> Result<Box<dyn Reader>, StoreError>;

    /// Which of its processes are alive.
    fn liveness(&self) -> Arc<dyn Liveness>;
}
