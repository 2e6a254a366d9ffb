//! The rows of lane owners.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio_postgres::{Error, Row};

use super::clock::server_clock;
use super::link::Link;
use super::values::{Count, int, size};
use super::{PostgresStore, Result, SPARED, Work};
use crate::Command;
use crate::command::LaneSelection;
use crate::commit::lease::{ENDS_MAX, LATE_MAX, RUNS_MAX};
use crate::commit::lease::{LeaseRows, Past};
use crate::engine::{LaneId, StoreTime};
use crate::lane::OwnerId;
use crate::node::{Announcement, Node, Nodes};
use crate::reply::{Ended, Record};

/// The end of an attempt, in the form of its index.
macro_rules! ended {
    () => {
        "a.at + least(a.latency, 9223372036854775807 - a.at)"
    };
}

/// Lanes not owned by these owners. The query scans all lanes, which is cheapest when the living owners are known.
const WITH_WORK: &str =
    "SELECT lane FROM lanes WHERE waiting > 0 AND state = 0 AND (owner IS NULL OR owner <> ALL($1)) AND lane > $2
    ORDER BY lane LIMIT $3";
const ALL: &str =
    "SELECT lane FROM lanes WHERE state <> 3 AND (owner IS NULL OR owner <> ALL($1)) ORDER BY lane LIMIT $2";

const HEADS: &str = "SELECT u.lane, d.at FROM unnest($1::int8[], $2::int8[]) u (lane, head)
    CROSS JOIN LATERAL (SELECT at FROM deliveries d WHERE d.lane = u.lane AND d.state = 0 AND d.at >= u.head
        ORDER BY d.at, d.delivery LIMIT 1) d";
const RECORDS: &str = "SELECT l.lane, l.record, l.record_at FROM unnest($1::int8[]) u (lane)
    CROSS JOIN LATERAL (SELECT lane, record, record_at FROM lanes l WHERE l.lane = u.lane AND l.record IS NOT NULL
        ORDER BY l.era DESC LIMIT 1) l";

