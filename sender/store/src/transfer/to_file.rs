//! From a server to a file, which has another name until it is complete.

use std::path::Path;

use futures_util::StreamExt as _;
use tokio_postgres::{Client, Row};

use super::{MoveError, Moved, TABLES, nobody_works};
use crate::command::Body;
use crate::postgres::{Address, PostgresReader};
use crate::seal::{Field, Seal, hex};
use crate::sqlite::{Target, bytes as bytes_of};

/// Reads one snapshot, and blocks writes meanwhile. Numbers the bodies of an event consecutively.
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
/// A file lists lanes that have, or had, window caps in a separate table.
const CAPPED: &str = "SELECT lane FROM lanes WHERE capped";

pub(super) async fn transfer(
    address: &Address,
    file: &Path,
    set: &str,
    tell: &mut dyn FnMut(Moved),
) -> Result<(), MoveError> {
    if let Some(place) = Target::occupied(file) {
        let what = "a file exists".to_owned();
        return Err(MoveError::Occupied { database: place.display().to_string(), what });
    }
    let seal = seal_of(address)?;
    let (client, _) = address.connect(set).await?;
    client.batch_execute(BEGIN).await?;
    nobody_works(&client, address).await?;
    let target = Target::begin(file)?;
    for table in &TABLES {
        let rows = copy(&client, &target, (table.in_file(), &seal), table.of_server).await?;
        tell(Moved { table: table.name, rows });
    }
    copy(&client, &target, ("capped", &seal), CAPPED).await?;
    let figures = client.query_one(FIGURES, &[]).await?;
    Ok(target.finish(&numbers(&figures)?)?)
}

/// On a separate thread, because the reader blocks on its own runtime.
fn seal_of(address: &Address) -> Result<Seal, MoveError> {
    let seal = std::thread::scope(|scope| {
        let opened = scope.spawn(|| PostgresReader::open(address).map(PostgresReader::into_seal)).join();
        opened.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    Ok(seal)
}

fn numbers(row: &Row) -> Result<Vec<i64>, tokio_postgres::Error> {
    (0..row.len()).map(|column| row.try_get(column)).collect()
}

/// A body gets another number, for which it is sealed anew.
fn renumbered(seal: &Seal, line: &str) -> Result<String, MoveError> {
    let wrong = |detail: String| MoveError::Row { table: "bodies", detail };
    let columns: Vec<&str> = line.split('\t').collect();
    let [number, bytes, former] = columns[..] else { return Err(wrong("it has other columns".to_owned())) };
    let count = |text: &str| text.parse().map_err(|_| wrong(format!("{text} is no number")));
    let (from, to) = (count(former)?, count(number)?);
    let body = Body { bytes: bytes_of(bytes).map_err(wrong)?.into() };
    let sealed = seal
        .open_body(Field::FurtherBody(from), body)
        .and_then(|body| seal.close_body(Field::FurtherBody(to), &body))
        .map_err(|error| wrong(error.to_string()))?;
    Ok(format!("{number}\t\\\\x{}", hex(&sealed.bytes)))
}

async fn copy(
    client: &Client,
    target: &Target,
    (table, seal): (&'static str, &Seal),
    query: &str,
) -> Result<u64, MoveError> {
    let mut into = target.table(table)?;
    let stream = client.copy_out(&format!("COPY ({query}) TO STDOUT")).await?;
    let mut stream = std::pin::pin!(stream);
    let (mut rest, mut rows) = (Vec::new(), 0);
    while let Some(chunk) = stream.next().await {
        rest.extend_from_slice(&chunk?);
        let mut from = 0;
        while let Some(length) = rest[from..].iter().position(|byte| *byte == b'\n') {
            let line = std::str::from_utf8(&rest[from..from + length]);
            let not_text = |_| MoveError::Row { table, detail: "it is not UTF-8".to_owned() };
            let line = line.map_err(not_text)?;
            if table == "further_bodies" {
                into.add(&renumbered(seal, line)?)?;
            } else {
                into.add(line)?;
            }
            rows += 1;
            from += length + 1;
        }
        rest.drain(..from);
    }
    Ok(rows)
}
