//! Capacity: which bounds are reached, which lanes make room, and which dead letters find room again.
//!
//! A full lane refuses new deliveries, or gives up its longest due ones that are not handed out. When the whole store
//! is full, the lane with the most waiting gives up deliveries, among the lanes that shed. So a quiet lane never pays
//! for a loud one. A lane that refuses never sheds for others; its emitters wait.

use std::collections::{BTreeMap, BTreeSet};

use hookproof_words::ids::size;

use super::dead::{DeadRows, Letter};
use crate::command::{Emit, Reason, Redrive, Shed, Target};
use crate::engine::{DeliveryId, LaneId, StoreTime};
use crate::lane::{Bounds, Counts, Limits, WhenFull};
use crate::paging::last_if_full;
use crate::reply::{Bound, FullLane, Placed, Redriven, Refusal, Reply};

const PAYERS_MAX: usize = 8;

/// Limit for one commit: each lookup scans all lanes.
const LOOKUPS_MAX: u32 = 4;

#[derive(Default)]
pub(crate) struct Room {
    payers: Option<Payers>,
    /// Lanes that refused an outbox row. They refuse newer rows in this commit too, which keeps the order of the
    /// outbox.
    outbox_refused: BTreeMap<LaneId, Bound>,
}

#[derive(Default)]
struct Payers {
    lanes: BTreeSet<LaneId>,
    spent: BTreeSet<LaneId>,
    looked_up: u32,
}

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

    const fn and(self, bytes: u64) -> Self {
        Self { rows: self.rows + 1, bytes: self.bytes + bytes }
    }
}

impl Room {
    pub(crate) fn forget_payers(&mut self) {
        self.payers = None;
    }
}

pub(crate) trait RoomRows: DeadRows {
    fn room(&mut self) -> &mut Room;

    /// The longest due deliveries that are not handed out.
    fn longest_due(&mut self, lane: LaneId, max: u32) -> Result<Vec<DeliveryId>, Self::Error>;

    fn fullest(&mut self, max: u64) -> Result<BTreeSet<LaneId>, Self::Error>;

    fn bounds(&mut self, lane: LaneId) -> Result<Option<(Bounds, Counts)>, Self::Error> {
        Ok(self.lane(lane)?.map(|lane| (lane.bounds, lane.counts)))
    }

    fn shed_rows(&mut self, lane: LaneId, max: u32, reason: Reason) -> Result<u64, Self::Error> {
        let victims = self.longest_due(lane, max)?;
        for delivery in &victims {
            self.bury(lane, *delivery, reason)?;
        }
        Ok(size(victims.len()))
    }

    fn shed(&mut self, shed: Shed) -> Result<Reply, Self::Error> {
        if self.lane(shed.lane)?.is_none() {
            return Ok(Reply::Refused(Refusal::UnknownLane(shed.lane)));
        }
        let rows = self.shed_rows(shed.lane, shed.max, Reason::Shed)?;
        Ok(Reply::Dropped { rows, more: rows == u64::from(shed.max) })
    }

    fn refuse_where_full(&mut self, emit: &Emit, routes: &mut [Route]) -> Result<Vec<FullLane>, Self::Error> {
        let mut full = Vec::new();
        // The total if only the accepted deliveries of refusing lanes are recorded. The other lanes make room
        // themselves.
        let mut total = Waiting::of(self.totals());
        for (target, route) in emit.targets.iter().zip(routes) {
            let gone = match route {
                Route::Fresh => Waiting { rows: 0, bytes: 0 },
                Route::Replace(older) => Waiting { rows: 1, bytes: older.bytes },
                Route::Duplicate | Route::Absent | Route::Refused(_) => continue,
            };
            let Some((bounds, counts)) = self.bounds(target.lane)? else { continue };
            if bounds.when_full == WhenFull::ShedOldest {
                continue;
            }
            let body = size(emit.bodies[target.body].bytes.len());
            let before = Waiting::of(&counts).less(gone);
            let with_it = total.less(gone).and(body);
            let refused = &self.room().outbox_refused;
            let older = refused.get(&target.lane).filter(|_| emit.outbox.is_some()).copied();
            let bound = bounds.reached(before.rows, before.bytes, body).or(older);
            if let Some(bound) = bound.or_else(|| broken_by(self.limits(), with_it, gone, body)) {
                full.push(FullLane { lane: target.lane, bound });
                if emit.outbox.is_some() && bound != Bound::BodyBytes {
                    self.room().outbox_refused.entry(target.lane).or_insert(bound);
                }
                *route = Route::Refused(bound);
            } else {
                total = with_it;
            }
        }
        Ok(full)
    }

