//! A database for one run on a given server.

use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::{Client, Config, NoTls};
use url::Url;

use super::{DatabaseError, is_on_a_server};
use crate::clock::Clock;

/// The time limit of connecting.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// The time limit of creating or dropping a database.
const EXECUTED_WITHIN: Duration = Duration::from_secs(15);

/// A database that is dropped with this. A killed harness leaves it behind.
#[derive(Debug)]
pub(super) struct Given {
    server: Config,
    name: String,
    address: String,
}

impl Given {
    /// Creates one on the server with that address.
    pub(super) async fn create(server: &str) -> Result<Self, DatabaseError> {
        let unusable = |error: &dyn std::fmt::Display| DatabaseError::Given(error.to_string());
        if !is_on_a_server(server) {
            return Err(DatabaseError::Given(
                "it begins neither with postgres:// nor postgresql://".to_owned(),
            ));
        }
        let mut config: Config = server.parse().map_err(|error| unusable(&error))?;
        config.connect_timeout(CONNECT_WITHIN);
        let clock = Clock::begun();
        let name = format!("hookproof_run_{}_{}", std::process::id(), clock.unix_ns(clock.now()));
        let address = named(server, &name)?;
        execute(&config, &format!("CREATE DATABASE {name}")).await?;
        Ok(Self { server: config, name, address })
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        // On a thread with its own runtime: a run that is aborted has none any more.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let dropped = runtime.block_on(execute(&server, &format!("DROP DATABASE {name} WITH (FORCE)")));
            dropped.map_err(|error| std::io::Error::other(error.to_string()))
        });
        if let Ok(Err(error)) = dropping.join() {
            tell(&format!("the run's database {} was not dropped: {error}", self.name));
        }
    }
}

fn tell(text: &str) {
    use std::io::Write as _;

    // Without a reader there is nobody to inform.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// The address of another database on the same server.
fn named(server: &str, name: &str) -> Result<String, DatabaseError> {
    let mut address = Url::parse(server).map_err(|error| DatabaseError::Given(error.to_string()))?;
    if address.query_pairs().any(|(key, _)| key == "dbname") {
        // It would override the path, and the sender would write into a foreign database.
        return Err(DatabaseError::Given(
            "it names a database by dbname; a run makes one of its own".to_owned(),
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

/// A connection, which ends with the client.
async fn connect(server: &Config) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = server.connect(NoTls).await?;
    // The client's next query reports the error.
    tokio::spawn(connection);
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    async fn what_is_no_address_is_refused() {
        for server in [
            "postgres://a@127.0.0.1:1/postgres?dbname=prod",
            "localhost",
            "host=localhost user=x",
            "postgres://a:b@[host/x",
        ] {
            assert!(matches!(Given::create(server).await, Err(DatabaseError::Given(_))), "{server}");
        }
    }
}
