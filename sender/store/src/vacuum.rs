use super::StoreError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// The total, in bytes.
    pub bytes: u64,
    /// Deleted and not yet reused space, in bytes, in whole pages.
    pub free_bytes: u64,
}

/// A vacuum that did not happen or not finish. Nothing is lost.
#[derive(Debug, thiserror::Error)]
pub enum VacuumError {
    /// A server does this itself.
    #[error(
        "{0} is on a server, which uses deleted space again by itself (autovacuum); to give it back to the disk, end all nodes and have \
         the owner of the tables run VACUUM FULL"
    )]
    OnAServer(String),
    /// A process delivers from the store, or may do so.
    #[error(
        "{0} is in use (a process delivers from it, or can't be told to have ended); expected that every process on it has ended"
    )]
    Delivering(String),
    /// Another program reads or writes it.
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
        /// The space needed, in bytes.
        needed: u64,
        /// The space left, in bytes.
        left: u64,
    },
    /// Another program started to read it meanwhile.
    #[error(
        "{0} is packed, but keeps its size while some program reads it: end that program, and run this again"
    )]
    KeptLong(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A server has tools for this.
    #[error(
        "{0} is on a server, whose own tools copy it while nodes run: pg_dump --format=custom --file=FILE --dbname={0}"
    )]
    OnAServer(String),
    /// Something has that name.
    #[error("{0} is there already, and a backup replaces no file; name another one")]
    Taken(String),
    /// SQLite takes paths as text.
    #[error("{0} is not UTF-8; name the copy otherwise")]
    NoText(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}
