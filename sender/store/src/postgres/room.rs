//! The rows that decide which lane has room.

use std::collections::{BTreeMap, BTreeSet};

use super::oldest::{BLOCK, Of};
use super::rows::{Delivery, Rows, delivery_columns};
use super::values::{int, size};
use super::{Result, Work, columns};
use crate::Command;
use crate::command::Fate;
use crate::commit::room::{Room, RoomRows};
use crate::engine::{DeliveryId, LaneId, StoreTime, Term};
use crate::lane::{Bounds, WhenFull};
use crate::queue_cache::{Lane, Search};
use crate::read::Place;

const WAITING: &str = concat!(
    "SELECT ",
    delivery_columns!(),
    ", false FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[]) u (in_lane, after, after_delivery, most)
    CROSS JOIN LATERAL (SELECT * FROM deliveries d WHERE d.lane = u.in_lane AND d.state = 0
        AND (d.at, d.delivery) > (u.after, u.after_delivery) ORDER BY d.at, d.delivery LIMIT u.most) d"
);

impl RoomRows for Work<'_> {
    fn room(&mut self) -> &mut Room {
        &mut self.room
    }

    fn longest_due(&mut self, lane: LaneId, max: u32) -> Result<Vec<DeliveryId>> {
        self.ledger.need([lane])?;
        let mut found = Vec::new();
        while size(found.len()) < u64::from(max)
            && let Some(delivery) = self.next_due(lane, max - u32::try_from(found.len()).unwrap_or(max))?
        {
            found.push(delivery);
        }
        Ok(found)
    }

    fn fullest(&mut self, max: u64) -> Result<BTreeSet<LaneId>> {
        // The query must see this commit's counts. Its deliveries are written only once all lanes are locked, because
        // a repeated commit takes other numbers.
        columns::flush_ledger(self.sql, &mut self.ledger)?;
        let query =
            "SELECT lane FROM lanes WHERE when_full = 0 AND waiting > 0 ORDER BY waiting DESC, lane LIMIT $1";
        let found = self.sql.query(query, &[&int(max)])?;
        let lanes = found.iter().map(|row| Ok(row.try_get(0)?)).collect::<Result<BTreeSet<_>>>()?;
        // All at once, because each unlocked lane costs another try.
        self.ledger.need(lanes.iter().copied())?;
        Ok(lanes)
    }
}

impl Work<'_> {
    fn next_due(&mut self, lane: LaneId, wanted: u32) -> Result<Option<DeliveryId>> {
        let of = Of::Waiting(lane);
        loop {
            if let Some(((at, delivery), _)) = self.rows.oldest.take(of) {
                if !self.cache.has(lane, delivery) && self.rows.waits_until(delivery) == Some(at) {
                    return Ok(Some(delivery));
                }
            } else if self.rows.oldest.knows_all(of) {
                return Ok(None);
            } else {
                let mut likely = self.full_lanes();
                let of_lane = likely.entry(lane).or_insert(BLOCK);
                *of_lane = u64::from(wanted).max(*of_lane);
                self.read_waiting(&likely)?;
            }
        }
    }

    /// Reads the next waiting deliveries of these lanes. `likely`: how many each will probably need.
    pub(super) fn read_waiting(&mut self, likely: &BTreeMap<LaneId, u64>) -> Result<()> {
        let mut asked = Vec::with_capacity(likely.len());
        for (lane, likely) in likely {
            let (of, Search { place, claimed_after }) = (Of::Waiting(*lane), self.not_claimed(*lane)?);
            let after = place.max(self.rows.oldest.read_to(of));
            asked.push((*lane, after, self.rows.oldest.block(of, *likely) + size(claimed_after)));
        }
        let lanes: Vec<LaneId> = asked.iter().map(|(lane, ..)| *lane).collect();
        let after: Vec<StoreTime> = asked.iter().map(|(_, (at, _), _)| *at).collect();
        let after_delivery: Vec<DeliveryId> = asked.iter().map(|(_, (_, delivery), _)| *delivery).collect();
        let most: Vec<i64> = asked.iter().map(|(.., most)| int(*most)).collect();
        let mut found: BTreeMap<LaneId, Vec<_>> = BTreeMap::new();
        for row in self.sql.query(WAITING, &[&lanes, &after, &after_delivery, &most])? {
            let (delivery, row) = Delivery::read(&row)?;
            found.entry(row.lane).or_default().push(((row.at, delivery), row.lane));
            self.rows.add_found(delivery, row);
        }
        for (lane, after, most) in asked {
            let found = found.remove(&lane).unwrap_or_default();
            self.rows.oldest.add(Of::Waiting(lane), after, &found, most);
        }
        self.rows.update_all_oldest();
        Ok(())
    }

    fn not_claimed(&mut self, lane: LaneId) -> Result<Search> {
        let term = self.ledger.lane(lane)?.map_or(Term(0), |found| found.term);
        // Includes this commit's changes to the queue.
        let version = self.ledger.version(lane)?;
        Ok(self.cache.search(lane, term, &version))
    }

    /// Lanes without rows in memory that this run will probably overfill, with the number of deliveries that each
    /// gives up.
    fn full_lanes(&self) -> BTreeMap<LaneId, u64> {
        let unread = |(lane, _): &(LaneId, u64)| !self.rows.oldest.knows(Of::Waiting(*lane));
        let sheds = |(lane, coming): (LaneId, Coming)| {
            let found = self.ledger.lane(lane).ok().flatten()?;
            Some((lane, coming.sheds(found)))
        };
        let likely = Coming::of(self.run).into_iter().filter_map(sheds);
        likely.filter(|(_, rows)| *rows > 0).filter(unread).collect()
    }
}

