//! From a file to a server, in one transaction.

use bytes::Bytes;
use futures_util::SinkExt as _;
use tokio_postgres::{Client, CopyInSink};

use super::{MoveError, Moved, TABLES, Table, nobody_works};
use crate::Parts as _;
use crate::postgres::{self, Address, PostgresStore};
use crate::seal::Keyring;
use crate::sqlite::{Source, SqliteFile};

/// Prevents other processes from starting to use the server.
const LOCK: &str =
    "LOCK TABLE lanes, owners, nodes, state, totals, subscribers, events, deliveries, done, outbox";
/// These take the figures of a file, with those of [`NUMBERS`] in between.
const STATE: &str = "UPDATE state SET identity = $1, roster = $2, stirred = $3, next_lane = $4";
const NUMBERS: &str = "SELECT setval('event_numbers', $1, false), setval('body_numbers', $2, false),
    setval('delivery_numbers', $3, false)";
const TOTALS: &str = "INSERT INTO totals (writer, clock, accepted, delivered, dead, coalesced, waiting, waiting_bytes, retrying,
    dead_kept, failed_attempts, latency_us) VALUES (0, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
/// The next rows get unused numbers, also among rejected rows of the outbox.
const IDENTITIES: &str =
    "SELECT setval(pg_get_serial_sequence('secrets', 'id'), max(id)) FROM secrets HAVING max(id) > 0;
    SELECT setval(pg_get_serial_sequence('outbox', 'id'), max(id)) FROM
        (SELECT id FROM outbox UNION ALL SELECT id FROM outbox_rejected) rows HAVING max(id) > 0";

pub(super) async fn transfer(
    file: &SqliteFile,
    address: &Address,
    set: &str,
    tell: &mut dyn FnMut(Moved),
) -> Result<(), MoveError> {
    if file.liveness().others_may_live(None) {
        let by = "a process delivers from it, or may still run".to_owned();
        return Err(MoveError::InUse { database: file.path().display().to_string(), by });
    }
    let source = Source::open(file)?;
    let figures = source.figures()?;
    make_tables(address, figures[0])?;
    let (client, _) = address.connect(set).await?;
    client.batch_execute(&format!("BEGIN; {LOCK}")).await?;
    is_empty(&client, address, figures[0]).await?;
    nobody_works(&client, address).await?;
    client.batch_execute("DELETE FROM totals; DELETE FROM owners; DELETE FROM nodes").await?;
    for table in &TABLES {
        let rows = copy(&source, &client, table).await?;
        tell(Moved { table: table.name, rows });
    }
    client.execute(STATE, &values(&figures[..4])).await?;
    client.query(NUMBERS, &values(&figures[4..7])).await?;
    client.execute(TOTALS, &values(&figures[7..])).await?;
    client.batch_execute(IDENTITIES).await?;
    client.batch_execute("COMMIT").await?;
    analyze(&client).await;
    Ok(())
}

/// Analyzes the moved tables, so that the first plans are not made for empty ones. Each table separately, because the
/// lock lasts until the end of its transaction, and no foreign tables. A table that stays locked for 1 s is skipped:
/// the move is complete, and the server analyzes its tables soon.
async fn analyze(client: &Client) {
    let each = TABLES.iter().map(|table| format!("ANALYZE {}", table.name));
    for statement in std::iter::once("SET lock_timeout = '1s'".to_owned()).chain(each) {
        if let Err(error) = client.batch_execute(&statement).await {
            tracing::warn!(%error, statement, "all rows are moved, but the statistics of the tables are not updated");
            if client.is_closed() {
                return;
            }
        }
    }
}

/// On a separate thread, because the store blocks on its own runtime.
fn make_tables(address: &Address, identity: i64) -> Result<(), MoveError> {
    let options = postgres::Options {
        create: true,
        identity: identity.cast_unsigned(),
        ..postgres::Options::default()
    };
    // The proof of the source's key comes with its rows.
    let address = address.clone().with_keys(Keyring::default());
    std::thread::scope(|scope| {
        let made = scope.spawn(|| PostgresStore::open(&address, &options).map(drop)).join();
        made.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    Ok(())
}

fn values(figures: &[i64]) -> Vec<&(dyn tokio_postgres::types::ToSql + Sync)> {
    figures.iter().map(|figure| figure as &(dyn tokio_postgres::types::ToSql + Sync)).collect()
}

/// Refuses a server with any rows: a row of a former subscriber would belong to the new one with its number. Only
/// owners may exist, because each ended process leaves its own. If the identity is the same and any table but the
/// outbox has rows, the store was moved there before.
async fn is_empty(client: &Client, address: &Address, identity: i64) -> Result<(), MoveError> {
    let tables = TABLES.iter().map(|table| table.name).filter(|name| *name != "owners").chain(["done"]);
    let filled = tables.map(|name| format!("SELECT '{name}' WHERE EXISTS (SELECT FROM {name})"));
    let filled = client.query(&filled.collect::<Vec<_>>().join(" UNION ALL "), &[]).await?;
    let filled = filled.iter().map(|row| row.try_get(0)).collect::<Result<Vec<String>, _>>()?;
    if filled.is_empty() {
        return Ok(());
    }
    let database = address.to_string();
    let theirs: i64 = client.query_one("SELECT identity FROM state", &[]).await?.try_get(0)?;
    if theirs == identity && filled.iter().any(|name| name != "outbox") {
        return Err(MoveError::Moved { database });
    }
    Err(MoveError::Occupied { database, what: format!("rows of {}", filled.join(", ")) })
}

async fn copy(source: &Source, client: &Client, table: &Table) -> Result<u64, MoveError> {
    let sink: CopyInSink<Bytes> = client.copy_in(&format!("COPY {} FROM STDIN", table.name)).await?;
    let mut sink = std::pin::pin!(sink);
    let send = async |lines: String| Ok::<_, MoveError>(sink.send(lines.into()).await?);
    source.read(table.name, table.of_file, table.zeros(), send).await?;
    Ok(sink.finish().await?)
}
