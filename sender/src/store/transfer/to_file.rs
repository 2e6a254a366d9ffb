//! From a server to a file, which has another name until all is in it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use futures_util::StreamExt as _;
use rusqlite::{Connection, params_from_iter};
use tokio_postgres::{Client, Row};

use super::line::{self, Kind};
use super::{MoveError, Moved, TABLES, nobody_works};
use crate::store::postgres::{Address, PostgresReader};
use crate::store::sqlite::{self, SqliteStore};

/// All that is read is of one moment, and nobody writes meanwhile. Bodies get numbers that follow one another within an event.
const BEGIN: &str =
    "BEGIN ISOLATION LEVEL REPEATABLE READ; LOCK TABLE lanes, owners, state, outbox IN SHARE MODE;
    CREATE TEMPORARY TABLE moved_bodies ON COMMIT DROP AS
        SELECT n.body, row_number() OVER (ORDER BY e.event, n.place) AS number
        FROM events e, unnest(e.bodies) WITH ORDINALITY AS n (body, place);
    CREATE UNIQUE INDEX ON moved_bodies (body); ANALYZE moved_bodies";
/// In the order of a file's row.
const FIGURES: &str = "SELECT s.identity, t.clock, s.roster, s.stirred, s.next_lane, n.event, b.body, d.delivery, t.accepted,
    t.delivered, t.dead, t.coalesced, t.waiting, t.waiting_bytes, t.retrying, t.dead_kept, t.failed_attempts, t.latency_us
    FROM state s, (SELECT last_value + is_called::int AS event FROM event_numbers) n,
    (SELECT coalesce(max(number), 0) + 1 AS body FROM moved_bodies) b,
    (SELECT last_value + is_called::int AS delivery FROM delivery_numbers) d,
    (SELECT coalesce(max(clock), 0) AS clock, coalesce(sum(accepted), 0)::int8 AS accepted,
        coalesce(sum(delivered), 0)::int8 AS delivered, coalesce(sum(dead), 0)::int8 AS dead,
        coalesce(sum(coalesced), 0)::int8 AS coalesced, coalesce(sum(waiting), 0)::int8 AS waiting,
        coalesce(sum(waiting_bytes), 0)::int8 AS waiting_bytes, coalesce(sum(retrying), 0)::int8 AS retrying,
        coalesce(sum(dead_kept), 0)::int8 AS dead_kept, coalesce(sum(failed_attempts), 0)::int8 AS failed_attempts,
        coalesce(sum(latency_us), 0)::int8 AS latency_us FROM totals) t";
const TOTALS: &str = "UPDATE totals SET identity = ?1, clock = ?2, roster = ?3, stirred = ?4, next_lane = ?5, next_event = ?6,
    next_body = ?7, next_delivery = ?8, accepted = ?9, delivered = ?10, dead = ?11, coalesced = ?12, waiting = ?13,
    waiting_bytes = ?14, retrying = ?15, dead_kept = ?16, failed_attempts = ?17, latency_us = ?18";
/// Lanes that have, or had, window caps have a table of their own in a file.
const CAPPED: &str = "SELECT lane FROM lanes WHERE capped";

/// The next row of the outbox has a number of its own, also beside those that were set aside.
const IDENTITIES: &str = "DELETE FROM sqlite_sequence WHERE name = 'outbox';
    INSERT INTO sqlite_sequence (name, seq) SELECT 'outbox', max(id) FROM
        (SELECT id FROM outbox UNION ALL SELECT id FROM outbox_rejected) HAVING max(id) > 0";
/// How the names of a database's files end.
const ALL_ENDS: [&str; 4] = ["", "-wal", "-shm", "-journal"];

