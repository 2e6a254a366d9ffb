//! The rows of owners and nodes.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, Result, params};

use super::values::int;
use super::{Work, nodes};
use crate::command::Which;
use crate::commit::Rows;
use crate::commit::lease::{LeaseRows, Past};
use crate::engine::{LaneId, StoreTime};
use crate::lane::OwnerId;
use crate::node::{Announcement, Nodes};
use crate::reply::Record;

impl LeaseRows for Work<'_> {
    fn clock(&self) -> StoreTime {
        self.ledger.totals.clock
    }

    fn taken_seen(&mut self) -> &mut BTreeMap<OwnerId, u64> {
        self.taken_seen
    }

    fn find_free(&mut self, asking: OwnerId, which: &Which, max: Option<u32>) -> Result<Vec<LaneId>> {
        // The query must see this commit's changes.
        self.ledger.flush(self.sql, self.now)?;
        let (condition, after) = match which {
            Which::WithWork { after } => ("l.state = 0 AND l.waiting > 0", *after),
            Which::All | Which::These(_) => ("l.state <> 3", LaneId(0)),
        };
        let query = format!(
            "SELECT l.lane FROM lanes l LEFT JOIN owners o ON o.owner = l.owner
             WHERE (l.owner IS NULL OR (l.owner IS NOT ?1 AND coalesce(o.until, 0) <= ?2))
             AND {condition} AND l.lane > ?3 ORDER BY l.lane LIMIT ?4"
        );
        let max = max.map_or(i64::MAX, i64::from);
        self.sql
            .prepare_cached(&query)?
            .query_map(params![asking, self.ledger.totals.clock, after, max], |row| row.get(0))?
            .collect()
    }

    fn lives(&mut self, owner: OwnerId) -> Result<bool> {
        self.sql
            .prepare_cached("SELECT 1 FROM owners WHERE owner = ?1 AND until > ?2")?
            .exists(params![owner, self.ledger.totals.clock])
    }

    fn pasts(&mut self, lanes: &[LaneId]) -> Result<BTreeMap<LaneId, Past>> {
        // The query must see this commit's checkpoints.
        self.ledger.flush(self.sql, self.now)?;
        let mut read = self
            .sql
            .prepare_cached("SELECT record, record_at FROM lanes WHERE lane = ?1 AND record IS NOT NULL")?;
        let mut pasts = BTreeMap::new();
        for id in lanes {
            let record =
                read.query_row([id], |row| Ok(Record { bytes: row.get(0)?, at: row.get(1)? })).optional()?;
            let counts = self.lane(*id)?.is_some_and(|lane| lane.capped && lane.owner.is_some());
            let ended = match &record {
                Some(record) if counts => self.ended_since(*id, record.at)?,
                _ => Vec::new(),
            };
            pasts.insert(*id, Past { record, ended, next: self.head(*id)? });
        }
        Ok(pasts)
    }

    fn rob(&mut self, from: OwnerId) -> Result<()> {
        let query = "UPDATE owners SET taken = taken + 1 WHERE owner = ?1";
        self.sql.prepare_cached(query)?.execute([from]).map(drop)
    }

    fn taken(&mut self, owner: OwnerId) -> Result<Option<u64>> {
        self.sql
            .prepare_cached("SELECT taken FROM owners WHERE owner = ?1")?
            .query_row([owner], |row| row.get(0))
            .optional()
    }

    fn set_lease(&mut self, owner: OwnerId, until: StoreTime) -> Result<()> {
        // Also writes the clock that measures the lease.
        self.ledger.change();
        self.sql
            .prepare_cached(
                "INSERT INTO owners VALUES (?1, ?2, 0, 0) ON CONFLICT (owner) DO UPDATE SET until = ?2, evicted = 0",
            )?
            .execute(params![owner, until])
            .map(drop)
    }

    fn end_lease(&mut self, owner: OwnerId) -> Result<()> {
        self.sql
            .prepare_cached("UPDATE owners SET until = 0, evicted = 1 WHERE owner = ?1")?
            .execute([owner])
            .map(drop)
    }

    fn set_record(&mut self, lane: LaneId, record: Record) -> Result<()> {
        self.ledger.keep_record(self.sql, lane, record)
    }

    fn announcement(&mut self, owner: OwnerId) -> Result<Option<Announcement>> {
        nodes::announced(self.sql, owner)
    }

    fn set_announcement(&mut self, owner: OwnerId, announcement: Announcement, lives: bool) -> Result<()> {
        nodes::announce(self.sql, owner, announcement, (self.ledger.totals.clock, lives))
    }

    fn set_draining(&mut self, owner: OwnerId, draining: bool) -> Result<()> {
        self.sql
            .prepare_cached("UPDATE nodes SET draining = ?2 WHERE owner = ?1")?
            .execute(params![owner, draining])
            .map(drop)
    }

    fn delete_node(&mut self, owner: OwnerId) -> Result<bool> {
        Ok(self.sql.prepare_cached("DELETE FROM nodes WHERE owner = ?1")?.execute([owner])? > 0)
    }

    fn nodes_have_changed(&mut self) -> Result<()> {
        self.sql.prepare_cached("UPDATE membership SET changes = changes + 1")?.execute([]).map(drop)
    }

    fn nodes(&mut self) -> Result<Nodes> {
        nodes::nodes(self.sql, self.ledger.totals.clock)
    }
}

impl Work<'_> {
    pub(super) fn forget_owners(&self) -> Result<()> {
        self.sql
            .prepare_cached(
                "DELETE FROM owners WHERE until <= ?1 AND NOT EXISTS
                 (SELECT 1 FROM lanes WHERE lanes.owner = owners.owner)",
            )?
            .execute([int(self.ledger.totals.clock.0)])?;
        // Also nodes without an owner.
        self.sql
            .prepare_cached("DELETE FROM nodes WHERE owner NOT IN (SELECT owner FROM owners)")?
            .execute([])
            .map(drop)
    }
}
