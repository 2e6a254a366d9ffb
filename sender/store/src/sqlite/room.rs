//! The rows that decide which lane has room.

use std::collections::BTreeSet;

use rusqlite::{Result, params};

use super::Work;
use super::claim::QUEUE;
use super::values::int;
use crate::commit::room::{Room, RoomRows};
use crate::engine::{DeliveryId, LaneId};
use crate::lane::WhenFull;

impl RoomRows for Work<'_> {
    fn room(&mut self) -> &mut Room {
        &mut self.room
    }

    fn longest_due(&mut self, lane: LaneId, max: u32) -> Result<Vec<DeliveryId>> {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        let mut queue = self.sql.prepare_cached(QUEUE)?;
        let mut rows = queue.query([lane])?;
        let mut victims = Vec::new();
        while victims.len() < max
            && let Some(row) = rows.next()?
        {
            let delivery = row.get(0)?;
            if !self.held.has(lane, delivery) {
                victims.push(delivery);
            }
        }
        Ok(victims)
    }

    fn fullest(&mut self, max: u64) -> Result<BTreeSet<LaneId>> {
        // The query must see this commit's counts.
        self.ledger.flush(self.sql, self.now)?;
        let mut query = self.sql.prepare_cached(
            "SELECT lane FROM lanes WHERE when_full = ?1 AND waiting > 0 ORDER BY waiting DESC, lane LIMIT ?2",
        )?;
        query.query_map(params![WhenFull::ShedOldest, int(max)], |row| row.get(0))?.collect()
    }
}
