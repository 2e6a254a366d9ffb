//! What was deleted, given back to the disk: what comes of that, or what stands in its way.

use super::StoreError;

/// How large a store is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// All of it, in bytes.
    pub bytes: u64,
    /// Of that, what was deleted and is not used again yet, to the page.
    pub free_bytes: u64,
}

/// A vacuum that did not happen, or not to its end. Nothing is lost.
#[derive(Debug, thiserror::Error)]
pub enum VacuumError {
    /// The store sees to that itself.
    #[error(
        "{0} is on a server, which uses deleted space again by itself (autovacuum); to give it back to the disk, end all nodes and have \
         the owner of the tables run VACUUM FULL"
    )]
    OnAServer(String),
    /// Some process delivers from it, as far as anybody knows.
    #[error(
        "{0} is in use (a process delivers from it, or can't be told to have ended); expected that every process on it has ended"
    )]
    Delivering(String),
    /// Some program reads it or writes to it.
    #[error(
        "{0} is in use: some program has a transaction open on it; expected that nobody reads it for long or writes to it, so end that \
         program"
    )]
    InUse(String),
    /// The disk is too full to begin.
    #[error(
        "no room to vacuum: it takes {} MiB on the disk for a while, and {folder} has {} MiB left; free some space",
        .needed.div_ceil(1 << 20), .left >> 20
    )]
    NoRoom {
        /// The store's folder.
        folder: String,
        /// What it takes, in bytes.
        needed: u64,
        /// What is left there, in bytes.
        left: u64,
    },
    /// Somebody has begun to read it meanwhile.
    #[error(
        "{0} is packed, but keeps its size while some program reads it: end that program, and run this again"
    )]
    KeptLong(String),
    /// It cannot be opened, read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}
