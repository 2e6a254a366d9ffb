//! Who owns which lane.
//!
//! A lease belongs to an owner, for all its lanes at once; a lane names its owner. Whoever owns a lane has a term, and
//! every change of hands makes a new one. Leases are reckoned by the store's own clock, which is the latest time
//! that any process brought: one whose clock is behind cannot be robbed of what it has just renewed.

use rusqlite::{OptionalExtension, Result, params};

use super::values::int;
use super::{Work, nodes};
use crate::engine::{LaneId, Nanos, StoreTime, Term};
use crate::store::command::{Acquire, Persist, Renew, Which};
use crate::store::lane::OwnerId;
use crate::store::reply::{Handover, Record, Refusal, Renewed, Reply, TakenLane};

/// Lanes without a living owner; the conditions on the lane follow. What one owns oneself is not to be had again.
const FREE: &str = "SELECT l.lane FROM lanes l LEFT JOIN owners o ON o.owner = l.owner
    WHERE (l.owner IS NULL OR (l.owner IS NOT ?1 AND coalesce(o.until, 0) <= ?2))";

/// Whether a lane may be the owner's who asks for lanes.
fn belongs(acquire: &Acquire, lane: LaneId) -> bool {
    acquire.homes.as_ref().is_none_or(|homes| homes.is_home(lane, acquire.owner))
}

