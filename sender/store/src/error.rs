//! Errors of a store. After any of them, nothing of the commit happened.

use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Another process holds the store.
    #[error("could not {doing}: the store is locked by another process ({detail}); it will be tried again")]
    Busy {
        /// The operation.
        doing: &'static str,
        /// The store's message.
        detail: String,
    },
    #[error("could not read: {waiting} questions wait already; ask again in a moment")]
    Overloaded {
        /// The number of waiting reads.
        waiting: usize,
    },
    #[error("could not {doing}: the database cannot be reached ({detail}); it will be tried again")]
    Lost {
        /// The operation.
        doing: &'static str,
        /// The cause.
        detail: String,
    },
    /// The disk, a quota or a size limit takes no more.
    #[error(
        "could not {doing}: the disk takes no more ({detail}); free some space, or check the disk and its quotas"
    )]
    Full {
        /// The operation.
        doing: &'static str,
        /// The store's message.
        detail: String,
    },
    /// The disk, or a layer above it, fails.
    #[error(
        "could not {doing}: the store cannot be read or written ({detail}); check the disk and the permissions"
    )]
    Io {
        /// The operation.
        doing: &'static str,
        /// The store's message.
        detail: String,
    },
    #[error(
        "could not {doing}: the store is read-only ({detail}); check the permissions of the file and its folder"
    )]
    ReadOnly {
        /// The operation.
        doing: &'static str,
        /// The store's message.
        detail: String,
    },
    #[error(
        "could not {doing}: the server takes no writes ({detail}): it is a standby, or its default_transaction_read_only is on; it \
         will be tried again"
    )]
    TakesNoWrites {
        /// The operation.
        doing: &'static str,
        /// The server's message.
        detail: String,
    },
    /// The server's user lacks a right.
    #[error(
        "could not {doing}: the server does not let its user do that ({detail}); grant what is missing, or name another user"
    )]
    Forbidden {
        /// The operation.
        doing: &'static str,
        /// The server's message.
        detail: String,
    },
    /// The server rejects its user, or lacks the database.
    #[error(
        "could not {doing}: the server does not let us in ({detail}); check the user, the password and the database that the address \
         names"
    )]
    NotAdmitted {
        /// The operation.
        doing: &'static str,
        /// The server's message.
        detail: String,
    },
    /// The server ended the statement, for its duration or on request.
    #[error("could not {doing}: the server has ended the statement ({detail}); it will be tried again")]
    Cancelled {
        /// The operation.
        doing: &'static str,
        /// The server's message.
        detail: String,
    },
    /// The file was moved, deleted or replaced while it was open.
    #[error("could not {doing}: {} is no longer the file that was opened; put it back, or restart the program", .path.display())]
    Missing {
        /// The operation.
        doing: &'static str,
        /// Its former path.
        path: PathBuf,
    },
    /// The database is older than this process has seen it, so all remembered state is invalid.
    #[error(
        "could not {doing}: the database has gone back to before what this process did there ({detail}), as after a restore, or a \
         failover to a standby that lacked the last commits; start this process anew, so that it relies on nothing that is gone"
    )]
    WentBack {
        /// The operation.
        doing: &'static str,
        /// The difference.
        detail: String,
    },
    /// Connections share server sessions, so prepared statements may reach others' sessions.
    #[error(
        "could not {doing}: at {address} is a pooler that lends the server's sessions out for a transaction or a statement at a \
         time, and ours must be our own; have it pool sessions (PgBouncer: pool_mode = session), or name the server itself"
    )]
    Pooled {
        /// The operation.
        doing: &'static str,
        /// The database's address.
        address: String,
    },
    /// Made by another version of this program.
    #[error(
        "{} has schema {found}, this program expects {expected}; use the version of the program that made it, or choose another \
         database", .path.display()
    )]
    OtherVersion {
        /// The file, or the address of the database.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The expected version.
        expected: i64,
    },
    #[error("{} is not a hookproof store: {detail}", .path.display())]
    Foreign {
        /// The file, or the address of the database.
        path: PathBuf,
        /// The actual content, and the remedy.
        detail: String,
    },
    /// A file without its log, or a log without its file.
    #[error("{detail}")]
    InPart {
        /// The file.
        path: PathBuf,
        /// The missing part, and the remedy.
        detail: String,
    },
    /// Invalid data, or a defect of the program.
    #[error("could not {doing}: {detail}; this is a defect or a damaged store")]
    Broken {
        /// The operation.
        doing: &'static str,
        /// The store's message.
        detail: String,
    },
    /// A read took too long and was stopped, so that others can go on.
    #[error("could not {doing}: it would take too long; ask for less, such as a shorter span of time")]
    TooMuch {
        /// The operation.
        doing: &'static str,
    },
    /// The store's thread has ended.
    #[error("the store has been stopped")]
    Stopped,
}

impl StoreError {
    /// Whether the same command may succeed later.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Busy { .. }
                | Self::Lost { .. }
                | Self::Overloaded { .. }
                | Self::Full { .. }
                | Self::Io { .. }
                | Self::ReadOnly { .. }
                | Self::TakesNoWrites { .. }
                | Self::Forbidden { .. }
                | Self::NotAdmitted { .. }
                | Self::Cancelled { .. }
                | Self::Missing { .. }
        )
    }

    /// Whether a part of the store is unreadable, while others may be readable.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Broken { .. } | Self::Io { .. })
    }

    /// Whether the error usually passes by itself, so that a starting process waits.
    #[must_use]
    pub const fn passes_by_itself(&self) -> bool {
        matches!(
            self,
            Self::Busy { .. } | Self::Lost { .. } | Self::TakesNoWrites { .. } | Self::Cancelled { .. }
        )
    }
}