    fn make_room(&mut self, lane: LaneId, bytes: u64, shed: &mut u64) -> Result<bool, Self::Error> {
        // A body that can never fit must not displace others.
        if !self.could_fit(lane, bytes)? {
            return Ok(false);
        }
        while self.bound_of_lane(lane, bytes)?.is_some() {
            if self.shed_rows(lane, 1, Reason::Overflow)? == 0 {
                return Ok(false);
            }
            *shed += 1;
        }
        while bound_of_all(self.limits(), self.totals(), bytes).is_some() {
            let Some(payer) = self.payer()? else { return Ok(false) };
            if self.shed_rows(payer, 1, Reason::Overflow)? == 0 {
                self.room().payers.get_or_insert_default().spend(payer);
            } else {
                *shed += 1;
            }
        }
        Ok(true)
    }

    fn could_fit(&mut self, lane: LaneId, bytes: u64) -> Result<bool, Self::Error> {
        let Some((bounds, _)) = self.bounds(lane)? else { return Ok(false) };
        Ok(bounds.reached(0, 0, bytes).is_none() && bytes <= self.limits().waiting_bytes_max)
    }

    fn redrive(&mut self, redrive: &Redrive) -> Result<Reply, Self::Error> {
        let chosen = self.chosen(&redrive.which, redrive.after, redrive.max)?;
        let letters = self.letters(&chosen)?;
        let (mut redriven, _) = self.redrive_letters(letters, false)?;
        redriven.last = last_if_full(&chosen, redrive.max, |letter| *letter);
        Ok(Reply::Redriven(redriven))
    }

    /// Has dead letters wait again, as far as there is room. `waits`: ends at the first without room, and returns it.
    fn redrive_letters(
        &mut self,
        letters: Vec<Letter>,
        waits: bool,
    ) -> Result<(Redriven, Option<DeliveryId>), Self::Error> {
        let (mut redriven, mut full) = (Redriven::default(), None);
        let mut waiting = Vec::new();
        for Letter { delivery, lane, bytes, ttl, .. } in letters {
            let accepts = self.accepts(lane)?;
            if !accepts || self.bound_reached(lane, bytes)?.is_some() {
                if waits && accepts && self.could_fit(lane, bytes)? {
                    full = Some(delivery);
                    break;
                }
                redriven.kept += 1;
                continue;
            }
            waiting.push((delivery, self.after(ttl)));
            redriven.rows.push((lane, delivery));
            self.disturb(lane)?;
            self.arrive(lane, self.now())?;
            self.count(lane, |counts| {
                counts.dead = counts.dead.saturating_sub(1);
                counts.dead_kept = counts.dead_kept.saturating_sub(1);
                counts.waiting += 1;
                counts.waiting_bytes += bytes;
            })?;
        }
        if !waiting.is_empty() {
            self.set_waiting(&waiting)?;
            self.stir()?;
        }
        Ok((redriven, full))
    }

    fn bound_reached(&mut self, lane: LaneId, bytes: u64) -> Result<Option<Bound>, Self::Error> {
        let of_lane = self.bound_of_lane(lane, bytes)?;
        Ok(of_lane.or_else(|| bound_of_all(self.limits(), self.totals(), bytes)))
    }

    fn bound_of_lane(&mut self, lane: LaneId, bytes: u64) -> Result<Option<Bound>, Self::Error> {
        let lane = self.bounds(lane)?;
        Ok(lane.and_then(|(bounds, counts)| bounds.reached(counts.waiting, counts.waiting_bytes, bytes)))
    }

    fn payer(&mut self) -> Result<Option<LaneId>, Self::Error> {
        loop {
            let mut best: Option<(u64, LaneId)> = None;
            for lane in self.room().payers.get_or_insert_default().lanes.clone() {
                let waiting = self.bounds(lane)?.map_or(0, |(_, counts)| counts.waiting);
                if waiting > 0 && best.is_none_or(|(most, _)| waiting > most) {
                    best = Some((waiting, lane));
                }
            }
            if let Some((_, lane)) = best {
                return Ok(Some(lane));
            }
            let Some(max) = self.room().payers.get_or_insert_default().look_up() else { return Ok(None) };
            let found = self.fullest(max)?;
            if !self.room().payers.get_or_insert_default().found(found) {
                return Ok(None);
            }
        }
    }

