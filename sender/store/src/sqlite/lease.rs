use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rusqlite::types::Type;
use rusqlite::{Connection, Error, OptionalExtension, Result, Row, params};

use super::Work;
use super::values::int;
use crate::command::LaneSelection;
use crate::commit::Rows;
use crate::commit::lease::{ENDS_MAX, MARGIN, runs};
use crate::commit::lease::{LeaseRows, Past};
use crate::engine::{LaneId, StoreTime};
use crate::lane::OwnerId;
use crate::node::{Announcement, Node, Nodes};
use crate::reply::{Ended, Record};

impl LeaseRows for Work<'_> {
    fn clock(&self) -> StoreTime {
        self.ledger.totals.clock
    }

    fn find_free(&mut self, asking: OwnerId, which: &LaneSelection, max: Option<u32>) -> Result<Vec<LaneId>> {
        self.ledger.flush(self.sql, self.now)?;
        let (condition, after) = match which {
            LaneSelection::WithWork { after } => ("l.state = 0 AND l.waiting > 0", *after),
            LaneSelection::All | LaneSelection::These(_) => ("l.state <> 3", LaneId(0)),
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

    fn lanes_taken(&mut self, owner: OwnerId) -> Result<Option<u64>> {
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
        self.ledger.set_record(self.sql, lane, record)
    }

    fn announcement(&mut self, owner: OwnerId) -> Result<Option<Announcement>> {
        announced(self.sql, owner)
    }

    fn set_announcement(&mut self, owner: OwnerId, announcement: Announcement, lives: bool) -> Result<()> {
        announce(self.sql, owner, announcement, (self.ledger.totals.clock, lives))
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
        nodes(self.sql, self.ledger.totals.clock)
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

// Window caps are the only setting that the store reads. Attempts of such lanes have an index of their own, so that
// other lanes pay nothing.

/// Whether an old attempt still counts for a cap. `?3` is the start of the longest window.
pub(super) const STILL_COUNTS: &str = "(a.capped IS NOT NULL AND a.at >= ?3 AND a.at >= coalesce(
    (SELECT l.record_at FROM lanes l WHERE l.lane = a.lane), 9223372036854775807) - ?4)";

impl Work<'_> {
    /// Ends of attempts since [`MARGIN`] before the checkpoint. Grouped into runs, each with its last end.
    pub(super) fn ended_since(&self, lane: LaneId, record_at: StoreTime) -> Result<Vec<Ended>> {
        // A checkpoint from the future came from a clock that was ahead, so all attempts count.
        let since = if record_at > self.now { 0 } else { record_at.0.saturating_sub(MARGIN.0) };
        let ends: Vec<StoreTime> = self
            .sql
            .prepare_cached(
                "SELECT at + latency FROM attempts INDEXED BY attempts_capped
                 WHERE capped = 1 AND lane = ?1 AND at >= ?2 AND outcome <> 2 ORDER BY at DESC LIMIT ?3",
            )?
            .query_map(params![lane, StoreTime(since), ENDS_MAX], |row| row.get(0))?
            .collect::<Result<_>>()?;
        Ok(runs(ends, self.now))
    }
}

const ANNOUNCED: &str = "n.name, n.version, n.address, n.unable, n.draining";

/// An invalid row counts as none.
pub(super) fn announced(sql: &Connection, owner: OwnerId) -> Result<Option<Announcement>> {
    let query = format!("SELECT {ANNOUNCED} FROM nodes n WHERE n.owner = ?1");
    let found = sql.prepare_cached(&query)?.query_row([owner], |row| Ok(readable(announcement(row))));
    found.optional()?.flatten().transpose()
}

/// A living node keeps its start time.
pub(super) fn announce(
    sql: &Connection,
    owner: OwnerId,
    announcement: Announcement,
    (clock, lives): (StoreTime, bool),
) -> Result<()> {
    let Announcement { name, version, address, unable, draining } = announcement;
    let unable: Vec<String> = unable.iter().map(|lane| lane.0.to_string()).collect();
    sql.prepare_cached(
        "INSERT INTO nodes VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (owner) DO UPDATE SET name = ?2, version = ?3, address = ?4, unable = ?5,
         since = iif(?8, since, ?7)",
    )?
    .execute(params![owner, name, version, address, unable.join(","), draining, clock, lives])
    .map(drop)
}

pub(super) fn nodes(sql: &Connection, at: StoreTime) -> Result<Nodes> {
    let changes = sql.prepare_cached("SELECT changes FROM membership")?.query_row([], |row| row.get(0))?;
    let query = format!(
        "SELECT {ANNOUNCED}, n.owner, n.since, coalesce(o.until, 0) FROM nodes n LEFT JOIN owners o ON o.owner = n.owner"
    );
    let mut query = sql.prepare_cached(&query)?;
    let node = |row: &Row<'_>| {
        let (owner, since, until): (OwnerId, StoreTime, StoreTime) = (row.get(5)?, row.get(6)?, row.get(7)?);
        Ok(Node { owner, announced: announcement(row)?, since, until })
    };
    let mut all: Vec<Node> = query.query_map([], node)?.filter_map(readable).collect::<Result<_>>()?;
    all.sort_unstable_by_key(|node| node.owner);
    Ok(Nodes { all, changes, at, server_clock: None })
}

/// Skips an invalid row, which must not affect other nodes.
fn readable<T>(read: Result<T>) -> Option<Result<T>> {
    match read {
        Err(
            Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::InvalidColumnType(..),
        ) => None,
        read => Some(read),
    }
}

fn announcement(row: &Row<'_>) -> Result<Announcement> {
    Ok(Announcement {
        name: row.get(0)?,
        version: row.get(1)?,
        address: row.get(2)?,
        unable: Arc::new(lanes(&row.get::<_, String>(3)?)?),
        draining: row.get(4)?,
    })
}

fn lanes(text: &str) -> Result<BTreeSet<LaneId>> {
    let lane = |number: &str| {
        let number = number.parse().map_err(|error| {
            Error::FromSqlConversionFailure(3, Type::Text, Box::<std::num::ParseIntError>::new(error))
        })?;
        Ok(LaneId(number))
    };
    text.split(',').filter(|number| !number.is_empty()).map(lane).collect()
}
