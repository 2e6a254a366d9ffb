//! What goes wrong with a store. After any of these, nothing of the commit happened.

use std::path::PathBuf;

/// A commit, a read or the opening of a store failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Another process holds the store.
    #[error("could not {doing}: the store is locked by another process ({detail}); it will be tried again")]
    Busy {
        /// What was being done.
        doing: &'static str,
        /// What the store said.
        detail: String,
    },
    /// Too many questions wait for an answer.
    #[error("could not read: {waiting} questions wait already; ask again in a moment")]
    Overloaded {
        /// How many.
        waiting: usize,
    },
    /// The database cannot be reached.
    #[error("could not {doing}: the database cannot be reached ({detail}); it will be tried again")]
    Lost {
        /// What was being done.
        doing: &'static str,
        /// What was found.
        detail: String,
    },
    /// No room left, or none that this user may have, or the disk takes nothing.
    #[error(
        "could not {doing}: the disk takes no more ({detail}); free some space, or check the disk and its quotas"
    )]
    Full {
        /// What was being done.
        doing: &'static str,
        /// What the store said.
        detail: String,
    },
    /// The disk, or what is in between, fails.
    #[error(
        "could not {doing}: the store cannot be read or written ({detail}); check the disk and the permissions"
    )]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the store said.
        detail: String,
    },
    /// Nothing may be written to the file.
    #[error(
        "could not {doing}: the store is read-only ({detail}); check the permissions of the file and its folder"
    )]
    ReadOnly {
        /// What was being done.
        doing: &'static str,
        /// What the store said.
        detail: String,
    },
    /// The server takes no writes.
    #[error(
        "could not {doing}: the server takes no writes ({detail}): it is a standby, or its default_transaction_read_only is on; it \
         will be tried again"
    )]
    TakesNoWrites {
        /// What was being done.
        doing: &'static str,
        /// What the server said.
        detail: String,
    },
    /// The server's user lacks a right.
    #[error(
        "could not {doing}: the server does not let its user do that ({detail}); grant what is missing, or name another user"
    )]
    Forbidden {
        /// What was being done.
        doing: &'static str,
        /// What the server said.
        detail: String,
    },
    /// The server does not let its user in, or has no such database.
    #[error(
        "could not {doing}: the server does not let us in ({detail}); check the user, the password and the database that the address \
         names"
    )]
    NotAdmitted {
        /// What was being done.
        doing: &'static str,
        /// What the server said.
        detail: String,
    },
    /// The server has ended a statement that took too long, or was told to.
    #[error("could not {doing}: the server has ended the statement ({detail}); it will be tried again")]
    Cancelled {
        /// What was being done.
        doing: &'static str,
        /// What the server said.
        detail: String,
    },
    /// The file was moved, deleted or replaced under a running program.
    #[error("could not {doing}: {} is no longer the file that was opened; put it back, or restart the program", .path.display())]
    Missing {
        /// What was being done.
        doing: &'static str,
        /// Where it was.
        path: PathBuf,
    },
    /// The database is older than what was seen of it: nothing that is remembered of it holds.
    #[error(
        "could not {doing}: the database has gone back to before what this process did there ({detail}), as after a restore, or a \
         failover to a standby that lacked the last commits; start this process anew, so that it relies on nothing that is gone"
    )]
    WentBack {
        /// What was being done.
        doing: &'static str,
        /// What was found.
        detail: String,
    },
    /// Connections are not our own: prepared statements would be carried out for others.
    #[error(
        "could not {doing}: at {address} is a pooler that lends the server's sessions out for a transaction or a statement at a \
         time, and ours must be our own; have it pool sessions (PgBouncer: pool_mode = session), or name the server itself"
    )]
    Pooled {
        /// What was being done.
        doing: &'static str,
        /// Of what.
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
        /// The one version known.
        expected: i64,
    },
    /// Not a store of ours.
    #[error("{} is not a hookproof store: {detail}", .path.display())]
    Foreign {
        /// The file, or the address of the database.
        path: PathBuf,
        /// What it is instead, and what to do.
        detail: String,
    },
    /// What was read makes no sense, or the program made a mistake.
    #[error("could not {doing}: {detail}; this is a defect or a damaged store")]
    Broken {
        /// What was being done.
        doing: &'static str,
        /// What the store said.
        detail: String,
    },
    /// A reading took too long, and was ended for the sake of the others.
    #[error("could not {doing}: it would take too long; ask for less, such as a shorter span of time")]
    TooMuch {
        /// What was being done.
        doing: &'static str,
    },
    /// The store's thread has ended.
    #[error("the store has been stopped")]
    Stopped,
}

impl StoreError {
    /// Whether the same thing may succeed later, with nothing changed in the command.
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

    /// Whether a part of the store cannot be read, and others perhaps can.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Broken { .. } | Self::Io { .. })
    }

    /// Whether it passes by itself, for all that is known: whoever begins waits for it.
    #[must_use]
    pub const fn passes_by_itself(&self) -> bool {
        matches!(
            self,
            Self::Busy { .. } | Self::Lost { .. } | Self::TakesNoWrites { .. } | Self::Cancelled { .. }
        )
    }
}