    fn may_pay(&mut self, lane: LaneId) -> Result<(), Self::Error> {
        if self.room().payers.is_none() {
            return Ok(());
        }
        let sheds = self.bounds(lane)?.is_some_and(|(bounds, _)| bounds.when_full == WhenFull::ShedOldest);
        if sheds && let Some(payers) = &mut self.room().payers {
            payers.may_pay(lane);
        }
        Ok(())
    }
}

/// The bound of the whole store that `with_it` exceeds. A replaced delivery (`gone`) cannot break a bound that it
/// already filled.
const fn broken_by(limits: &Limits, with_it: Waiting, gone: Waiting, body: u64) -> Option<Bound> {
    if gone.rows == 0 && with_it.rows > limits.waiting_rows_max {
        Some(Bound::TotalRows)
    } else if body > gone.bytes && with_it.bytes > limits.waiting_bytes_max {
        Some(Bound::TotalBytes)
    } else {
        None
    }
}

const fn bound_of_all(limits: &Limits, totals: &Counts, bytes: u64) -> Option<Bound> {
    broken_by(limits, Waiting::of(totals).and(bytes), Waiting { rows: 0, bytes: 0 }, bytes)
}

impl Payers {
    fn spend(&mut self, lane: LaneId) {
        self.lanes.remove(&lane);
        self.spent.insert(lane);
    }

    /// A lane that sheds got a delivery, so it can make room again.
    fn may_pay(&mut self, lane: LaneId) {
        self.spent.remove(&lane);
        if self.lanes.len() < PAYERS_MAX {
            self.lanes.insert(lane);
        }
    }

    /// How many of the fullest lanes to look up. `None` once the commit has used its lookups.
    fn look_up(&mut self) -> Option<u64> {
        if self.looked_up >= LOOKUPS_MAX {
            return None;
        }
        self.looked_up += 1;
        Some(size(PAYERS_MAX + self.spent.len()))
    }

    fn found(&mut self, lanes: BTreeSet<LaneId>) -> bool {
        self.lanes = lanes;
        self.lanes.retain(|lane| !self.spent.contains(lane));
        if self.lanes.is_empty() {
            self.looked_up = LOOKUPS_MAX;
        }
        !self.lanes.is_empty()
    }
}

#[derive(Debug)]
pub(crate) enum Route {
    Fresh,
    Replace(Replaced),
    Duplicate,
    Absent,
    Refused(Bound),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Replaced {
    pub(crate) delivery: DeliveryId,
    pub(crate) bytes: u64,
    pub(crate) due: StoreTime,
}

impl Route {
    pub(crate) const fn is_new(&self) -> bool {
        matches!(self, Self::Fresh | Self::Replace(_))
    }

    pub(crate) const fn placed_nowhere(&self) -> Placed {
        match self {
            Self::Duplicate => Placed::Duplicate,
            Self::Refused(bound) => Placed::Refused(*bound),
            Self::Fresh | Self::Replace(_) | Self::Absent => Placed::Absent,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Before {
    lanes: BTreeMap<LaneId, StoreTime>,
    /// Lanes that have the event from a partial acceptance.
    in_part: BTreeSet<LaneId>,
}

impl Before {
    pub(crate) fn record_delivery(&mut self, lane: LaneId, received: StoreTime, in_part: bool) {
        let last = self.lanes.entry(lane).or_insert(received);
        *last = received.max(*last);
        if in_part {
            self.in_part.insert(lane);
        }
    }

    /// Whether the target has the event already: received within its window, or from a partial acceptance.
    pub(crate) fn has(&self, emit: &Emit, target: &Target) -> bool {
        let since = emit.received.0.saturating_sub(target.dedupe.0);
        let lately = target.dedupe.0 > 0 && self.lanes.get(&target.lane).is_some_and(|at| at.0 > since);
        lately || self.in_part.contains(&target.lane)
    }

    /// Events of other tokens may have the same id.
    pub(crate) fn in_part(&self, emit: &Emit) -> bool {
        emit.targets.iter().any(|target| self.in_part.contains(&target.lane))
    }
}
