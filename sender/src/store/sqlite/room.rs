//! Who has room, and who makes some ([`Bounded`]), by SQLite's rows.

use std::collections::BTreeSet;

use rusqlite::{Error, Result, params};

use super::Work;
use super::claim::QUEUE;
use super::values::{int, size};
use crate::engine::{DeliveryId, LaneId};
use crate::store::command::{Reason, Shed};
use crate::store::lane::{Bounds, Counts, Limits, WhenFull};
use crate::store::reply::{Refusal, Reply};
use crate::store::room::{Bounded, Room};

impl Bounded for Work<'_> {
    type Error = Error;

    fn room(&mut self) -> &mut Room {
        &mut self.room
    }

    fn limits(&self) -> &Limits {
        &self.rules.limits
    }

    fn totals(&self) -> &Counts {
        &self.ledger.totals.counts
    }

    fn bounds(&mut self, lane: LaneId) -> Result<Option<(Bounds, Counts)>> {
        Ok(self.ledger.lane(self.sql, lane)?.map(|lane| (lane.bounds, lane.counts)))
    }

    fn shed_rows(&mut self, lane: LaneId, max: u32, reason: Reason) -> Result<u64> {
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

    fn fullest(&mut self, max: u64) -> Result<BTreeSet<LaneId>> {
        // What this commit has counted so far must be seen.
        self.ledger.flush(self.sql, self.now)?;
        let mut query = self.sql.prepare_cached(
            "SELECT lane FROM lanes WHERE when_full = ?1 AND waiting > 0 ORDER BY waiting DESC, lane LIMIT ?2",
        )?;
        query.query_map(params![WhenFull::ShedOldest, int(max)], |row| row.get(0))?.collect()
    }
}

impl Work<'_> {
    pub(super) fn shed(&mut self, shed: Shed) -> Result<Reply> {
        if self.ledger.lane(self.sql, shed.lane)?.is_none() {
            return Ok(Reply::Refused(Refusal::UnknownLane(shed.lane)));
        }
        let rows = self.shed_rows(shed.lane, shed.max, Reason::Overflow)?;
        Ok(Reply::Dropped { rows, more: rows == u64::from(shed.max) })
    }
}
