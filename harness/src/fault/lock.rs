//! Somebody else who holds the sender's database: a backup, an operator with a shell, a migration.

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use tokio::sync::oneshot;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

use crate::database::is_on_a_server;

/// How long to wait for the lock: the sender gives it up between its commits.
const WITHIN: Duration = Duration::from_secs(10);

/// How long to wait for one table while others are held: who holds it may want those, and nobody else is to be taken for the
/// cause of that, or to be given up for it.
const TABLE_WITHIN: Duration = Duration::from_millis(100);

/// How often all of them are asked for.
const TRIES: u32 = 100;

/// Every table that is not the server's own. Its readers go on, as those of a file do; nobody else writes.
const LOCK_ALL: &str = "DO $$ DECLARE own text; BEGIN
    SELECT string_agg(format('%I.%I', schemaname, tablename), ', ') INTO own FROM pg_tables
        WHERE schemaname NOT IN ('pg_catalog', 'information_schema');
    EXECUTE 'LOCK TABLE ' || own || ' IN EXCLUSIVE MODE';
    END $$";

/// A database that is held until this is dropped.
#[derive(Debug)]
pub struct Held {
    _holder: Holder,
}

#[derive(Debug)]
#[expect(dead_code, reason = "held for what dropping it does")]
enum Holder {
    /// Tells the thread with the connection, by being dropped.
    File(oneshot::Sender<()>),
    /// The server ends its transaction with the connection.
    Server(Client),
}

/// A lock that can't be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// A file's.
    #[error(transparent)]
    File(#[from] rusqlite::Error),
    /// A server's.
    #[error("{}", said(.0))]
    Server(#[from] tokio_postgres::Error),
    /// The thread that was to hold it is gone.
    #[error("whoever was to hold it is gone")]
    Gone,
}

/// What the server said, rather than that it said something.
fn said(error: &tokio_postgres::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// Takes the lock on all that the sender writes, of a SQLite file or of a database on a server.
///
/// # Errors
/// When it can't be had.
pub async fn hold_database(database: &str) -> Result<Held, LockError> {
    let holder = if is_on_a_server(database) {
        Holder::Server(hold_tables(database).await?)
    } else {
        Holder::File(hold_file(database.into()).await?)
    };
    Ok(Held { _holder: holder })
}

async fn hold_tables(address: &str) -> Result<Client, tokio_postgres::Error> {
    let mut server: tokio_postgres::Config = address.parse()?;
    server.connect_timeout(WITHIN);
    let (client, connection) = server.connect(NoTls).await?;
    // How it ends, whoever asks something of the client hears.
    tokio::spawn(connection);
    client.batch_execute(&format!("SET lock_timeout = {}", TABLE_WITHIN.as_millis())).await?;
    let mut tries = TRIES;
    while let Err(error) = client.batch_execute(&format!("BEGIN; {LOCK_ALL}")).await {
        client.batch_execute("ROLLBACK").await?;
        let in_use = [SqlState::LOCK_NOT_AVAILABLE, SqlState::T_R_DEADLOCK_DETECTED];
        tries -= 1;
        if tries == 0 || !error.code().is_some_and(|code| in_use.contains(code)) {
            return Err(error);
        }
    }
    Ok(client)
}

/// On a thread of its own, as SQLite waits.
async fn hold_file(path: PathBuf) -> Result<oneshot::Sender<()>, LockError> {
    let (said, held) = oneshot::channel();
    let (let_go, told) = oneshot::channel::<()>();
    tokio::task::spawn_blocking(move || match take(&path) {
        Ok(connection) => {
            if said.send(Ok(())).is_ok() {
                // An error says that nobody will tell, which is as good.
                let _ = told.blocking_recv();
            }
            // Closing ends the transaction.
            drop(connection);
        }
        // Whoever asked may be gone.
        Err(error) => drop(said.send(Err(error))),
    });
    held.await.map_err(|_| LockError::Gone)??;
    Ok(let_go)
}

fn take(path: &std::path::Path) -> Result<Connection, rusqlite::Error> {
    // The file is the sender's: one that isn't there must not be made.
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.busy_timeout(WITHIN)?;
    connection.execute_batch("BEGIN EXCLUSIVE")?;
    Ok(connection)
}
