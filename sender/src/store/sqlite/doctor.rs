//! What only an operator asks: whether the file is whole, and what in it can't be read.

use rusqlite::{Result, params};

use super::failure::Doing;
use super::values::int;
use super::{SqliteReader, SqliteStore};
use crate::engine::DeliveryId;
use crate::store::StoreError;

/// Deliveries looked at in one moment of the store: no look holds up the log for long.
const ROWS_MAX: u32 = 20_000;
/// No more faults of a table are listed.
const FAULTS_MAX: u32 = 10;

/// Waiting deliveries of which a part is missing or makes no sense, as far as one look goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// How many.
    pub rows: u64,
    /// Where the next look begins, if there is more to look at.
    pub next: Option<DeliveryId>,
}

/// What a look at the file's tables found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// What is wrong, the first faults of each table.
    pub faults: Vec<String>,
    /// The tables that were not looked at to their end.
    pub unchecked: Vec<String>,
}

impl SqliteReader {
    /// Looks for what is wrong with the file's tables. Each is looked at in a moment of its own; the log grows meanwhile by
    /// what is written, and the look ends where it has become longer than `log_bytes_max`.
    ///
    /// # Errors
    ///
    /// When the store cannot be read at all.
    pub fn quick_check(&self, log_bytes_max: u64) -> std::result::Result<Checked, StoreError> {
        let tables = self.moment("list the tables", |sql| {
            sql.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")?
                .query_map([], |row| row.get(0))?
                .collect::<Result<Vec<String>>>()
        })?;
        let mut checked = Checked::default();
        for table in tables {
            let found = self.moment_within(log_bytes_max, "check a table", |sql| {
                let mut check = sql.prepare("SELECT quick_check FROM pragma_quick_check(?1) LIMIT ?2")?;
                let found = check.query_map(params![table, FAULTS_MAX], |row| row.get(0))?;
                found.collect::<Result<Vec<String>>>()
            });
            match found {
                Err(StoreError::TooMuch { .. }) => checked.unchecked.push(table),
                found => {
                    let found = found?.into_iter().filter(|fault| fault != "ok");
                    checked.faults.extend(found.map(|fault| format!("{table}: {fault}")));
                }
            }
        }
        Ok(checked)
    }

    /// Waiting deliveries without a body or an event, or whose figures make no sense, after a place; looks at a bounded number of deliveries.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn missing_parts(&self, after: DeliveryId) -> std::result::Result<Missing, StoreError> {
        self.moment("look for missing parts", |sql| {
            let (rows, seen, last): (u64, u32, Option<DeliveryId>) = sql
                .prepare_cached(
                    "SELECT coalesce(sum(state = 0 AND (
                         d.attempts NOT BETWEEN 0 AND 4294967295
                         OR min(d.lane, d.bytes, d.at, d.expires, d.ttl, coalesce(d.last_attempt, 0)) < 0
                         OR (d.body > 0 AND NOT EXISTS (SELECT 1 FROM further_bodies b WHERE b.body = d.body))
                         OR NOT EXISTS (SELECT 1 FROM events e
                             WHERE e.event = d.event AND (d.body > 0 OR e.body IS NOT NULL)))), 0), count(*), max(delivery)
                     FROM (SELECT * FROM deliveries WHERE delivery > ?1 ORDER BY delivery LIMIT ?2) d",
                )?
                .query_row(params![int(after.0), ROWS_MAX], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                })?;
            Ok(Missing { rows, next: last.filter(|_| seen == ROWS_MAX) })
        })
    }
}

impl SqliteStore {
    /// Moves the log's content into the file and cuts the log: false, if some program still reads it or writes to it.
    ///
    /// # Errors
    ///
    /// When the store cannot be written.
    pub fn cut_log(&mut self) -> std::result::Result<bool, StoreError> {
        let busy: bool = self
            .sql
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
            .doing("cut the log")?;
        Ok(!busy)
    }
}
