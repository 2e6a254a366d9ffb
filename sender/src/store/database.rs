//! Where a store is, and how its parts are opened: the one place that knows every kind of store.

use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;

use super::clock::{Beginning, Start};
use super::postgres::{self, Address, BadAddress, PostgresReader, PostgresStore};
use super::sqlite::{self, Durability, SqliteReader, SqliteStore};
use super::{Reader, Store, StoreError};

/// Where a store is.
#[derive(Clone, Debug)]
pub enum Database {
    /// In a file, by SQLite.
    File(PathBuf),
    /// On a PostgreSQL server.
    Postgres(Address),
}

impl Database {
    /// Reads what people write: an address of PostgreSQL, or else a path.
    ///
    /// # Errors
    ///
    /// When it begins like an address and is none.
    pub fn parse(text: &OsStr) -> Result<Self, BadAddress> {
        match text.to_str().filter(|text| Address::SCHEMES.iter().any(|scheme| text.starts_with(scheme))) {
            Some(address) => address.parse().map(Self::Postgres),
            None => Ok(Self::File(PathBuf::from(text))),
        }
    }

    /// The file, if it is one.
    #[must_use]
    pub const fn file(&self) -> Option<&PathBuf> {
        match self {
            Self::File(path) => Some(path),
            Self::Postgres(_) => None,
        }
    }

    /// Opens it to write to, made if there is nothing. What a server's acknowledgements survive is the server's own setting.
    ///
    /// # Errors
    ///
    /// When it is not ours, is newer than this program, or cannot be read and written.
    pub fn writer(&self, durability: Durability, identity: u64) -> Result<Box<dyn Store>, StoreError> {
        Ok(match self {
            Self::File(path) => {
                let options = sqlite::Options { durability, create: true, identity, ..Default::default() };
                Box::new(SqliteStore::open(path, &options)?)
            }
            Self::Postgres(address) => {
                let options = postgres::Options { create: true, identity, ..Default::default() };
                Box::new(PostgresStore::open(address, &options)?)
            }
        })
    }

    /// Opens it to read from.
    ///
    /// # Errors
    ///
    /// When there is nothing of ours, or it is newer than this program, or cannot be read.
    pub fn reader(&self) -> Result<Box<dyn Reader>, StoreError> {
        Ok(match self {
            Self::File(path) => Box::new(SqliteReader::open(path)?),
            Self::Postgres(address) => Box::new(PostgresReader::open(address)?),
        })
    }

    /// From which time a process would count that begins now. Writes nothing.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn look_at_clock(&self, beginning: Beginning<'_>) -> Result<Start, StoreError> {
        match self {
            Self::File(path) => Ok(SqliteReader::open(path)?.clock()?.start(beginning)),
            Self::Postgres(address) => PostgresReader::open(address)?.clock(),
        }
    }
}

impl From<PathBuf> for Database {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
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
    }
}
