//! The database that a run gives to the sender: a file in its folder, or one on a PostgreSQL server. The server is
//! private and ends with the run, or `HOOKPROOF_POSTGRES` names it; there the run creates and drops a database of its
//! own.

mod link;
mod server;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hookproof_judge::scenario::{Durability, Store};
pub use link::Link;
pub use server::Server;
use tokio::time::timeout;
use tokio_postgres::{Client, Config, NoTls};
use url::Url;

use crate::clock::Clock;

/// Names a server in place of a private one.
pub const VARIABLE: &str = "HOOKPROOF_POSTGRES";
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    #[error(
        "store = \"postgres\" needs a PostgreSQL server, and initdb and postgres are neither on the PATH nor in \
         /usr/lib/postgresql; install them (Debian: apt-get install postgresql), or put the address of a server \
         into {VARIABLE}"
    )]
    Missing,
    #[error("the run's own PostgreSQL server ended unexpectedly; its log is {}", .0.display())]
    Ended(PathBuf),
    #[error("the run's own PostgreSQL server is already stopped")]
    Stopped,
    #[error(
        "the run's own PostgreSQL server did not stop or restart in time; its log is {}",
        .0.display()
    )]
    Lost(PathBuf),
    #[error("the server of {VARIABLE} cannot be used: {0}; expected postgres://USER:PASSWORD@HOST/DATABASE")]
    Given(String),
    #[error("a private PostgreSQL server could not be started: {0}")]
    Server(String),
    #[error("a private PostgreSQL server could not be started: {0}")]
    Io(#[from] io::Error),
}

/// The database of one run; its resources end with this.
#[derive(Debug)]
pub struct Database {
    address: String,
    server: Option<Arc<Server>>,
    _given: Option<TemporaryDatabase>,
}

impl Database {
    /// The sender's files are in `home`; a private server logs into `logs`. Fails without a usable server.
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
            let given = TemporaryDatabase::create(&server).await?;
            return Ok(Self { address: given.address().to_owned(), server: None, _given: Some(given) });
        }
        let server = Server::start(durability, &logs.join("postgres.log")).await?;
        Ok(Self { address: server.address(), server: Some(Arc::new(server)), _given: None })
    }

    /// Waits until its resources are gone. Fails when the private server had ended or did not obey.
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

fn address_in(folder: &Path) -> String {
    let host = folder.display().to_string().replace('/', "%2F");
    format!("postgres://hookproof@{host}/postgres")
}

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const EXECUTED_WITHIN: Duration = Duration::from_secs(15);

/// Dropped with this. A killed harness leaves it behind.
#[derive(Debug)]
struct TemporaryDatabase {
    server: Config,
    name: String,
    address: String,
}

impl TemporaryDatabase {
    /// The server has that address.
    async fn create(server: &str) -> Result<Self, DatabaseError> {
        let unusable = |error: &dyn std::fmt::Display| DatabaseError::Given(error.to_string());
        if !is_on_a_server(server) {
            return Err(DatabaseError::Given("it must begin with postgres:// or postgresql://".to_owned()));
        }
        let mut config: Config = server.parse().map_err(|error| unusable(&error))?;
        config.connect_timeout(CONNECT_WITHIN);
        let clock = Clock::begun();
        let name = format!("hookproof_run_{}_{}", std::process::id(), clock.unix_ns(clock.now()));
        let address = named(server, &name)?;
        execute(&config, &format!("CREATE DATABASE {name}")).await?;
        Ok(Self { server: config, name, address })
    }

    fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for TemporaryDatabase {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        // An aborted run has no runtime any more, so the thread makes its own.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let dropped = runtime.block_on(execute(&server, &format!("DROP DATABASE {name} WITH (FORCE)")));
            dropped.map_err(|error| std::io::Error::other(error.to_string()))
        });
        if let Ok(Err(error)) = dropping.join() {
            print_message(&format!("the run's database {} was not dropped: {error}", self.name));
        }
    }
}

fn print_message(text: &str) {
    use std::io::Write as _;

    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

fn named(server: &str, name: &str) -> Result<String, DatabaseError> {
    let mut address = Url::parse(server).map_err(|error| DatabaseError::Given(error.to_string()))?;
    if address.query_pairs().any(|(key, _)| key == "dbname") {
        // It would override the path, and the sender would write into a foreign database.
        return Err(DatabaseError::Given(
            "it names a database by dbname; leave it out, since a run creates its own".to_owned(),
        ));
    }
    address.set_path(name);
    Ok(address.into())
}

async fn execute(server: &Config, statement: &str) -> Result<(), DatabaseError> {
    let done = async { connect(server).await?.batch_execute(statement).await };
    let late = |_| DatabaseError::Given(format!("it did not answer within {} s", EXECUTED_WITHIN.as_secs()));
    timeout(EXECUTED_WITHIN, done).await.map_err(late)?.map_err(|error: tokio_postgres::Error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        DatabaseError::Given(format!("{error}{}", cause.unwrap_or_default()))
    })
}

async fn connect(server: &Config) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = server.connect(NoTls).await?;
    // The client's next query reports the error.
    tokio::spawn(connection);
    Ok(client)
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

    #[test]
    fn another_database_of_the_same_server_has_its_address() {
        for (server, expected) in [
            ("postgres://a:b@host:5433/postgres", "postgres://a:b@host:5433/own"),
            (
                "postgresql://a@%2Ftmp%2Fx/postgres?options=-cjit%3Doff",
                "postgresql://a@%2Ftmp%2Fx/own?options=-cjit%3Doff",
            ),
            ("postgres:///postgres?host=/run/postgresql", "postgres:///own?host=/run/postgresql"),
            ("postgres://host", "postgres://host/own"),
        ] {
            assert_eq!(named(server, "own").unwrap(), expected);
        }
    }

    #[tokio::test]
    async fn an_invalid_address_is_refused() {
        for server in [
            "postgres://a@127.0.0.1:1/postgres?dbname=prod",
            "localhost",
            "host=localhost user=x",
            "postgres://a:b@[host/x",
        ] {
            assert!(
                matches!(TemporaryDatabase::create(server).await, Err(DatabaseError::Given(_))),
                "{server}"
            );
        }
    }
}
