use rusqlite::{OptionalExtension, Result, params};

use super::Work;
use super::failure::or_least;
use super::values::int;
use crate::command::Reason;
use crate::commit::Rows;
use crate::commit::dead::{DeadRows, Letter};
use crate::engine::{DeliveryId, LaneId, StoreTime};
use crate::read::Place;

const OLDEST: &str = "SELECT delivery FROM deliveries INDEXED BY deliveries_dead
    WHERE state = 2 AND delivery > ?1 ORDER BY delivery LIMIT ?2";

const OLDEST_OF_LANE: &str = "SELECT delivery FROM deliveries INDEXED BY deliveries_dead_of_lane
    WHERE state = 2 AND delivery > ?1 AND lane = ?3 ORDER BY delivery LIMIT ?2";

impl DeadRows for Work<'_> {
    /// Always false: even a delivery of this commit may be in the cache.
    fn records(&mut self, _: DeliveryId) -> bool {
        false
    }

    fn set_dead(&mut self, _: LaneId, delivery: DeliveryId, reason: Reason) -> Result<(u64, bool)> {
        // Invalid figures would make every list of dead letters unreadable.
        self.sql
            .prepare_cached(
                "UPDATE deliveries SET state = 2, at = ?2, reason = ?3, bytes = max(bytes, 0), ttl = max(ttl, 0),
                 attempts = min(max(attempts, 0), 4294967295), expires = max(expires, 0),
                 last_attempt = max(last_attempt, 0) WHERE delivery = ?1 RETURNING bytes, attempts > 0",
            )?
            .query_row(params![delivery, self.now, reason], |row| Ok((or_least(row.get(0))?, row.get(1)?)))
    }

    fn oldest_letters(
        &mut self,
        lane: Option<LaneId>,
        after: DeliveryId,
        max: u32,
    ) -> Result<Vec<DeliveryId>> {
        let Some(lane) = lane else {
            return self
                .sql
                .prepare_cached(OLDEST)?
                .query_map(params![after, max], |row| row.get(0))?
                .collect();
        };
        let mut query = self.sql.prepare_cached(OLDEST_OF_LANE)?;
        query.query_map(params![after, max, lane], |row| row.get(0))?.collect()
    }

    fn forget_letters(&mut self, letters: &[DeliveryId]) -> Result<u64> {
        let mut forgotten = 0;
        for letter in letters {
            let lane: Option<LaneId> = self
                .sql
                .prepare_cached("DELETE FROM deliveries WHERE delivery = ?1 AND state = 2 RETURNING lane")?
                .query_row([letter], |row| row.get(0))
                .optional()?;
            if let Some(lane) = lane {
                self.count(lane, |counts| counts.dead_kept = counts.dead_kept.saturating_sub(1))?;
                forgotten += 1;
            }
        }
        Ok(forgotten)
    }

    fn forget_oldest(&mut self, lane: Option<LaneId>) -> Result<u64> {
        let oldest = self.oldest_letters(lane, DeliveryId(0), 1)?;
        self.forget_letters(&oldest)
    }

    fn letters(&mut self, letters: &[DeliveryId]) -> Result<Vec<Letter>> {
        let mut query = self.sql.prepare_cached(
            "SELECT lane, bytes, ttl, at FROM deliveries WHERE delivery = ?1 AND state = ?2",
        )?;
        let mut found = Vec::with_capacity(letters.len());
        for delivery in letters {
            let letter = query.query_row(params![delivery, Place::Dead], |row| {
                let (lane, bytes, ttl, at) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
                Ok(Letter { delivery: *delivery, lane, bytes, ttl, at })
            });
            found.extend(letter.optional()?);
        }
        Ok(found)
    }

    fn set_waiting(&mut self, letters: &[(DeliveryId, StoreTime)]) -> Result<()> {
        let mut update = self.sql.prepare_cached(
            "UPDATE deliveries SET state = 0, at = ?2, attempts = 0, expires = ?3, reason = NULL,
             coalesce = NULL WHERE delivery = ?1",
        )?;
        for (delivery, expires) in letters {
            update.execute(params![delivery, self.now, expires])?;
            self.index_expiry(*delivery, *expires)?;
        }
        Ok(())
    }

    fn stir(&mut self) -> Result<()> {
        self.ledger.change().stirred += 1;
        Ok(())
    }

    fn letters_after(&mut self, after: DeliveryId, max: u32) -> Result<Vec<(DeliveryId, StoreTime)>> {
        self.sql
            .prepare_cached(
                "SELECT delivery, at FROM deliveries INDEXED BY deliveries_dead
                 WHERE state = 2 AND delivery > ?1 ORDER BY delivery LIMIT ?2",
            )?
            .query_map([int(after.0), i64::from(max)], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect()
    }
}
