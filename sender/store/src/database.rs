use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use super::clock::Start;
use super::postgres::{self, Address, BadAddress};
use super::sqlite::{self, SqliteFile};
use super::vacuum::{BackupError, RestoreError, Restored, Space, VacuumError};
use super::{Finding, Parts, StoreError};
use crate::engine::StoreTime;
use crate::lane::Pause;
use crate::seal::Keyring;

#[derive(Clone, Debug)]
pub enum Database {
    File(SqliteFile),
    Postgres(Address),
}

impl Database {
    /// Fails if it begins like an address and is invalid.
    pub fn parse(text: &OsStr) -> Result<Self, BadAddress> {
        match text.to_str().filter(|text| Address::SCHEMES.iter().any(|scheme| text.starts_with(scheme))) {
            Some(address) => address.parse().map(Self::Postgres),
            None => Ok(PathBuf::from(text).into()),
        }
    }

    #[must_use]
    pub fn with_keys(self, keys: Keyring) -> Self {
        match self {
            Self::File(file) => Self::File(file.with_keys(keys)),
            Self::Postgres(address) => Self::Postgres(address.with_keys(keys)),
        }
    }

    /// Makes a plain store an encrypted one, whose values [`crate::command::Reseal`] must seal. Needs keys. Fails while
    /// processes use the store.
    pub fn begin_encryption(&self) -> Result<(), StoreError> {
        match self {
            Self::File(file) => sqlite::begin_encryption(file),
            Self::Postgres(address) => postgres::begin_encryption(address),
        }
    }

    #[must_use]
    pub const fn parts(&self) -> &dyn Parts {
        match self {
            Self::File(file) => file,
            Self::Postgres(address) => address,
        }
    }

    /// Whether the store may exist. Always true for a server.
    #[must_use]
    pub fn may_exist(&self) -> bool {
        match self {
            Self::File(file) => file.path().exists(),
            Self::Postgres(_) => true,
        }
    }

    #[must_use]
    pub const fn says_password(&self) -> bool {
        match self {
            Self::File(_) => false,
            Self::Postgres(address) => address.says_password(),
        }
    }

    /// 0 for a server.
    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        match self {
            Self::File(file) => sqlite::log_bytes(file.path()),
            Self::Postgres(_) => 0,
        }
    }

    /// Empties a file's log, which holds erased content as it was. Returns false if another thread or program uses it.
    pub fn empty_log(&self) -> Result<bool, StoreError> {
        match self {
            Self::File(file) => sqlite::empty_log(file.path()),
            Self::Postgres(_) => Ok(true),
        }
    }

    /// `start`: the time from which a new process would count.
    pub fn examine_clock(&self, start: Start, wall: StoreTime) -> Result<Finding, StoreError> {
        match self {
            Self::File(file) => sqlite::examine_clock(file, start, wall),
            Self::Postgres(_) => Ok(postgres::examine_clock(start)),
        }
    }

    pub fn examine(&self, mend: bool) -> Result<Vec<Finding>, StoreError> {
        match self {
            Self::File(file) => sqlite::examine(file, mend),
            Self::Postgres(address) => postgres::examine(address),
        }
    }

    /// The reason why `doctor` cannot mend this store.
    #[must_use]
    pub const fn nothing_to_mend(&self) -> Option<&'static str> {
        match self {
            Self::File(_) => None,
            Self::Postgres(_) => Some(postgres::NOTHING_TO_MEND),
        }
    }

    /// Returns the former space, and the size in bytes now.
    pub fn vacuum(&self) -> Result<(Space, u64), VacuumError> {
        match self {
            Self::File(file) => sqlite::vacuum(file.path()),
            Self::Postgres(address) => Err(VacuumError::OnAServer(address.to_string())),
        }
    }

    /// Programs may work on the store. `goes_on` is given the bytes of the copy so far, and of the original; if it
    /// returns false, nothing of the copy stays. Returns the bytes of the copy.
    pub fn backup(
        &self,
        copy: &Path,
        goes_on: impl FnMut(u64, u64) -> bool + Send + 'static,
    ) -> Result<u64, BackupError> {
        match self {
            Self::File(file) => sqlite::backup(file.path(), copy, goes_on),
            Self::Postgres(address) => Err(BackupError::OnAServer(address.to_string())),
        }
    }

    /// Makes this store from a copy, with its active subscribers paused. `pause` gets the time of the copy's last commit.
    /// A pause that ends after `wall` stays. `replaces`: moves files that are in the way into a folder whose name ends so.
    /// `goes_on` as for [`Self::backup`].
    pub fn restore(
        &self,
        copy: &Path,
        replaces: Option<u64>,
        wall: StoreTime,
        pause: impl FnOnce(StoreTime) -> Pause,
        goes_on: impl FnMut(u64, u64) -> bool + Send + 'static,
    ) -> Result<Restored, RestoreError> {
        match self {
            Self::File(file) => sqlite::restore(copy, file, replaces, wall, pause, goes_on),
            Self::Postgres(address) => Err(RestoreError::OnAServer(address.to_string())),
        }
    }
}

impl From<PathBuf> for Database {
    fn from(path: PathBuf) -> Self {
        Self::File(path.into())
    }
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => file.path().display().fmt(f),
            Self::Postgres(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_from_a_path_and_its_password_from_neither() {
        let parse = |text: &str| Database::parse(OsStr::new(text)).map(|database| database.to_string());
        assert_eq!(parse("sender.db").unwrap(), "sender.db");
        assert_eq!(parse("postgres.db").unwrap(), "postgres.db");
        let shown = parse("postgres://me:hush@db.example:5433/hooks").unwrap();
        assert_eq!(shown, "postgres://db.example/hooks");
        assert!(parse("postgres://me@db.example:port/hooks").is_err());
        assert!(parse("postgres://me@db.example/hooks%00").unwrap_err().to_string().contains("NUL"));
    }
}
