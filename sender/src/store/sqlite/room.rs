//! Bounds: what is full, and who makes room.
//!
//! A lane that is full refuses, or gives up those longest due that nobody holds. When the whole store is full, the
//! lane with the most waiting pays, of those that shed: a quiet lane never pays for a loud one. Lanes that refuse are
//! never made to shed for others; their emitters wait.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Result, params};

use super::Work;
use super::claim::QUEUE;
use super::emit::Route;
use super::values::{int, size};
use crate::engine::{DeliveryId, LaneId};
use crate::store::command::{Emit, Reason, Shed};
use crate::store::lane::{Counts, WhenFull};
use crate::store::reply::{Bound, FullLane, Refusal, Reply};

/// So many of the fullest lanes are known at a time.
const PAYERS_MAX: usize = 8;

/// How often one commit looks for them.
const LOOKUPS_MAX: u32 = 4;

/// What one commit knows of who has room, and who makes some.
#[derive(Default)]
pub(super) struct Room {
    /// Lanes to make room in, if that had to be known.
    payers: Option<Payers>,
    /// Lanes that refused a row of the outbox, and why: no newer one is for them in this commit.
    outbox_refused: BTreeMap<LaneId, Bound>,
}

impl Room {
    /// Who can pay has changed.
    pub(super) fn forget_payers(&mut self) {
        self.payers = None;
    }
}

/// Who makes room when the whole store is full, as far as this commit knows.
#[derive(Default)]
struct Payers {
    lanes: BTreeSet<LaneId>,
    /// Everything that they have is handed out.
    spent: BTreeSet<LaneId>,
    looked_up: u32,
}

impl Payers {
    fn spend(&mut self, lane: LaneId) {
        self.lanes.remove(&lane);
        self.spent.insert(lane);
    }
}

/// How much waits.
#[derive(Clone, Copy)]
struct Waiting {
    rows: u64,
    bytes: u64,
}

impl Waiting {
    const fn of(counts: &Counts) -> Self {
        Self { rows: counts.waiting, bytes: counts.waiting_bytes }
    }

    const fn less(self, gone: Self) -> Self {
        Self { rows: self.rows.saturating_sub(gone.rows), bytes: self.bytes.saturating_sub(gone.bytes) }
    }

    /// One more delivery of so many bytes.
    const fn and(self, bytes: u64) -> Self {
        Self { rows: self.rows + 1, bytes: self.bytes + bytes }
    }
}

