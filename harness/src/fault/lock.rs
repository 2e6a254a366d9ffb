//! A foreign lock on the sender's database, as by a backup, an operator's shell or a migration.

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use tokio::sync::oneshot;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

use crate::database::is_on_a_server;

/// How long to wait for the lock; the sender releases it between its commits.
const WITHIN: Duration = Duration::from_secs(10);

/// How long to wait for one table while holding others: their owner may wait for ours, and the sender must
/// not become the victim of that deadlock.
const TABLE_WITHIN: Duration = Duration::from_millis(100);

const TRIES: u32 = 100;

/// Readers continue, as with a file; other writers wait.
const LOCK_ALL: &str = "DO $$ DECLARE own text; BEGIN
    SELECT string_agg(format('%I.%I', schemaname, tablename), ', ') INTO own FROM pg_tables
        WHERE schemaname NOT IN ('pg_catalog', 'information_schema');
    EXECUTE 'LOCK TABLE ' || own || ' IN EXCLUSIVE MODE';
    END $$";

/// Held until this is dropped.
#[derive(Debug)]
pub struct DatabaseLock {
    _holder: Holder,
}

#[derive(Debug)]
#[expect(dead_code, reason = "held for what dropping it does")]
enum Holder {
    /// Its drop notifies the thread with the connection.
    File(oneshot::Sender<()>),
    /// The connection's end ends the transaction.
    Server(Client),
}

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error(transparent)]
    File(#[from] rusqlite::Error),
    #[error("{}", server_message(.0))]
    Server(#[from] tokio_postgres::Error),
    #[error("the process that holds the lock has ended")]
    Gone,
}

fn server_message(error: &tokio_postgres::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// Locks everything that the sender writes, in a SQLite file or on a server. Fails when the lock is unavailable.
pub async fn hold_database(database: &str) -> Result<DatabaseLock, LockError> {
    let holder = if is_on_a_server(database) {
        Holder::Server(hold_tables(database).await?)
    } else {
        Holder::File(hold_file(database.into()).await?)
    };
    Ok(DatabaseLock { _holder: holder })
}

async fn hold_tables(address: &str) -> Result<Client, tokio_postgres::Error> {
    let mut server: tokio_postgres::Config = address.parse()?;
    server.connect_timeout(WITHIN);
    let (client, connection) = server.connect(NoTls).await?;
    // The client's next query reports the error.
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

/// SQLite blocks, so the lock has a thread of its own.
async fn hold_file(path: PathBuf) -> Result<oneshot::Sender<()>, LockError> {
    let (said, held) = oneshot::channel();
    let (let_go, told) = oneshot::channel::<()>();
    tokio::task::spawn_blocking(move || match take(&path) {
        Ok(connection) => {
            if said.send(Ok(())).is_ok() {
                // An error means that the holder is gone, which also ends the lock.
                let _ = told.blocking_recv();
            }
            drop(connection);
        }
        Err(error) => drop(said.send(Err(error))),
    });
    held.await.map_err(|_| LockError::Gone)??;
    Ok(let_go)
}

fn take(path: &std::path::Path) -> Result<Connection, rusqlite::Error> {
    // The file is the sender's, and must not be created here.
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.busy_timeout(WITHIN)?;
    connection.execute_batch("BEGIN EXCLUSIVE")?;
    Ok(connection)
}
