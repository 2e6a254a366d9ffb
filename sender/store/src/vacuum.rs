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
        "{0} is on a server, which reuses deleted space itself (autovacuum); to shrink its files, end all nodes \
         and run VACUUM FULL as the owner of the tables"
    )]
    OnAServer(String),
    /// A process delivers from the store, or may do so.
    #[error("{0} is in use (a process delivers from it, or may still run); end all processes on it first")]
    Delivering(String),
    /// Another program reads or writes it.
    #[error("{0} is in use: a program has a transaction open on it; end that program")]
    InUse(String),
    /// The disk is too full to begin.
    #[error(
        "no room to vacuum: it needs {} MiB for a while, and {folder} has {} MiB left; free some space",
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
        "{0} is packed, but keeps its size while a program reads it: end that program, then run this again"
    )]
    KeptLong(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A server has tools for this.
    #[error(
        "{0} is on a server; copy it with pg_dump, even while nodes run: pg_dump --format=custom --file=FILE \
         --dbname={0}"
    )]
    OnAServer(String),
    /// Something has that name.
    #[error("{0} exists, and a backup replaces no file; name another one")]
    Taken(String),
    #[error("the backup was interrupted, and nothing of it is left")]
    Interrupted,
    /// SQLite takes paths as text.
    #[error("the name {0} is not UTF-8; choose another name")]
    NoText(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}
