//! Which ids are known. The file has an index of them, in which most ids fall on a page of their own; so the latest are kept
//! in memory as well as in the rows that have them, and many are put into the index at once.

use std::collections::HashSet;

use rusqlite::{CachedStatement, Connection, Transaction};

/// How many ids are kept out of the index, and how many bytes of them; up to twice as many as long as only arrivals are
/// committed, as those are waited for.
const RECENT_MAX: usize = 8_192;
const RECENT_BYTES_MAX: usize = 1 << 20;

/// The ids that the index does not have yet, as of the last commit.
#[derive(Debug)]
pub(super) struct Ids {
    recent: HashSet<String>,
    bytes: usize,
    recent_max: usize,
    /// The state of the file that they go by; none if that is not known.
    pub(super) version: Option<i64>,
    /// The highest number of a delivery.
    last: u64,
}

impl Default for Ids {
    fn default() -> Self {
        Self::of(RECENT_MAX)
    }
}

impl Ids {
    /// Keeps so many out of the index.
    pub(super) fn of(recent_max: usize) -> Self {
        Self { recent: HashSet::new(), bytes: 0, recent_max, version: None, last: 0 }
    }

    /// Takes them for a transaction. If they are not put back, they are read from the file again.
    pub(super) fn take(&mut self) -> Self {
        let unsure = Self { last: self.last, ..Self::of(self.recent_max) };
        std::mem::replace(self, unsure)
    }

    /// To be called in each transaction that takes arrivals, before the first.
    pub(super) fn look(&mut self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        // Whoever else wrote in spite of the lock may have taken ids, and numbers.
        let version = Some(version(transaction)?);
        if self.version != version || self.is_over(2) {
            self.index(transaction)?;
            self.last = self.last.max(last(transaction)?);
            self.version = version;
        }
        Ok(())
    }

    /// Whether an id is taken.
    pub(super) fn know(&self, id: &str, index: &mut CachedStatement<'_>) -> rusqlite::Result<bool> {
        Ok(self.recent.contains(id) || index.exists([id])?)
    }

    /// Takes an id, and answers the number of its delivery.
    pub(super) fn add(&mut self, id: &str) -> u64 {
        self.bytes = self.bytes.saturating_add(id.len());
        self.recent.insert(id.to_owned());
        self.last = self.last.saturating_add(1);
        self.last
    }

    /// Puts them into the index once there are many.
    pub(super) fn index_many(&mut self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        if self.is_over(1) { self.index(transaction) } else { Ok(()) }
    }

    /// Puts into the index what it does not have yet, in the order that it has, so that a page is changed once for all ids on it.
    pub(super) fn index(&mut self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        if self.version == Some(version(transaction)?) {
            // No row is read for it: one that can't be holds up nobody else.
            let mut recent: Vec<_> = self.recent.iter().collect();
            recent.sort_unstable();
            let mut insert = transaction.prepare_cached("INSERT OR IGNORE INTO inbox_ids VALUES (?1)")?;
            for id in recent {
                insert.execute([id])?;
            }
        } else {
            index_rows(transaction)?;
        }
        mark(transaction)?;
        self.recent.clear();
        self.bytes = 0;
        Ok(())
    }

    fn is_over(&self, times: usize) -> bool {
        self.recent.len() >= times * self.recent_max || self.bytes >= times * RECENT_BYTES_MAX
    }
}

/// The state of the file: another one with each commit of anybody else.
fn version(sql: &Connection) -> rusqlite::Result<i64> {
    sql.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}

/// Puts the ids of all rows into the index that it does not have yet.
fn index_rows(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    let missing = "INSERT OR IGNORE INTO inbox_ids
         SELECT id FROM received WHERE seq > (SELECT delivery FROM inbox_indexed)
         UNION ALL SELECT id FROM inbox_failed WHERE seq > (SELECT delivery FROM inbox_indexed)
         UNION ALL SELECT id FROM effects WHERE seq > (SELECT effect FROM inbox_indexed)
         ORDER BY id";
    transaction.prepare_cached(missing)?.execute([]).map(drop)
}

/// The question to the index.
pub(super) fn index<'a>(transaction: &'a Transaction<'_>) -> rusqlite::Result<CachedStatement<'a>> {
    transaction.prepare_cached("SELECT 1 FROM inbox_ids WHERE id = ?1")
}

/// Notes that the index has all ids that there are.
pub(super) fn mark(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    let mark = "UPDATE inbox_indexed SET effect = (SELECT ifnull(max(seq), 0) FROM effects),
         delivery = max((SELECT ifnull(max(seq), 0) FROM received), (SELECT ifnull(max(seq), 0) FROM inbox_failed))";
    transaction.prepare_cached(mark)?.execute([]).map(drop)
}

/// The highest number of a delivery that is in the file.
fn last(sql: &Connection) -> rusqlite::Result<u64> {
    sql.query_row("SELECT delivery FROM inbox_indexed", [], |row| row.get(0))
}
