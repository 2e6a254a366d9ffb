//! Who owns which lane. A lease belongs to an owner, for all its lanes at once; a lane names its owner, and every change of
//! hands makes a new term. Leases are reckoned by the database's clock.

use std::collections::BTreeSet;

use super::claim::head;
use super::values::{int, size};
use super::{Result, Work, nodes};
use crate::engine::{LaneId, Nanos, StoreTime, Term};
use crate::store::command::{Acquire, Persist, Renew, Which};
use crate::store::ended::{ENDS_MAX, MARGIN, runs};
use crate::store::lane::{LaneState, OwnerId};
use crate::store::reply::{Ended, Handover, Record, Refusal, Renewed, Reply, TakenLane};

/// Lanes that are none of these owners'. All lanes are looked at: whose each one is costs least where the owners are known.
const WITH_WORK: &str =
    "SELECT lane FROM lanes WHERE waiting > 0 AND state = 0 AND (owner IS NULL OR owner <> ALL($1)) AND lane > $2
    ORDER BY lane LIMIT $3";
const ALL: &str =
    "SELECT lane FROM lanes WHERE state <> 3 AND (owner IS NULL OR owner <> ALL($1)) ORDER BY lane LIMIT $2";

/// Whether a lane may be the owner's who asks for lanes.
fn belongs(acquire: &Acquire, lane: LaneId) -> bool {
    acquire.homes.as_ref().is_none_or(|homes| homes.is_home(lane, acquire.owner))
}