impl Work<'_> {
    pub(super) fn acquire(&mut self, acquire: &Acquire) -> Result<Reply> {
        let lanes = self.free_lanes(acquire)?;
        if lanes.is_empty() {
            return Ok(Reply::Acquired(Vec::new()));
        }
        let mut taken = Vec::with_capacity(lanes.len());
        for lane in lanes {
            if let Some(one) = self.take(acquire.owner, lane)? {
                taken.push(one);
            }
        }
        self.extend(acquire.owner, acquire.lease)?;
        Ok(Reply::Acquired(taken))
    }

    fn free_lanes(&mut self, acquire: &Acquire) -> Result<Vec<LaneId>> {
        // What this commit has counted and changed so far must be seen.
        self.ledger.flush(self.sql, self.now)?;
        let clock = self.ledger.totals.clock;
        let (condition, after) = match &acquire.which {
            Which::WithWork { after } => ("l.state = 0 AND l.waiting > 0", *after),
            Which::All => ("l.state <> 3", LaneId(0)),
            Which::These(lanes) => return self.free_of(acquire, lanes),
        };
        let query = format!("{FREE} AND {condition} AND l.lane > ?3 ORDER BY l.lane");
        let mut query = self.sql.prepare_cached(&query)?;
        let free = query.query_map(params![acquire.owner, clock, after], |row| row.get(0))?;
        let wanted = free.filter(|lane| !lane.as_ref().is_ok_and(|lane| !belongs(acquire, *lane)));
        wanted.take(usize::try_from(acquire.max).unwrap_or(usize::MAX)).collect()
    }

    fn free_of(&self, acquire: &Acquire, lanes: &[LaneId]) -> Result<Vec<LaneId>> {
        let clock = self.ledger.totals.clock;
        let query = format!("{FREE} AND l.lane = ?3 AND l.state <> 3");
        let mut query = self.sql.prepare_cached(&query)?;
        let mut free = Vec::new();
        for lane in lanes {
            if free.len() >= usize::try_from(acquire.max).unwrap_or(usize::MAX) {
                break;
            }
            let is_new = belongs(acquire, *lane) && !free.contains(lane);
            if is_new && query.exists(params![acquire.owner, clock, lane])? {
                free.push(*lane);
            }
        }
        Ok(free)
    }

    fn take(&mut self, owner: OwnerId, id: LaneId) -> Result<Option<TakenLane>> {
        let Some(lane) = self.ledger.lane(self.sql, id)? else { return Ok(None) };
        let (from, term, state, capped) = (lane.owner, Term(lane.term.0 + 1), lane.state, lane.capped);
        // Written by now, even if it was persisted in this commit: the lanes to be taken were looked up after that.
        let record = self.record(id)?;
        let handover = match (from, record) {
            (None, Some(record)) => Handover::Clean(record),
            (None, None) => Handover::Fresh,
            (Some(from), record) => self.seizure(from, id, record, capped)?,
        };
        self.ledger.amend(self.sql, id, |lane| {
            lane.owner = Some(owner);
            lane.term = term;
        })?;
        self.held.begin(id, owner, term);
        Ok(Some(TakenLane { lane: id, term, state, handover, next: self.head(id)? }))
    }

    fn seizure(&self, from: OwnerId, lane: LaneId, record: Option<Record>, capped: bool) -> Result<Handover> {
        let ended = match &record {
            Some(record) if capped => self.ended_since(lane, record.at)?,
            _ => Vec::new(),
        };
        self.rob(from)?;
        Ok(Handover::Seized { from, record, at: self.now, ended })
    }

    fn record(&self, lane: LaneId) -> Result<Option<Record>> {
        let query = "SELECT record, record_at FROM lanes WHERE lane = ?1 AND record IS NOT NULL";
        self.sql
            .prepare_cached(query)?
            .query_row([lane], |row| Ok(Record { bytes: row.get(0)?, at: row.get(1)? }))
            .optional()
    }

    /// Notes that a lane was taken from an owner, so that it learns of it.
    fn rob(&self, from: OwnerId) -> Result<()> {
        let query = "UPDATE owners SET taken = taken + 1 WHERE owner = ?1";
        self.sql.prepare_cached(query)?.execute([from]).map(drop)
    }

    /// Extends the lease of an owner: the number of lanes taken from it, unless it was not known at all.
    fn extend(&mut self, owner: OwnerId, lease: Nanos) -> Result<Option<u64>> {
        let totals = self.ledger.change();
        let until = StoreTime(totals.clock.0.saturating_add(lease.0));
        let known = self
            .sql
            .prepare_cached("UPDATE owners SET until = ?2, evicted = 0 WHERE owner = ?1 RETURNING taken")?
            .query_row(params![owner, until], |row| row.get(0))
            .optional()?;
        if known.is_none() {
            // It was forgotten, and with it how much was taken from it: the next renewal looks at every lane.
            self.taken_seen.remove(&owner);
            self.sql
                .prepare_cached("INSERT INTO owners VALUES (?1, ?2, 0, 0)")?
                .execute(params![owner, until])?;
        }
        Ok(known)
    }

    pub(super) fn renew(&mut self, renew: &Renew) -> Result<Reply> {
        if let Some(announcement) = &renew.announce {
            self.announce(renew.owner, announcement)?;
        }
        let taken = self.extend(renew.owner, renew.lease)?;
        let seen = self.taken_seen.insert(renew.owner, taken.unwrap_or(0));
        let mut lost = Vec::new();
        if taken.is_none() || seen != taken {
            for (lane, term) in self.held.of(renew.owner) {
                let current = self.ledger.lane(self.sql, lane)?;
                if current.is_none_or(|lane| lane.owner != Some(renew.owner) || lane.term != term) {
                    self.held.end(lane, term);
                    lost.push((lane, term));
                }
            }
        }
        let nodes = nodes::nodes(self.sql, self.ledger.totals.clock)?;
        Ok(Reply::Renewed(Renewed { lost, nodes }))
    }

    pub(super) fn evict(&mut self, owner: OwnerId) -> Result<Reply> {
        self.sql
            .prepare_cached("UPDATE owners SET until = 0, evicted = 1 WHERE owner = ?1")?
            .execute([owner])?;
        self.retire(owner)?;
        // Its lanes are free, whether it was a node or not.
        self.nodes_have_changed()?;
        Ok(Reply::Done)
    }

    pub(super) fn persist(&mut self, persist: &Persist) -> Result<Reply> {
        let (lane, term) = (persist.lane, persist.term);
        let Some(found) = self.ledger.lane(self.sql, lane)? else {
            return Ok(Reply::Refused(Refusal::UnknownLane(lane)));
        };
        let current = found.term;
        if current != term || found.owner.is_none() {
            self.held.end(lane, term);
            return Ok(Reply::Refused(Refusal::StaleTerm { lane, term, current }));
        }
        let record = Record { bytes: persist.record.clone(), at: self.now };
        self.ledger.keep_record(self.sql, lane, record)?;
        if persist.hand_back {
            self.held.end(lane, term);
            self.ledger.amend(self.sql, lane, |lane| lane.owner = None)?;
            self.nodes_have_changed()?;
        }
        Ok(Reply::Done)
    }

    /// Forgets owners whose leases have ended and who own nothing, and that they were nodes.
    pub(super) fn forget_owners(&self) -> Result<()> {
        self.sql
            .prepare_cached(
                "DELETE FROM owners WHERE until <= ?1 AND NOT EXISTS
                 (SELECT 1 FROM lanes WHERE lanes.owner = owners.owner)",
            )?
            .execute([int(self.ledger.totals.clock.0)])?;
        self.forget_nodes()
    }
}
