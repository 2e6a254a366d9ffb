use std::path::PathBuf;

use super::{Finding, StoreError};
use crate::engine::StoreTime;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    pub bytes: u64,
    /// Deleted and not yet reused space, in bytes, in whole pages.
    pub free_bytes: u64,
}

/// A vacuum that did not happen or not finish. Nothing is lost.
#[derive(Debug, thiserror::Error)]
pub enum VacuumError {
    #[error(
        "{0} is on a server, which reuses deleted space itself (autovacuum); to shrink its files, end all nodes \
         and run VACUUM FULL as the owner of the tables"
    )]
    OnAServer(String),
    #[error("{0} is in use (a process delivers from it, or may still run); end all processes on it first")]
    Delivering(String),
    #[error("{0} is in use: a program has a transaction open on it; end that program")]
    InUse(String),
    #[error(
        "no room to vacuum: it needs {} MiB for a while, and {folder} has {} MiB left; free some space",
        .needed.div_ceil(1 << 20), .left >> 20
    )]
    NoRoom { folder: String, needed: u64, left: u64 },
    #[error(
        "{0} is packed, but keeps its size while a program reads it: end that program, then run this again"
    )]
    KeptLong(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error(
        "{0} is on a server; copy it with pg_dump, even while nodes run: pg_dump --format=custom --file=FILE \
         --dbname={0}"
    )]
    OnAServer(String),
    #[error("{0} exists, and a backup replaces no file; name another one")]
    Taken(String),
    #[error("the copy was interrupted, and nothing of it is left")]
    Interrupted,
    #[error("the name {0} is not UTF-8; choose another name")]
    NoText(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    pub bytes: u64,
    /// The time of the copy's last commit.
    pub at: StoreTime,
    pub paused: usize,
    pub waiting: u64,
    /// The folder with the files that had its place.
    pub aside: Option<PathBuf>,
    /// Faults of the copy that keep it usable.
    pub findings: Vec<Finding>,
}

#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error(
        "{0} is on a server; restore it with PostgreSQL's own tools while no node runs, for example: pg_restore --clean \
         --if-exists --dbname={0} FILE"
    )]
    OnAServer(String),
    #[error("{0} is the copy itself; expected --db to name the place for it")]
    Alike(String),
    #[error("{0} is in use; end every process that has it open first")]
    InUse(String),
    #[error(
        "the place is taken (by {}); --replace moves these files into a folder beside it, and deletes none", .0.join(", ")
    )]
    Occupied(Vec<String>),
    #[error("{copy} is damaged, and nothing was restored: {detail}")]
    Damaged { copy: String, detail: String },
    #[error(transparent)]
    Copy(#[from] BackupError),
    #[error(transparent)]
    Store(#[from] StoreError),
}
