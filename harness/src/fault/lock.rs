//! Somebody else who holds the sender's database: a backup, an operator with a shell, a migration.

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use tokio::sync::oneshot;

/// How long to wait for the lock: the sender gives it up between its commits.
const WITHIN: Duration = Duration::from_secs(10);

/// Takes the write lock of a SQLite file, says so, and holds it until told to let go (or whoever would tell is gone). On a
/// thread of its own, as SQLite waits.
#[must_use]
pub fn hold_database(path: PathBuf) -> (oneshot::Receiver<Result<(), rusqlite::Error>>, oneshot::Sender<()>) {
    let (said, held) = oneshot::channel();
    let (let_go, told) = oneshot::channel();
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
    (held, let_go)
}

fn take(path: &std::path::Path) -> Result<Connection, rusqlite::Error> {
    // The file is the sender's: one that isn't there must not be made.
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.busy_timeout(WITHIN)?;
    connection.execute_batch("BEGIN EXCLUSIVE")?;
    Ok(connection)
}