pub(super) async fn transfer(
    address: &Address,
    file: &Path,
    tell: &mut dyn FnMut(Moved),
) -> Result<(), MoveError> {
    // SQLite would play an older file's log into the store that takes its name.
    for place in ALL_ENDS.map(|end| named(file, end)) {
        if place.exists() {
            let what = "a file is there".to_owned();
            return Err(MoveError::Occupied { database: place.display().to_string(), what });
        }
    }
    is_a_store(address)?;
    let (client, _) = address.connect("").await?;
    client.batch_execute(BEGIN).await?;
    nobody_works(&client, address).await?;
    let unfinished = named(file, ".moving");
    // What an earlier move left.
    for end in ALL_ENDS {
        remove(&named(&unfinished, end))?;
    }
    fill(&client, &unfinished, tell).await?;
    fs::File::open(&unfinished)?.sync_all()?;
    fs::rename(&unfinished, file)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(fs::File::open(folder)?.sync_all()?)
}

/// On a thread of its own, as the reader waits for its answers in its own way.
fn is_a_store(address: &Address) -> Result<(), MoveError> {
    std::thread::scope(|scope| {
        let opened = scope.spawn(|| PostgresReader::open(address).map(drop)).join();
        opened.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    Ok(())
}

async fn fill(client: &Client, file: &Path, tell: &mut dyn FnMut(Moved)) -> Result<(), MoveError> {
    let options = sqlite::Options { create: true, ..sqlite::Options::default() };
    drop(SqliteStore::open(file, &options)?);
    let mut target = Connection::open(file)?;
    let filling = target.transaction()?;
    for table in &TABLES {
        let rows = copy(client, &filling, table.in_file(), table.of_server).await?;
        tell(Moved { table: table.name, rows });
    }
    copy(client, &filling, "capped", CAPPED).await?;
    let figures = client.query_one(FIGURES, &[]).await?;
    filling.execute(TOTALS, params_from_iter(numbers(&figures)?))?;
    filling.execute_batch(IDENTITIES)?;
    filling.commit()?;
    // All of it in the one file that gets another name.
    target.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE")?;
    target.close().map_err(|(_, error)| error)?;
    Ok(())
}

fn numbers(row: &Row) -> Result<Vec<i64>, tokio_postgres::Error> {
    (0..row.len()).map(|column| row.try_get(column)).collect()
}

/// Copies all rows of a table; answers how many.
async fn copy(
    client: &Client,
    target: &Connection,
    table: &'static str,
    query: &str,
) -> Result<u64, MoveError> {
    let wrong = |detail: String| MoveError::Row { table, detail };
    let kinds = kinds(target, table)?;
    let places = vec!["?"; kinds.len()].join(", ");
    let mut insert = target.prepare(&format!("INSERT INTO {table} VALUES ({places})"))?;
    let stream = client.copy_out(&format!("COPY ({query}) TO STDOUT")).await?;
    let mut stream = std::pin::pin!(stream);
    let (mut rest, mut rows) = (Vec::new(), 0);
    while let Some(chunk) = stream.next().await {
        rest.extend_from_slice(&chunk?);
        let mut from = 0;
        while let Some(length) = rest[from..].iter().position(|byte| *byte == b'\n') {
            let text = std::str::from_utf8(&rest[from..from + length]);
            let text = text.map_err(|_| wrong("it is not UTF-8".to_owned()))?;
            let values = text.split('\t').zip(&kinds).map(|(column, kind)| line::read(column, *kind));
            let values = values.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
            insert.execute(params_from_iter(values))?;
            rows += 1;
            from += length + 1;
        }
        rest.drain(..from);
    }
    Ok(rows)
}

/// What the columns of a table take.
fn kinds(target: &Connection, table: &str) -> rusqlite::Result<Vec<Kind>> {
    let mut columns = target.prepare("SELECT type FROM pragma_table_info(?1) ORDER BY cid")?;
    columns.query_map([table], |row| Ok(Kind::of(&row.get::<_, String>(0)?)))?.collect()
}

fn named(file: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(end);
    name.into()
}

fn remove(file: &Path) -> std::io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
