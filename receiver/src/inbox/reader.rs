//! What is read beside the writing: work that is due, and what has been done.

use std::path::Path;

use rusqlite::types::FromSql;
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Row, params};

use super::file::{self, OpenError};
use super::work::Delivery;
use crate::clock::Millis;

/// What was processed, and how things stand. Also for another process than the one that works on the file.
#[derive(Debug)]
pub struct Effects {
    sql: Connection,
}

/// How things stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Deliveries that wait to be worked on, or to be tried again.
    pub waiting: u64,
    /// Those that were given up.
    pub given_up: u64,
    /// Those that were processed and are remembered.
    pub processed: u64,
}

impl Effects {
    /// Looks into a file.
    ///
    /// # Errors
    /// When it can't be opened, or is not an inbox.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Ok(Self { sql: file::reader(path)? })
    }

    /// The ids of the last `max` that were processed, in the order in which they were; an id that was processed twice
    /// is there twice.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn processed(&self, max: u32) -> rusqlite::Result<Vec<String>> {
        let last = "SELECT id FROM (SELECT seq, id FROM effects ORDER BY seq DESC LIMIT ?1) ORDER BY seq";
        self.sql.prepare_cached(last)?.query_map([max], |row| row.get(0))?.collect()
    }

    /// The numbers.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn standing(&self) -> rusqlite::Result<Standing> {
        let sums = "SELECT (SELECT count(*) FROM received WHERE due_ms IS NOT NULL),
             (SELECT count(*) FROM received WHERE finished_ms IS NOT NULL AND error IS NOT NULL),
             (SELECT count(*) FROM effects)";
        self.sql.query_row(sums, [], |row| {
            Ok(Standing { waiting: row.get(0)?, given_up: row.get(1)?, processed: row.get(2)? })
        })
    }
}

/// A delivery that is due.
pub(super) enum Due {
    Readable(Delivery),
    Unreadable(Unreadable),
}

/// A delivery whose row makes no sense, or that the disk does not give. What can't be read of it has the least value.
pub(super) struct Unreadable {
    pub(super) seq: u64,
    pub(super) id: String,
    pub(super) attempts: u32,
    pub(super) body_bytes: u64,
    pub(super) why: String,
    /// Another try would find the same.
    pub(super) for_good: bool,
}

/// Deliveries that are due, those first that have been for longest, until their bodies come to so many bytes. Each is read
/// by itself, so that one that can't be read keeps nobody from the others.
pub(super) fn due(sql: &Connection, now: Millis, max: u32, bytes: usize) -> rusqlite::Result<Vec<Due>> {
    let due = "SELECT seq FROM received WHERE due_ms <= ?1 ORDER BY due_ms, seq LIMIT ?2";
    let rows: Vec<u64> = sql
        .prepare_cached(due)?
        .query_map(params![now.0, max], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let one = "SELECT seq, id, event, content_type, body, received_ms, attempts FROM received WHERE seq = ?1";
    let mut one = sql.prepare_cached(one)?;
    let (mut due, mut taken) = (Vec::new(), 0_usize);
    for seq in rows {
        if taken >= bytes {
            break;
        }
        due.push(match one.query_row([seq], delivery) {
            Ok(delivery) => {
                taken = taken.saturating_add(delivery.body.len());
                Due::Readable(delivery)
            }
            Err(error) => Due::Unreadable(unreadable(sql, seq, &error)),
        });
    }
    Ok(due)
}

fn unreadable(sql: &Connection, seq: u64, error: &rusqlite::Error) -> Unreadable {
    let code = error.sqlite_error_code();
    Unreadable {
        seq,
        id: part(sql, seq, "id").unwrap_or_default(),
        attempts: part(sql, seq, "attempts").unwrap_or_default(),
        body_bytes: part(sql, seq, "ifnull(length(body), 0)").unwrap_or_default(),
        why: error.to_string(),
        // What SQLite does not complain of is a value that makes no sense.
        for_good: code.is_none_or(|code| code == ErrorCode::DatabaseCorrupt),
    }
}

/// A part of a row, if at least that can be read.
fn part<T: FromSql>(sql: &Connection, seq: u64, part: &str) -> Option<T> {
    let query = format!("SELECT {part} FROM received WHERE seq = ?1");
    sql.query_row(&query, [seq], |row| row.get(0)).ok()
}

/// When the next one is due.
pub(super) fn next_due(sql: &Connection) -> rusqlite::Result<Option<Millis>> {
    let next = "SELECT due_ms FROM received WHERE due_ms IS NOT NULL ORDER BY due_ms LIMIT 1";
    sql.prepare_cached(next)?.query_row([], |row| row.get(0).map(Millis)).optional()
}

fn delivery(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    Ok(Delivery {
        seq: row.get(0)?,
        id: row.get(1)?,
        event: row.get(2)?,
        content_type: row.get(3)?,
        body: row.get::<_, Option<Vec<u8>>>(4)?.unwrap_or_default().into(),
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
            let row = "INSERT INTO received (seq, id, received_ms, body, due_ms) VALUES (?1, ?1, 1, zeroblob(10), 1)";
            sql.execute(row, [seq]).unwrap();
        }
        let taken = |bytes| due(&sql, Millis(1), 4, bytes).unwrap().len();
        assert_eq!([1, 10, 11, 30, 1_000].map(taken), [1, 1, 2, 3, 4]);
    }
}