impl Work<'_> {
    /// Refuses the event for the lanes that would rather do that than shed, and have no room. Which these are.
    pub(super) fn refuse_where_full(&mut self, emit: &Emit, routes: &mut [Route]) -> Result<Vec<FullLane>> {
        let mut full = Vec::new();
        // What would wait in total, if of the lanes that may refuse those got theirs that don't: the others make room.
        let mut total = Waiting::of(&self.ledger.totals.counts);
        for (target, route) in emit.targets.iter().zip(routes) {
            let gone = match route {
                Route::Fresh => Waiting { rows: 0, bytes: 0 },
                Route::Replace(older) => Waiting { rows: 1, bytes: older.bytes },
                Route::Duplicate | Route::Absent | Route::Refused(_) => continue,
            };
            let Some(lane) = self.ledger.lane(self.sql, target.lane)? else { continue };
            if lane.bounds.when_full == WhenFull::ShedOldest {
                continue;
            }
            let body = size(emit.bodies[target.body].bytes.len());
            let before = Waiting::of(&lane.counts).less(gone);
            let older = self.room.outbox_refused.get(&target.lane).filter(|_| emit.outbox.is_some()).copied();
            let bound = lane.bounds.reached(before.rows, before.bytes, body).or(older);
            let with_it = total.less(gone).and(body);
            let total_bound = if gone.rows == 0 && with_it.rows > self.limits.waiting_rows_max {
                Some(Bound::TotalRows)
            } else if body > gone.bytes && with_it.bytes > self.limits.waiting_bytes_max {
                Some(Bound::TotalBytes)
            } else {
                None
            };
            if let Some(bound) = bound.or(total_bound) {
                full.push(FullLane { lane: target.lane, bound });
                if emit.outbox.is_some() && bound != Bound::BodyBytes {
                    self.room.outbox_refused.entry(target.lane).or_insert(bound);
                }
                *route = Route::Refused(bound);
            } else {
                total = with_it;
            }
        }
        Ok(full)
    }

    /// The bound of the whole store that so much more would break.
    fn total_reached(&self, rows: u64, bytes: u64) -> Option<Bound> {
        let counts = &self.ledger.totals.counts;
        if rows > 0 && counts.waiting + rows > self.limits.waiting_rows_max {
            return Some(Bound::TotalRows);
        }
        (bytes > 0 && counts.waiting_bytes + bytes > self.limits.waiting_bytes_max)
            .then_some(Bound::TotalBytes)
    }

    /// Makes room for one delivery; says whether there is any.
    pub(super) fn make_room(&mut self, lane: LaneId, bytes: u64, shed: &mut u64) -> Result<bool> {
        let Some(bounds) = self.ledger.lane(self.sql, lane)?.map(|lane| lane.bounds) else {
            return Ok(false);
        };
        // What could never fit must not drive out what does.
        if bounds.reached(0, 0, bytes).is_some() || bytes > self.limits.waiting_bytes_max {
            return Ok(false);
        }
        while self.lane_reached(lane, bytes)?.is_some() {
            if !self.shed_one(lane)? {
                return Ok(false);
            }
            *shed += 1;
        }
        while self.total_reached(1, bytes).is_some() {
            let Some(payer) = self.payer()? else { return Ok(false) };
            if self.shed_one(payer)? {
                *shed += 1;
            } else {
                self.room.payers.get_or_insert_default().spend(payer);
            }
        }
        Ok(true)
    }

    fn lane_reached(&mut self, lane: LaneId, bytes: u64) -> Result<Option<Bound>> {
        let lane = self.ledger.lane(self.sql, lane)?;
        Ok(lane.and_then(|lane| lane.bounds.reached(lane.counts.waiting, lane.counts.waiting_bytes, bytes)))
    }

    /// Whether one more delivery has room on a lane and in the store, without anybody's shedding.
    pub(super) fn has_room(&mut self, lane: LaneId, bytes: u64) -> Result<bool> {
        Ok(self.lane_reached(lane, bytes)?.is_none() && self.total_reached(1, bytes).is_none())
    }

    /// The lane that has the most waiting, of those that shed.
    fn payer(&mut self) -> Result<Option<LaneId>> {
        loop {
            let mut best: Option<(u64, LaneId)> = None;
            for lane in self.room.payers.get_or_insert_default().lanes.clone() {
                let waiting = self.ledger.lane(self.sql, lane)?.map_or(0, |lane| lane.counts.waiting);
                if waiting > 0 && best.is_none_or(|(most, _)| waiting > most) {
                    best = Some((waiting, lane));
                }
            }
            if let Some((_, lane)) = best {
                return Ok(Some(lane));
            }
            if !self.look_up_payers()? {
                return Ok(None);
            }
        }
    }

    /// Looks for the fullest lanes, a few times per commit at most: it is a scan of all lanes.
    fn look_up_payers(&mut self) -> Result<bool> {
        let payers = self.room.payers.get_or_insert_default();
        if payers.looked_up >= LOOKUPS_MAX {
            return Ok(false);
        }
        payers.looked_up += 1;
        // What this commit has counted so far must be seen.
        self.ledger.flush(self.sql, self.now)?;
        let mut query = self.sql.prepare_cached(
            "SELECT lane FROM lanes WHERE when_full = ?1 AND waiting > 0 ORDER BY waiting DESC, lane LIMIT ?2",
        )?;
        let enough = PAYERS_MAX + payers.spent.len();
        let found = query.query_map(params![WhenFull::ShedOldest, int(size(enough))], |row| row.get(0))?;
        payers.lanes = found.collect::<Result<_>>()?;
        payers.lanes.retain(|lane| !payers.spent.contains(lane));
        if payers.lanes.is_empty() {
            payers.looked_up = LOOKUPS_MAX;
        }
        Ok(!payers.lanes.is_empty())
    }

    /// Something was added to a lane: it may have to pay for what is added next.
    pub(super) fn may_pay(&mut self, lane: LaneId) -> Result<()> {
        let Some(payers) = &mut self.room.payers else { return Ok(()) };
        let sheds = self.ledger.lane(self.sql, lane)?;
        if sheds.is_some_and(|lane| lane.bounds.when_full == WhenFull::ShedOldest) {
            payers.spent.remove(&lane);
            if payers.lanes.len() < PAYERS_MAX {
                payers.lanes.insert(lane);
            }
        }
        Ok(())
    }

    /// Gives up the longest due of a lane that nobody holds.
    fn shed_one(&mut self, lane: LaneId) -> Result<bool> {
        Ok(self.shed_rows(lane, 1, Reason::Overflow)? > 0)
    }

    /// Gives up the longest due of a lane that nobody holds, so many at most.
    pub(super) fn shed_rows(&mut self, lane: LaneId, max: u32, reason: Reason) -> Result<u64> {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        let mut victims: Vec<DeliveryId> = Vec::new();
        {
            let mut queue = self.sql.prepare_cached(QUEUE)?;
            let mut rows = queue.query([lane])?;
            while victims.len() < max
                && let Some(row) = rows.next()?
            {
                let delivery = row.get(0)?;
                if !self.held.has(lane, delivery) {
                    victims.push(delivery);
                }
            }
        }
        for delivery in &victims {
            let (bytes, attempts) = self.weight(*delivery)?;
            self.bury(lane, *delivery, bytes, attempts, reason)?;
        }
        Ok(size(victims.len()))
    }

    pub(super) fn shed(&mut self, shed: Shed) -> Result<Reply> {
        if self.ledger.lane(self.sql, shed.lane)?.is_none() {
            return Ok(Reply::Refused(Refusal::UnknownLane(shed.lane)));
        }
        let rows = self.shed_rows(shed.lane, shed.max, Reason::Overflow)?;
        Ok(Reply::Dropped { rows, more: rows == u64::from(shed.max) })
    }
}