impl Work<'_> {
    pub(super) fn acquire(&mut self, acquire: &Acquire) -> Result<Reply> {
        let lanes = self.free_lanes(acquire)?;
        // Between the look and the lock another owner may have taken some.
        self.ledger.need(lanes.iter().copied())?;
        if lanes.is_empty() {
            return Ok(Reply::Acquired(Vec::new()));
        }
        let mut taken = Vec::with_capacity(lanes.len());
        for lane in lanes {
            if self.is_free(acquire.owner, lane)?
                && let Some(one) = self.take(acquire.owner, lane)?
            {
                taken.push(one);
            }
        }
        self.extend(acquire.owner, acquire.lease)?;
        Ok(Reply::Acquired(taken))
    }

    fn free_lanes(&mut self, acquire: &Acquire) -> Result<Vec<LaneId>> {
        let taken = self.taken_for(acquire.owner)?;
        // Whose a lane is, the database does not know: all that are free are read where it counts.
        let max = if acquire.homes.is_none() { i64::from(acquire.max) } else { i64::MAX };
        let found = match &acquire.which {
            // Nodes ask again and again, also where nothing waits for anybody: then no lane has to be looked at.
            Which::WithWork { .. } if self.ledger.totals().waiting == 0 => Vec::new(),
            Which::WithWork { after } => self.sql.query(WITH_WORK, &[&taken, after, &max])?,
            Which::All => self.sql.query(ALL, &[&taken, &max])?,
            Which::These(lanes) => return self.free_of(acquire, lanes),
        };
        let free = found.iter().map(|row| row.try_get(0)).collect::<std::result::Result<Vec<_>, _>>()?;
        let wanted = free.into_iter().filter(|lane| belongs(acquire, *lane));
        Ok(wanted.take(usize::try_from(acquire.max).unwrap_or(usize::MAX)).collect())
    }

    /// The owners whose lanes are not to be had for one of them: itself, and those that live.
    fn taken_for(&mut self, asking: OwnerId) -> Result<Vec<OwnerId>> {
        let over = self.ledger.leases_over();
        let living = self.ledger.owners()?.iter().filter(|(_, lease)| lease.until > over);
        Ok(living.map(|(owner, _)| *owner).chain([asking]).collect())
    }

    fn free_of(&mut self, acquire: &Acquire, lanes: &[LaneId]) -> Result<Vec<LaneId>> {
        self.ledger.need(lanes.iter().copied())?;
        let mut free = Vec::new();
        for lane in lanes {
            if size(free.len()) >= u64::from(acquire.max) {
                break;
            }
            let is_new = belongs(acquire, *lane) && !free.contains(lane);
            if is_new && self.is_free(acquire.owner, *lane)? {
                free.push(*lane);
            }
        }
        Ok(free)
    }

    fn is_free(&mut self, asking: OwnerId, lane: LaneId) -> Result<bool> {
        let found = self.ledger.lane(lane)?.map(|lane| (lane.state, lane.owner));
        Ok(match found {
            None | Some((LaneState::Removed, _)) => false,
            Some((_, None)) => true,
            Some((_, Some(owner))) => owner != asking && !self.ledger.lives(owner)?,
        })
    }

    fn take(&mut self, owner: OwnerId, id: LaneId) -> Result<Option<TakenLane>> {
        let Some(lane) = self.ledger.lane(id)? else { return Ok(None) };
        let (from, term, state, capped) = (lane.owner, Term(lane.term.0 + 1), lane.state, lane.capped);
        let next = head(self.sql, (id, &lane.signs))?;
        // Written by now, even if it was persisted in this commit.
        let record = self.record_of(id)?;
        let handover = match (from, record) {
            (None, Some(record)) => Handover::Clean(record),
            (None, None) => Handover::Fresh,
            (Some(from), record) => self.seizure(from, id, record, capped)?,
        };
        self.ledger.amend(id, |lane| {
            lane.owner = Some(owner);
            lane.term = term;
        })?;
        self.held.begin(id, owner, term);
        Ok(Some(TakenLane { lane: id, term, state, handover, next }))
    }

    fn seizure(
        &mut self,
        from: OwnerId,
        lane: LaneId,
        record: Option<Record>,
        capped: bool,
    ) -> Result<Handover> {
        let ended = match &record {
            Some(record) if capped => self.ended_since(lane, record.at)?,
            _ => Vec::new(),
        };
        // It is noted, so that the robbed learns of it.
        self.ledger.amend_owner(from, |lease| lease.taken += 1)?;
        Ok(Handover::Seized { from, record, at: self.now, ended })
    }

    /// What ended on a lane since a moment, and up to [`MARGIN`] before.
    fn ended_since(&self, lane: LaneId, record_at: StoreTime) -> Result<Vec<Ended>> {
        let since = StoreTime(record_at.0.saturating_sub(MARGIN.0));
        let query =
            "SELECT at + latency FROM attempts WHERE capped AND lane = $1 AND at >= $2 AND outcome <> 2
            ORDER BY at DESC LIMIT $3";
        let found = self.sql.query(query, &[&lane, &since, &i64::from(ENDS_MAX)])?;
        let ends =
            found.iter().map(|row| row.try_get(0)).collect::<std::result::Result<Vec<StoreTime>, _>>()?;
        Ok(runs(ends, self.now))
    }

    fn record_of(&self, lane: LaneId) -> Result<Option<Record>> {
        let query = "SELECT record, record_at FROM lanes WHERE lane = $1 AND record IS NOT NULL ORDER BY era DESC LIMIT 1";
        let Some(row) = self.sql.first(query, &[&lane])? else { return Ok(None) };
        Ok(Some(Record { bytes: row.try_get::<_, &[u8]>(0)?.into(), at: row.try_get(1)? }))
    }

    /// Extends the lease of an owner: the number of lanes taken from it, unless it was not known at all.
    fn extend(&mut self, owner: OwnerId, lease: Nanos) -> Result<Option<u64>> {
        let until = StoreTime(self.ledger.clock.0.saturating_add(lease.0));
        let known = self.ledger.amend_owner(owner, |lease| {
            lease.until = until;
            lease.evicted = false;
        })?;
        if known.is_none() {
            // It was forgotten, and with it how much was taken from it: the next renewal looks at every lane.
            self.noted.taken_seen.remove(&owner);
            self.ledger.new_owner(owner, until)?;
        }
        Ok(known.map(|lease| lease.taken))
    }

    pub(super) fn renew(&mut self, renew: &Renew) -> Result<Reply> {
        let known = self.ledger.owners()?.get(&renew.owner).map(|lease| lease.taken);
        let seen = self.noted.taken_seen.get(&renew.owner).copied();
        let look = known.is_none() || seen != known;
        let held = if look { self.held.of(renew.owner) } else { Vec::new() };
        self.ledger.need(held.iter().map(|(lane, _)| *lane))?;
        if let Some(announcement) = &renew.announce {
            self.announce(renew.owner, announcement)?;
        }
        let taken = self.extend(renew.owner, renew.lease)?;
        self.noted.taken_seen.insert(renew.owner, taken.unwrap_or(0));
        let mut lost = Vec::new();
        for (lane, term) in held {
            let current = self.ledger.lane(lane)?;
            if current.is_none_or(|lane| lane.owner != Some(renew.owner) || lane.term != term) {
                self.held.end(lane, term);
                lost.push((lane, term));
            }
        }
        self.flush()?;
        let nodes = nodes::nodes(self.sql, self.ledger.clock)?;
        Ok(Reply::Renewed(Renewed { lost, nodes }))
    }

    pub(super) fn evict(&mut self, owner: OwnerId) -> Result<Reply> {
        self.ledger.amend_owner(owner, |lease| {
            lease.until = StoreTime(0);
            lease.evicted = true;
        })?;
        self.retire(owner)?;
        // Its lanes are free, whether it was a node or not.
        self.ledger.nodes_have_changed()?;
        Ok(Reply::Done)
    }

    pub(super) fn persist(&mut self, persist: &Persist) -> Result<Reply> {
        let (lane, term) = (persist.lane, persist.term);
        let Some(found) = self.ledger.lane(lane)? else {
            return Ok(Reply::Refused(Refusal::UnknownLane(lane)));
        };
        let current = found.term;
        if current != term || found.owner.is_none() {
            self.held.end(lane, term);
            return Ok(Reply::Refused(Refusal::StaleTerm { lane, term, current }));
        }
        let record = Record { bytes: persist.record.clone(), at: self.now };
        self.ledger.amend(lane, |lane| {
            lane.record = Some(record);
            if persist.hand_back {
                lane.owner = None;
            }
        })?;
        if persist.hand_back {
            self.held.end(lane, term);
            self.ledger.nodes_have_changed()?;
        }
        Ok(Reply::Done)
    }

    /// Forgets owners whose leases have ended and who own nothing, and that they were nodes.
    pub(super) fn forget_owners(&mut self) -> Result<()> {
        let ended = self.ledger.leases_over();
        let over: BTreeSet<OwnerId> = self
            .ledger
            .owners()?
            .iter()
            .filter(|(_, lease)| lease.until <= ended)
            .map(|(owner, _)| *owner)
            .collect();
        if over.is_empty() {
            return Ok(());
        }
        let over: Vec<OwnerId> = over.into_iter().collect();
        let delete = "DELETE FROM owners o WHERE owner = ANY($1) AND until <= $2
            AND NOT EXISTS (SELECT 1 FROM lanes l WHERE l.owner = o.owner) RETURNING owner";
        let mut gone: Vec<OwnerId> = Vec::new();
        for row in self.sql.delete(delete, &[&over, &int(ended.0)])? {
            gone.push(row.try_get(0)?);
        }
        for owner in &gone {
            self.ledger.owners()?.remove(owner);
        }
        self.forget_nodes(&gone)
    }
}
