//! Reads concurrently with the writer.

use std::path::Path;

use rusqlite::types::FromSql;
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Row, params};

use super::file::{self, OpenError};
use super::work::{Delivery, Table};
use crate::clock::Millis;

/// Results and counts. Also usable in another process.
#[derive(Debug)]
pub struct Effects {
    sql: Connection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Waiting for their first attempt or a retry.
    pub waiting: u64,
    pub given_up: u64,
    /// Processed and still remembered.
    pub processed: u64,
}

impl Effects {
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Ok(Self { sql: file::reader(path)? })
    }

    /// The last `max` ids, in order. An id that was processed twice appears twice.
    pub fn processed(&self, max: u32) -> rusqlite::Result<Vec<String>> {
        let last = "SELECT id FROM (SELECT seq, id FROM effects ORDER BY seq DESC LIMIT ?1) ORDER BY seq";
        self.sql.prepare_cached(last)?.query_map([max], |row| row.get(0))?.collect()
    }

    pub fn standing(&self) -> rusqlite::Result<Standing> {
        let sums = "SELECT (SELECT count(*) FROM received)
             + (SELECT count(*) FROM inbox_failed WHERE due_ms IS NOT NULL),
             (SELECT count(*) FROM inbox_failed WHERE finished_ms IS NOT NULL),
             (SELECT count(*) FROM effects)";
        self.sql.query_row(sums, [], |row| {
            Ok(Standing { waiting: row.get(0)?, given_up: row.get(1)?, processed: row.get(2)? })
        })
    }
}

pub(super) enum Due {
    Readable(Delivery),
    Unreadable(Unreadable),
}

/// Unreadable parts have their smallest value.
pub(super) struct Unreadable {
    pub(super) seq: u64,
    pub(super) table: Table,
    pub(super) id: String,
    pub(super) attempts: u32,
    pub(super) body_bytes: u64,
    pub(super) why: String,
    /// A retry would fail as well.
    pub(super) for_good: bool,
}

/// The longest due first, until their bodies exceed `bytes`.
pub(super) fn due(sql: &Connection, now: Millis, max: u32, bytes: usize) -> rusqlite::Result<Vec<Due>> {
    if next_due(sql)?.is_none_or(|next| next > now)
        && let Ok(due) = first_received(sql, max, bytes)
    {
        return Ok(due);
    }
    one_by_one(sql, now, max, bytes)
}

fn first_received(sql: &Connection, max: u32, bytes: usize) -> rusqlite::Result<Vec<Due>> {
    let first =
        "SELECT seq, id, event, content_type, body, received_ms, 0 FROM received ORDER BY seq LIMIT ?1";
    let mut first = sql.prepare_cached(first)?;
    let mut rows = first.query([max])?;
    let (mut due, mut taken) = (Vec::new(), 0_usize);
    while taken < bytes
        && let Some(row) = rows.next()?
    {
        let delivery = delivery(row, Table::Received)?;
        taken = taken.saturating_add(delivery.body.len());
        due.push(Due::Readable(delivery));
    }
    Ok(due)
}

/// Each read separately, so that an unreadable one does not block the others.
fn one_by_one(sql: &Connection, now: Millis, max: u32, bytes: usize) -> rusqlite::Result<Vec<Due>> {
    // An untried delivery has been due since it arrived.
    let due = "SELECT seq, is_failed FROM (
             SELECT * FROM (SELECT received_ms AS due_ms, seq, FALSE AS is_failed FROM received ORDER BY seq LIMIT ?2)
             UNION ALL
             SELECT * FROM (SELECT due_ms, seq, TRUE FROM inbox_failed WHERE due_ms <= ?1 ORDER BY due_ms, seq LIMIT ?2)
         ) ORDER BY due_ms, seq LIMIT ?2";
    let place = |row: &Row<'_>| {
        let is_failed = row.get(1)?;
        Ok((row.get(0)?, if is_failed { Table::Failed } else { Table::Received }))
    };
    let rows: Vec<(u64, Table)> =
        sql.prepare_cached(due)?.query_map(params![now.0, max], place)?.collect::<Result<_, _>>()?;
    let mut received = sql.prepare_cached(
        "SELECT seq, id, event, content_type, body, received_ms, 0 FROM received WHERE seq = ?1",
    )?;
    let mut failed = sql.prepare_cached(
        "SELECT seq, id, event, content_type, body, received_ms, attempts FROM inbox_failed WHERE seq = ?1",
    )?;
    let (mut due, mut taken) = (Vec::new(), 0_usize);
    for (seq, table) in rows {
        if taken >= bytes {
            break;
        }
        let one = match table {
            Table::Received => &mut received,
            Table::Failed => &mut failed,
        };
        due.push(match one.query_row([seq], |row| delivery(row, table)) {
            Ok(delivery) => {
                taken = taken.saturating_add(delivery.body.len());
                Due::Readable(delivery)
            }
            Err(error) => Due::Unreadable(unreadable(sql, (seq, table), &error)),
        });
    }
    Ok(due)
}

fn unreadable(sql: &Connection, (seq, table): (u64, Table), error: &rusqlite::Error) -> Unreadable {
    let code = error.sqlite_error_code();
    let place = (seq, table);
    Unreadable {
        seq,
        table,
        id: part(sql, place, "id").unwrap_or_default(),
        attempts: match table {
            Table::Received => 0,
            Table::Failed => part(sql, place, "attempts").unwrap_or_default(),
        },
        body_bytes: part(sql, place, "length(body)").unwrap_or_default(),
        why: error.to_string(),
        // Without an SQLite error, the value is invalid.
        for_good: code.is_none_or(|code| code == ErrorCode::DatabaseCorrupt),
    }
}

fn part<T: FromSql>(sql: &Connection, (seq, table): (u64, Table), part: &str) -> Option<T> {
    let table = match table {
        Table::Received => "received",
        Table::Failed => "inbox_failed",
    };
    let query = format!("SELECT {part} FROM {table} WHERE seq = ?1");
    sql.query_row(&query, [seq], |row| row.get(0)).ok()
}

pub(super) fn next_due(sql: &Connection) -> rusqlite::Result<Option<Millis>> {
    let next = "SELECT due_ms FROM inbox_failed WHERE due_ms IS NOT NULL ORDER BY due_ms LIMIT 1";
    sql.prepare_cached(next)?.query_row([], |row| row.get(0).map(Millis)).optional()
}

fn delivery(row: &Row<'_>, table: Table) -> rusqlite::Result<Delivery> {
    Ok(Delivery {
        seq: row.get(0)?,
        table,
        id: row.get(1)?,
        event: row.get(2)?,
        content_type: row.get(3)?,
        body: row.get::<_, Vec<u8>>(4)?.into(),
        received: Millis(row.get(5)?),
        attempts: row.get(6)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_once_bodies_come_to_enough() {
        let sql = Connection::open_in_memory().unwrap();
        sql.execute_batch(include_str!("schema.sql")).unwrap();
        for seq in 1..=5 {
            let row = "INSERT INTO received (seq, id, received_ms, body) VALUES (?1, ?1, 1, zeroblob(10))";
            sql.execute(row, [seq]).unwrap();
        }
        let taken = |bytes| due(&sql, Millis(1), 4, bytes).unwrap().len();
        assert_eq!([1, 10, 11, 30, 1_000].map(taken), [1, 1, 2, 3, 4]);
    }
}