/// Ends of a lane's last attempts since a given moment. Grouped into a limited number of runs, each with its last end
/// ([`crate::commit::lease::runs`]), because a lane may have had a million. An index on the end finds them.
const ENDED: &str = concat!(
    "SELECT lane, max(ended), count(*) FROM (
        SELECT lane, ended, (row_number() OVER (PARTITION BY lane ORDER BY ended) - 1)
            / ((count(*) OVER (PARTITION BY lane) + $4 - 1) / $4) AS run
        FROM (SELECT u.lane, a.ended FROM unnest($1::int8[], $2::int8[]) u (lane, since)
            CROSS JOIN LATERAL (SELECT ",
    ended!(),
    " AS ended FROM attempts a
                WHERE a.capped AND a.lane = u.lane AND ",
    ended!(),
    " >= u.since AND a.outcome <> 2
                ORDER BY ",
    ended!(),
    " DESC LIMIT $3) a) e) r
    GROUP BY lane, run ORDER BY lane, run"
);
/// Lanes per query, so that the server works on no statement for long. A checkpoint follows each 1,024 attempts.
const CAPPED_AT_ONCE: usize = 100;

/// Deletes owners without lanes and without a valid lease, at a given moment or by the server's clock.
const FORGET_OWNERS: &str = concat!(
    "WITH over AS (SELECT owner FROM owners o WHERE until <= coalesce($1, ",
    server_clock!(),
    ") AND NOT EXISTS (SELECT 1 FROM lanes l WHERE l.owner = o.owner) ORDER BY owner FOR UPDATE SKIP LOCKED),
    gone AS (DELETE FROM owners o USING over WHERE o.owner = over.owner RETURNING o.owner)
    DELETE FROM nodes n USING gone WHERE n.owner = gone.owner"
);

impl LeaseRows for Work<'_> {
    fn clock(&self) -> StoreTime {
        self.ledger.clock
    }

    fn find_free(&mut self, asking: OwnerId, which: &LaneSelection, max: Option<u32>) -> Result<Vec<LaneId>> {
        let taken = self.taken_for(asking)?;
        let max = max.map_or(i64::MAX, i64::from);
        let found = match which {
            // Nodes ask often. When nothing waits, no lane needs to be examined.
            LaneSelection::WithWork { .. } if self.ledger.totals().waiting == 0 => Vec::new(),
            LaneSelection::WithWork { after } => self.sql.query(WITH_WORK, &[&taken, after, &max])?,
            LaneSelection::All | LaneSelection::These(_) => self.sql.query(ALL, &[&taken, &max])?,
        };
        found.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    fn lives(&mut self, owner: OwnerId) -> Result<bool> {
        self.ledger.lives(owner)
    }

    fn pasts(&mut self, lanes: &[LaneId]) -> Result<BTreeMap<LaneId, Past>> {
        let heads = self.heads(lanes)?;
        // Includes checkpoints of this commit, which are written by now.
        let mut records = self.records(lanes)?;
        let mut ended = self.ended_since(&records)?;
        let past = |lane: &LaneId| {
            let ended = ended.remove(lane).unwrap_or_default();
            (*lane, Past { record: records.remove(lane), ended, next: heads.get(lane).copied() })
        };
        Ok(lanes.iter().map(past).collect())
    }

    fn rob(&mut self, from: OwnerId) -> Result<()> {
        self.ledger.amend_owner(from, |lease| lease.taken += 1)
    }

    fn lanes_taken(&mut self, owner: OwnerId) -> Result<Option<u64>> {
        Ok(self.ledger.owners()?.get(&owner).map(|lease| lease.taken))
    }

    fn set_lease(&mut self, owner: OwnerId, until: StoreTime) -> Result<()> {
        self.ledger.set_lease(owner, until)
    }

    fn end_lease(&mut self, owner: OwnerId) -> Result<()> {
        self.ledger.amend_owner(owner, |lease| {
            lease.until = StoreTime(0);
            lease.evicted = true;
        })
    }

    fn set_record(&mut self, lane: LaneId, record: Record) -> Result<()> {
        self.ledger.set_record(lane, record)
    }

    fn announcement(&mut self, owner: OwnerId) -> Result<Option<Announcement>> {
        announced(self.sql, owner)
    }

    fn set_announcement(&mut self, owner: OwnerId, announcement: Announcement, lives: bool) -> Result<()> {
        announce(self.sql, owner, &announcement, (self.ledger.clock, lives))
    }

    fn set_draining(&mut self, owner: OwnerId, draining: bool) -> Result<()> {
        self.sql.execute("UPDATE nodes SET draining = $2 WHERE owner = $1", &[&owner, &draining])?;
        Ok(())
    }

    fn delete_node(&mut self, owner: OwnerId) -> Result<bool> {
        Ok(self.sql.execute("DELETE FROM nodes WHERE owner = $1", &[&owner])? > 0)
    }

    fn nodes_have_changed(&mut self) -> Result<()> {
        self.ledger.nodes_have_changed()
    }

    fn nodes(&mut self) -> Result<Nodes> {
        self.flush()?;
        Ok(nodes(self.sql, self.ledger.clock)?)
    }
}

impl Work<'_> {
    /// `asking` cannot take the lanes of these owners: itself, and the living ones.
    fn taken_for(&mut self, asking: OwnerId) -> Result<Vec<OwnerId>> {
        let over = self.ledger.leases_over();
        let living = self.ledger.owners()?.iter().filter(|(_, lease)| lease.until > over);
        Ok(living.map(|(owner, _)| *owner).chain([asking]).collect())
    }

    /// Claimed deliveries count too. Omits empty lanes.
    fn heads(&self, lanes: &[LaneId]) -> Result<BTreeMap<LaneId, StoreTime>> {
        let from = lanes.iter().map(|lane| self.ledger.head(*lane)).collect::<Result<Vec<_>>>()?;
        let found = self.sql.query(HEADS, &[&lanes, &from])?;
        found.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }

    fn records(&self, lanes: &[LaneId]) -> Result<BTreeMap<LaneId, Record>> {
        let mut records = BTreeMap::new();
        for row in self.sql.query(RECORDS, &[&lanes])? {
            let record = Record { bytes: row.try_get::<_, &[u8]>(1)?.into(), at: row.try_get(2)? };
            records.insert(row.try_get(0)?, record);
        }
        Ok(records)
    }

    /// Attempts that ended since the checkpoint on seized lanes with window caps. With two time scales in use, each
    /// end is reported in the later one. A checkpoint from the future came from a clock that was ahead, so all
    /// attempts count.
    fn ended_since(&self, records: &BTreeMap<LaneId, Record>) -> Result<BTreeMap<LaneId, Vec<Ended>>> {
        let grace = self.ledger.grace(self.now);
        let (mut since_then, mut ever) = (Vec::new(), Vec::new());
        for (lane, record) in records {
            if self.ledger.lane(*lane)?.is_none_or(|lane| !lane.capped || lane.owner.is_none()) {
                continue;
            }
            if record.at > self.now {
                ever.push((*lane, StoreTime(0)));
            } else {
                since_then.push((*lane, StoreTime(record.at.0.saturating_sub(LATE_MAX.0 + grace.0))));
            }
        }
        let mut ended: BTreeMap<LaneId, Vec<Ended>> = BTreeMap::new();
        // Without a start time, a lane may have too many attempts for a shared statement.
        for lanes in since_then.chunks(CAPPED_AT_ONCE).chain(ever.chunks(1)) {
            let (lanes, since): (Vec<LaneId>, Vec<StoreTime>) = lanes.iter().copied().unzip();
            for row in self.sql.query(ENDED, &[&lanes, &since, &i64::from(ENDS_MAX), &int(size(RUNS_MAX))])? {
                let at = row.try_get::<_, StoreTime>(1)?;
                let at = StoreTime(at.0.saturating_add(grace.0)).min(self.now);
                let count = u32::try_from(row.try_get::<_, i64>(2)?).unwrap_or(u32::MAX);
                ended.entry(row.try_get(0)?).or_default().push(Ended { at, count });
            }
        }
        Ok(ended)
    }
}

impl PostgresStore {
    pub(super) fn spares(&self, now: StoreTime) -> bool {
        self.connected.is_some_and(|since| now.0 < since.0.saturating_add(SPARED.0))
    }

    /// After a sweep, deletes owners without lanes and without a valid lease, and their nodes. In a separate
    /// transaction that skips locked rows, because other processes need these locks to renew.
    pub(super) fn forget_owners_after(&self, now: StoreTime, commands: &[Command]) {
        let sweeps = commands.iter().any(|command| matches!(command, Command::Sweep(_)));
        let Some(sql) = self.link.as_ref().filter(|_| sweeps) else { return };
        let over = match (self.spares(now), self.by_server_clock) {
            (true, _) => Some(StoreTime(0)),
            (false, true) => None,
            (false, false) => Some(now),
        };
        if let Err(error) = sql.execute(FORGET_OWNERS, &[&over]) {
            tracing::debug!(%error, "owners with expired leases were not deleted; the next sweep tries again");
        }
    }
}

// The rows of nodes: announcements and draining. A node changes under the lock of the owners, so a row that was read
// stays valid until the commit ends.

const ONE: &str = "SELECT name, version, address, unable, draining FROM nodes WHERE owner = $1";
/// Without nodes, one row without an owner.
const NODES: &str = concat!(
    "SELECT n.name, n.version, n.address, n.unable, n.draining, n.owner, n.since, coalesce(o.until, 0), s.nodes,
     (SELECT max(clock) FROM newest_totals), ",
    server_clock!(),
    " FROM state s LEFT JOIN nodes n ON true LEFT JOIN owners o ON o.owner = n.owner"
);
const ANNOUNCE: &str = "INSERT INTO nodes VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT (owner) DO UPDATE SET name = $2, version = $3, address = $4, unable = $5,
    since = CASE WHEN $8 THEN nodes.since ELSE $7 END";

pub(super) fn announced(sql: &Link, owner: OwnerId) -> Result<Option<Announcement>> {
    Ok(sql.first(ONE, &[&owner])?.as_ref().map(announcement).transpose()?)
}

/// A living node keeps its start time.
pub(super) fn announce(
    sql: &Link,
    owner: OwnerId,
    announcement: &Announcement,
    (clock, lives): (StoreTime, bool),
) -> Result<()> {
    let Announcement { name, version, address, unable, draining } = announcement;
    let unable: Vec<LaneId> = unable.iter().copied().collect();
    let (name, version, address) = (&**name, &**version, address.as_deref());
    sql.execute(ANNOUNCE, &[&owner, &name, &version, &address, &unable, draining, &clock, &lives])?;
    Ok(())
}

/// All nodes, as of `now` or the latest commit, if that is later.
pub(super) fn nodes(sql: &Link, now: StoreTime) -> std::result::Result<Nodes, Error> {
    let mut nodes = Nodes { at: now, ..Nodes::default() };
    for row in sql.query(NODES, &[])? {
        nodes.changes = row.try_get::<_, Count>(8)?.0;
        nodes.at = nodes.at.max(row.try_get::<_, Option<_>>(9)?.unwrap_or_default());
        nodes.server_clock = Some(row.try_get(10)?);
        if let Some(owner) = row.try_get(5)? {
            let (announced, since, until) = (announcement(&row)?, row.try_get(6)?, row.try_get(7)?);
            nodes.all.push(Node { owner, announced, since, until });
        }
    }
    // The database treats the largest numbers as negative.
    nodes.all.sort_unstable_by_key(|node| node.owner);
    Ok(nodes)
}

fn announcement(row: &Row) -> std::result::Result<Announcement, Error> {
    Ok(Announcement {
        name: row.try_get::<_, &str>(0)?.into(),
        version: row.try_get::<_, &str>(1)?.into(),
        address: row.try_get::<_, Option<&str>>(2)?.map(Into::into),
        unable: Arc::new(row.try_get::<_, Vec<LaneId>>(3)?.into_iter().collect()),
        draining: row.try_get(4)?,
    })
}
