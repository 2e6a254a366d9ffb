//! Bounds: what is full, and who makes room. A lane that is full refuses, or gives up those longest due that nobody holds;
//! when the whole store is full, the lane with the most waiting pays, of those that shed.

use std::collections::{BTreeMap, BTreeSet};

use super::emit::Route;
use super::values::{Count, int, size};
use super::{Result, Work};
use crate::engine::{DeliveryId, LaneId};
use crate::store::command::{Emit, Reason, Shed};
use crate::store::lane::WhenFull;
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

impl Work<'_> {
    /// Refuses the event for the lanes that would rather do that than shed, and have no room. Which these are.
    pub(super) fn refuse_where_full(&mut self, emit: &Emit, routes: &mut [Route]) -> Result<Vec<FullLane>> {
        let mut full = Vec::new();
        // What would wait in total, if of the lanes that may refuse those got theirs that don't: the others make room.
        let (mut rows, mut bytes) = (self.ledger.totals().waiting, self.ledger.totals().waiting_bytes);
        for (target, route) in emit.targets.iter().zip(routes) {
            let (gone_rows, gone_bytes) = match route {
                Route::Fresh => (0, 0),
                Route::Replace(older) => (1, older.bytes),
                Route::Duplicate | Route::Absent | Route::Refused(_) => continue,
            };
            let Some(lane) = self.ledger.lane(target.lane)? else { continue };
            if lane.bounds.when_full == WhenFull::ShedOldest {
                continue;
            }
            let body = size(emit.bodies[target.body].bytes.len());
            let waiting = lane.counts.waiting.saturating_sub(gone_rows);
            let waiting_bytes = lane.counts.waiting_bytes.saturating_sub(gone_bytes);
            let older = self.room.outbox_refused.get(&target.lane).filter(|_| emit.outbox.is_some()).copied();
            let bound = lane.bounds.reached(waiting, waiting_bytes, body).or(older);
            let rows_with_it = rows.saturating_sub(gone_rows) + 1;
            let bytes_with_it = bytes.saturating_sub(gone_bytes) + body;
            let total_bound = if gone_rows == 0 && rows_with_it > self.limits.waiting_rows_max {
                Some(Bound::TotalRows)
            } else if body > gone_bytes && bytes_with_it > self.limits.waiting_bytes_max {
                Some(Bound::TotalBytes)
            } else {
                None
            };
            let Some(bound) = bound.or(total_bound) else {
                (rows, bytes) = (rows_with_it, bytes_with_it);
                continue;
            };
            full.push(FullLane { lane: target.lane, bound });
            if emit.outbox.is_some() && bound != Bound::BodyBytes {
                self.room.outbox_refused.entry(target.lane).or_insert(bound);
            }
            *route = Route::Refused(bound);
        }
        Ok(full)
    }

    /// Whether one more delivery of so many bytes would break a bound of the whole store.
    fn total_reached(&self, bytes: u64) -> bool {
        let counts = self.ledger.totals();
        counts.waiting + 1 > self.limits.waiting_rows_max
            || (bytes > 0 && counts.waiting_bytes + bytes > self.limits.waiting_bytes_max)
    }

    /// Makes room for one delivery; says whether there is any.
    pub(super) fn make_room(&mut self, lane: LaneId, bytes: u64, shed: &mut u64) -> Result<bool> {
        let Some(bounds) = self.ledger.lane(lane)?.map(|lane| lane.bounds) else { return Ok(false) };
        // What could never fit must not drive out what does.
        if bounds.reached(0, 0, bytes).is_some() || bytes > self.limits.waiting_bytes_max {
            return Ok(false);
        }
        while self.lane_reached(lane, bytes)? {
            if self.shed_rows(lane, 1, Reason::Overflow)? == 0 {
                return Ok(false);
            }
            *shed += 1;
        }
        while self.total_reached(bytes) {
            let Some(payer) = self.payer()? else { return Ok(false) };
            if self.shed_rows(payer, 1, Reason::Overflow)? > 0 {
                *shed += 1;
            } else {
                let payers = self.room.payers.get_or_insert_default();
                payers.lanes.remove(&payer);
                payers.spent.insert(payer);
            }
        }
        Ok(true)
    }

    fn lane_reached(&self, lane: LaneId, bytes: u64) -> Result<bool> {
        let lane = self.ledger.lane(lane)?;
        Ok(lane.is_some_and(|lane| {
            lane.bounds.reached(lane.counts.waiting, lane.counts.waiting_bytes, bytes).is_some()
        }))
    }

    /// Whether one more delivery has room on a lane and in the store, without anybody's shedding.
    pub(super) fn has_room(&self, lane: LaneId, bytes: u64) -> Result<bool> {
        Ok(!self.lane_reached(lane, bytes)? && !self.total_reached(bytes))
    }

    /// The lane that has the most waiting, of those that shed.
    fn payer(&mut self) -> Result<Option<LaneId>> {
        loop {
            let lanes = self.room.payers.get_or_insert_default().lanes.clone();
            self.ledger.need(lanes.iter().copied())?;
            let mut best: Option<(u64, LaneId)> = None;
            for lane in lanes {
                let waiting = self.ledger.lane(lane)?.map_or(0, |lane| lane.counts.waiting);
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
        let enough = int(size(PAYERS_MAX + payers.spent.len()));
        // What this commit has counted so far must be seen.
        self.flush()?;
        let query =
            "SELECT lane FROM lanes WHERE when_full = 0 AND waiting > 0 ORDER BY waiting DESC, lane LIMIT $1";
        let mut lanes = BTreeSet::new();
        for row in self.sql.query(query, &[&enough])? {
            lanes.insert(row.try_get(0)?);
        }
        let payers = self.room.payers.get_or_insert_default();
        payers.lanes = lanes;
        payers.lanes.retain(|lane| !payers.spent.contains(lane));
        if payers.lanes.is_empty() {
            payers.looked_up = LOOKUPS_MAX;
        }
        Ok(!payers.lanes.is_empty())
    }

    /// Something was added to a lane: it may have to pay for what is added next.
    pub(super) fn may_pay(&mut self, lane: LaneId) -> Result<()> {
        let Some(payers) = &mut self.room.payers else { return Ok(()) };
        let sheds = self.ledger.lane(lane)?;
        if sheds.is_some_and(|lane| lane.bounds.when_full == WhenFull::ShedOldest) {
            payers.spent.remove(&lane);
            if payers.lanes.len() < PAYERS_MAX {
                payers.lanes.insert(lane);
            }
        }
        Ok(())
    }

    /// Gives up the longest due of a lane that nobody holds, so many at most.
    pub(super) fn shed_rows(&mut self, lane: LaneId, max: u32, reason: Reason) -> Result<u64> {
        self.ledger.need([lane])?;
        self.flush()?;
        let held = self.held.rows(lane);
        let query = "SELECT delivery, bytes, attempts FROM deliveries WHERE lane = $1 AND state = 0
            AND delivery <> ALL($3) ORDER BY at, delivery LIMIT $2";
        let mut victims = Vec::new();
        for row in self.sql.query(query, &[&lane, &i64::from(max), &held])? {
            victims.push(Victim {
                delivery: row.try_get(0)?,
                bytes: row.try_get::<_, Count>(1)?.0,
                tried: row.try_get::<_, i64>(2)? > 0,
            });
        }
        self.bury(lane, &victims, reason)?;
        Ok(size(victims.len()))
    }

    pub(super) fn shed(&mut self, shed: Shed) -> Result<Reply> {
        if self.ledger.lane(shed.lane)?.is_none() {
            return Ok(Reply::Refused(Refusal::UnknownLane(shed.lane)));
        }
        let rows = self.shed_rows(shed.lane, shed.max, Reason::Overflow)?;
        Ok(Reply::Dropped { rows, more: rows == u64::from(shed.max) })
    }
}

/// A waiting delivery that is to be given up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Victim {
    pub(super) delivery: DeliveryId,
    pub(super) bytes: u64,
    pub(super) tried: bool,
}