/// The most that a run of commands brings to a lane.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Coming {
    rows: u64,
    bytes: u64,
    dying: u64,
}

impl Coming {
    pub(super) fn of(run: &[Command]) -> BTreeMap<LaneId, Self> {
        let mut lanes: BTreeMap<LaneId, Self> = BTreeMap::new();
        for command in run {
            match command.itself() {
                Command::Emit(emit) => {
                    for target in &emit.targets {
                        let coming = lanes.entry(target.lane).or_default();
                        coming.rows += 1;
                        coming.bytes += emit.bodies.get(target.body).map_or(0, |body| size(body.bytes.len()));
                    }
                }
                Command::Settle(settlements) => {
                    let dead = settlements.iter().filter(|one| matches!(one.fate, Fate::Dead(_)));
                    dead.for_each(|one| lanes.entry(one.lane).or_default().dying += 1);
                }
                _ => {}
            }
        }
        lanes
    }

    /// The expected number of deliveries to give up. Assumes bodies of one length.
    fn sheds(&self, lane: &Lane) -> u64 {
        let (Bounds { rows_max, bytes_max, when_full }, counts) = (lane.bounds, &lane.counts);
        let rows = counts.waiting.saturating_add(self.rows).saturating_sub(rows_max);
        if when_full == WhenFull::Refuse {
            0
        } else if counts.waiting_bytes.saturating_add(self.bytes) > bytes_max {
            self.rows
        } else {
            rows.min(self.rows)
        }
    }

    pub(super) fn buries(&self, lane: &Lane) -> u64 {
        self.dying + self.sheds(lane)
    }
}

impl Rows {
    /// Adds a row from the database. This commit's own changes take precedence.
    fn add_found(&mut self, delivery: DeliveryId, found: Delivery) {
        if !self.forgotten.contains(&delivery) {
            self.deliveries.entry(delivery).or_default().get_or_insert(found);
        }
    }

    pub(super) fn update_oldest(&mut self, delivery: DeliveryId) {
        if let Some(Some(found)) = self.deliveries.get(&delivery) {
            self.oldest.insert(found.lane, found.place, (found.at, delivery));
        }
    }

    pub(super) fn update_all_oldest(&mut self) {
        let mut oldest = std::mem::take(&mut self.oldest);
        for (delivery, new) in self.unwritten(self.numbers.len()) {
            oldest.insert(new.lane, new.place, (new.at, delivery));
        }
        for (delivery, found) in &self.deliveries {
            if let Some(found) = found {
                oldest.insert(found.lane, found.place, (found.at, *delivery));
            }
        }
        self.oldest = oldest;
    }

    /// The due time of a waiting delivery. `None` if it does not wait or is unknown.
    fn waits_until(&mut self, delivery: DeliveryId) -> Option<StoreTime> {
        let (place, at) = match self.recorded(delivery) {
            Some(new) => (new.place, new.at),
            None => self.deliveries.get(&delivery)?.as_ref().map(|row| (row.place, row.at))?,
        };
        (place == Place::Waiting).then_some(at)
    }
}
