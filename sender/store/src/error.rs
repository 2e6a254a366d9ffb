//! Errors of a store. After any of them, nothing of the commit happened.

use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error("could not {doing}: another process locks the database ({detail}); will try again")]
    Busy { doing: &'static str, detail: String },
    #[error("could not read: too many requests wait already ({waiting}); try again in a moment")]
    Overloaded { waiting: usize },
    #[error("could not {doing}: the database cannot be reached ({detail}); will try again")]
    Lost { doing: &'static str, detail: String },
    /// The disk, a quota or a size limit takes no more.
    #[error(
        "could not {doing}: the disk is full or fails ({detail}); free some space, or check the disk and its \
         quotas"
    )]
    Full { doing: &'static str, detail: String },
    #[error(
        "could not {doing}: the database cannot be read or written ({detail}); check the disk and the permissions"
    )]
    Io { doing: &'static str, detail: String },
    #[error(
        "could not {doing}: the database is read-only ({detail}); check the permissions of the file and its folder"
    )]
    ReadOnly { doing: &'static str, detail: String },
    #[error(
        "could not {doing}: the server is read-only ({detail}): it is a standby, or its \
         default_transaction_read_only is on; will try again"
    )]
    TakesNoWrites { doing: &'static str, detail: String },
    #[error(
        "could not {doing}: the database user lacks a privilege ({detail}); grant it, or name another user"
    )]
    Forbidden { doing: &'static str, detail: String },
    #[error(
        "could not {doing}: the server refuses the login ({detail}); check user, password and database in the \
         address"
    )]
    NotAdmitted { doing: &'static str, detail: String },
    /// The server ended the statement, for its duration or on request.
    #[error("could not {doing}: the server cancelled the statement ({detail}); will try again")]
    Cancelled { doing: &'static str, detail: String },
    /// The file was moved, deleted or replaced while it was open.
    #[error("could not {doing}: {} was replaced by another file; put the old one back, or restart the program", .path.display())]
    Missing { doing: &'static str, path: PathBuf },
    /// The database is older than this process has seen it, so all remembered state is invalid.
    #[error(
        "could not {doing}: the database lost commits of this process ({detail}), as after a restore, or a \
         failover to a standby without them; restart this process"
    )]
    WentBack { doing: &'static str, detail: String },
    /// Connections share server sessions, so prepared statements may reach others' sessions.
    #[error(
        "could not {doing}: {address} is a pooler that shares sessions between clients; the sender needs its \
         own: set session pooling (PgBouncer: pool_mode = session), or give the address of the server"
    )]
    Pooled { doing: &'static str, address: String },
    #[error(
        "{} has schema {found}; expected {expected}: use the version of the program that made it, or another \
         database", .path.display()
    )]
    OtherVersion {
        /// The file, or the address of the database; so in the next two variants.
        path: PathBuf,
        found: i64,
        expected: i64,
    },
    #[error("{} is not a Hookproof database: {detail}", .path.display())]
    Foreign {
        path: PathBuf,
        /// The actual content, and the remedy.
        detail: String,
    },
    /// The keys given are not those of the database.
    #[error("{} cannot be opened: {detail}", .path.display())]
    Key {
        path: PathBuf,
        /// The key that it has, those that were given, and the remedy.
        detail: String,
    },
    /// A file without its log, or a log without its file.
    #[error("{detail}")]
    InPart {
        path: PathBuf,
        /// The missing part, and the remedy.
        detail: String,
    },
    #[error(
        "could not {doing}: {detail}; this is a defect of the sender or a damaged database: run `hookproof sender doctor`"
    )]
    Broken { doing: &'static str, detail: String },
    #[error("could not {doing}: a part of the database is damaged ({detail}); `doctor` names the part")]
    Damaged { doing: &'static str, detail: String },
    /// A read took too long and was stopped, so that others can go on.
    #[error("could not {doing}: it would take too long; ask for less, such as a shorter period")]
    TooMuch { doing: &'static str },
    #[error("the database has been closed")]
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
        matches!(self, Self::Damaged { .. } | Self::Broken { .. } | Self::Io { .. })
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
