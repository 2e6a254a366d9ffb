//! The known ids. Most fall on an index page of their own, so the latest stay in memory until many go into the index
//! at once.

use std::collections::HashSet;

use rusqlite::{CachedStatement, Connection, Transaction};

/// Outside of the index. Commits of arrivals, which callers wait for, may double both.
const RECENT_MAX: usize = 8_192;
const RECENT_BYTES_MAX: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Ids {
    recent: HashSet<String>,
    bytes: usize,
    recent_max: usize,
    /// The version of the file that the ids match, if known.
    pub(super) version: Option<i64>,
    last: u64,
}

impl Default for Ids {
    fn default() -> Self {
        Self::of(RECENT_MAX)
    }
}

impl Ids {
    pub(super) fn of(recent_max: usize) -> Self {
        Self { recent: HashSet::new(), bytes: 0, recent_max, version: None, last: 0 }
    }

    /// Ids that are not put back are read from the file again.
    pub(super) fn take(&mut self) -> Self {
        let unsure = Self { last: self.last, ..Self::of(self.recent_max) };
        std::mem::replace(self, unsure)
    }

    /// Call it before a transaction's first arrival.
    pub(super) fn refresh(&mut self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        // Another writer may have ignored the lock.
        let version = Some(version(transaction)?);
        if self.version != version || self.is_over(2) {
            self.index(transaction)?;
            self.last = self.last.max(last(transaction)?);
            self.version = version;
        }
        Ok(())
    }

    pub(super) fn know(&self, id: &str, index: &mut CachedStatement<'_>) -> rusqlite::Result<bool> {
        Ok(self.recent.contains(id) || index.exists([id])?)
    }

    /// Returns the delivery's number.
    pub(super) fn add(&mut self, id: &str) -> u64 {
        self.bytes = self.bytes.saturating_add(id.len());
        self.recent.insert(id.to_owned());
        self.last = self.last.saturating_add(1);
        self.last
    }

    pub(super) fn index_many(&mut self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        if self.is_over(1) { self.index(transaction) } else { Ok(()) }
    }

    /// Adds the missing ids in index order, so that each page changes only once.
    pub(super) fn index(&mut self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        if self.version == Some(version(transaction)?) {
            // Reads no rows, so that an unreadable one does not block others.
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

/// Changes with each commit of another connection.
fn version(sql: &Connection) -> rusqlite::Result<i64> {
    sql.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}

fn index_rows(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    let missing = "INSERT OR IGNORE INTO inbox_ids
         SELECT id FROM received WHERE seq > (SELECT delivery FROM inbox_indexed)
         UNION ALL SELECT id FROM inbox_failed WHERE seq > (SELECT delivery FROM inbox_indexed)
         UNION ALL SELECT id FROM effects WHERE seq > (SELECT effect FROM inbox_indexed)
         ORDER BY id";
    transaction.prepare_cached(missing)?.execute([]).map(drop)
}

pub(super) fn index<'a>(transaction: &'a Transaction<'_>) -> rusqlite::Result<CachedStatement<'a>> {
    transaction.prepare_cached("SELECT 1 FROM inbox_ids WHERE id = ?1")
}

pub(super) fn mark(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    let mark = "UPDATE inbox_indexed SET effect = (SELECT ifnull(max(seq), 0) FROM effects),
         delivery = max((SELECT ifnull(max(seq), 0) FROM received), (SELECT ifnull(max(seq), 0) FROM inbox_failed))";
    transaction.prepare_cached(mark)?.execute([]).map(drop)
}

fn last(sql: &Connection) -> rusqlite::Result<u64> {
    sql.query_row("SELECT delivery FROM inbox_indexed", [], |row| row.get(0))
}
