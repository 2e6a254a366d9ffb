use rusqlite::{OptionalExtension, Result, params};

use super::Work;
use super::values::int;
use crate::commit::dead::DeadRows;
use crate::commit::retry::{Resendable, RetryRows};
use crate::engine::{DeliveryId, LaneId, StoreTime};
use crate::read::Place;
use hookproof_words::ids::size;

impl RetryRows for Work<'_> {
    fn place_of(&mut self, delivery: DeliveryId) -> Result<Option<(LaneId, Place)>> {
        self.sql
            .prepare_cached("SELECT lane, state FROM deliveries WHERE delivery = ?1")?
            .query_row([delivery], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
    }

    fn bring_forward(&mut self, lane: LaneId, one: Option<DeliveryId>, max: u32) -> Result<u64> {
        let rows = match one {
            Some(delivery) => self
                .sql
                .prepare_cached(
                    "UPDATE deliveries SET at = ?2
                     WHERE delivery = ?1 AND state = 0 AND at > ?2 AND attempts > 0",
                )?
                .execute(params![delivery, self.now])?,
            None => self
                .sql
                .prepare_cached(
                    "UPDATE deliveries SET at = ?2 WHERE delivery IN (
                        SELECT delivery FROM deliveries INDEXED BY deliveries_due
                        WHERE lane = ?1 AND state = 0 AND at > ?2 AND attempts > 0
                        ORDER BY at, delivery LIMIT ?3)",
                )?
                .execute(params![lane, self.now, max])?,
        };
        Ok(size(rows))
    }

    fn set_retried(&mut self, lane: LaneId, insist: bool, version: u64) -> Result<()> {
        self.sql
            .prepare_cached(
                "UPDATE subscribers SET version = ?2, retried = ?2,
                 insisted = CASE WHEN ?3 THEN ?2 ELSE insisted END WHERE lane = ?1",
            )?
            .execute(params![lane, int(version), insist])
            .map(drop)
    }

    fn resendable(&mut self, delivery: DeliveryId) -> Result<Option<Resendable>> {
        self.sql
            .prepare_cached(
                "SELECT d.bytes, d.ttl FROM deliveries d JOIN events e USING (event)
                 WHERE d.delivery = ?1 AND (d.body = 0 AND e.body IS NOT NULL
                    OR EXISTS (SELECT 1 FROM further_bodies b WHERE b.body = d.body))",
            )?
            .query_row([delivery], |row| Ok(Resendable { bytes: row.get(0)?, ttl: row.get(1)? }))
            .optional()
    }

    fn set_resent(&mut self, delivery: DeliveryId, expires: StoreTime) -> Result<bool> {
        self.sql
            .prepare_cached(
                "INSERT OR REPLACE INTO resent
                 SELECT delivery, ?2, last_attempt FROM deliveries WHERE delivery = ?1",
            )?
            .execute(params![delivery, self.now])?;
        self.set_waiting(&[(delivery, expires)])?;
        Ok(true)
    }
}
