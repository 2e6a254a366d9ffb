//! The database that a run gives to the sender under test: a file in its folder, or one on a PostgreSQL
//! server. The server is private and ends with the run, or `HOOKPROOF_POSTGRES` names it; there the run
//! creates and drops a database of its own.
//!
//! - `server`, `server.sh`: the private server. `link`: a process's proxy to it. `given`: a database on a
//!   given server.

mod given;
mod link;
mod server;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use given::Given;
use hookproof_judge::scenario::{Durability, Store};
pub use link::Link;
pub use server::Server;

/// The environment variable with the address of a server in place of a private one.
pub const VARIABLE: &str = "HOOKPROOF_POSTGRES";
/// The schemes of a database address.
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// An unavailable database.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// There is neither a server nor PostgreSQL's programs.
    #[error(
        "store = \"postgres\" needs a server, and PostgreSQL's programs (initdb, postgres) are neither on the PATH nor in \
         /usr/lib/postgresql; expected them (Debian: apt-get install postgresql), or the address of a server in {VARIABLE}"
    )]
    Missing,
    /// The private server ended by itself.
    #[error("the run's own PostgreSQL server ended by itself; its log is {}", .0.display())]
    Ended(PathBuf),
    /// The private server was stopped twice.
    #[error("the run's own PostgreSQL server is stopped already")]
    Stopped,
    /// The private server did not stop, or did not come back.
    #[error(
        "the run's own PostgreSQL server did not do as it was told, or did not come back once it was stopped; its log is {}",
        .0.display()
    )]
    Lost(PathBuf),
    /// The given server is unusable.
    #[error("the server of {VARIABLE} cannot be used: {0}; expected postgres://USER:PASSWORD@HOST/DATABASE")]
    Given(String),
    /// The private server does not start.
    #[error("a private PostgreSQL server could not be started: {0}")]
    Server(String),
    /// The private server's log or processes failed.
    #[error("a private PostgreSQL server could not be started: {0}")]
    Io(#[from] io::Error),
}

/// The database of one run; its resources end with this.
#[derive(Debug)]
pub struct Database {
    address: String,
    server: Option<Arc<Server>>,
    /// Held for its drop.
    _given: Option<Given>,
}

impl Database {
    /// Prepares a database for a sender with its files in `home`; a private server logs into `logs`.
    ///
    /// # Errors When there is no usable server.
    pub async fn prepare(
        store: Store,
        durability: Durability,
        home: &Path,
        logs: &Path,
    ) -> Result<Self, DatabaseError> {
        if store == Store::Sqlite {
            let address = home.join("sender.db").display().to_string();
            return Ok(Self { address, server: None, _given: None });
        }
        if let Some(server) = std::env::var(VARIABLE).ok().filter(|server| !server.is_empty()) {
            let given = Given::create(&server).await?;
            return Ok(Self { address: given.address().to_owned(), server: None, _given: Some(given) });
        }
        let server = Server::start(durability, &logs.join("postgres.log")).await?;
        Ok(Self { address: server.address(), server: Some(Arc::new(server)), _given: None })
    }

    /// Ends its resources, and waits until they are gone.
    ///
    /// # Errors When the private server had ended or did not obey.
    pub async fn close(self) -> Result<(), DatabaseError> {
        match self.server.and_then(Arc::into_inner) {
            Some(server) => server.close().await,
            None => Ok(()),
        }
    }

    /// A path, or the address of a database on a server.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The private server, if there is one.
    #[must_use]
    pub const fn server(&self) -> Option<&Arc<Server>> {
        self.server.as_ref()
    }
}

/// Whether a database is on a server, rather than a file.
#[must_use]
pub fn is_on_a_server(address: &str) -> bool {
    SCHEMES.iter().any(|scheme| address.starts_with(scheme))
}

/// The address of the only database of a server that listens in a folder.
fn address_in(folder: &Path) -> String {
    let host = folder.display().to_string().replace('/', "%2F");
    format!("postgres://hookproof@{host}/postgres")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_lies_in_the_senders_folder() {
        let (home, logs) = (Path::new("/run/sender"), Path::new("/run"));
        let database = Database::prepare(Store::Sqlite, Durability::Process, home, logs).await.unwrap();
        assert_eq!(database.address(), "/run/sender/sender.db");
        assert!(database.server().is_none() && !is_on_a_server(database.address()));
    }
}
