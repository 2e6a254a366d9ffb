use super::values::{Count, int};
use super::{Result, Work};
use crate::commit::dead::DeadRows;
use crate::commit::retry::{Resendable, RetryRows};
use crate::engine::{DeliveryId, LaneId, StoreTime};
use crate::read::Place;

impl RetryRows for Work<'_> {
    fn place_of(&mut self, delivery: DeliveryId) -> Result<Option<(LaneId, Place)>> {
        let query = "SELECT lane, state FROM all_deliveries WHERE delivery = $1";
        let Some(row) = self.sql.first(query, &[&delivery])? else { return Ok(None) };
        let lane = row.try_get(0)?;
        self.ledger.need([lane])?;
        Ok(Some((lane, row.try_get(1)?)))
    }

    fn bring_forward(&mut self, lane: LaneId, one: Option<DeliveryId>, max: u32) -> Result<u64> {
        let rows = match one {
            Some(delivery) => self.sql.execute(
                "UPDATE deliveries SET at = $2 WHERE delivery = $1 AND state = 0 AND at > $2 AND attempts > 0",
                &[&delivery, &self.now],
            )?,
            None => self.sql.execute(
                "UPDATE deliveries SET at = $2 WHERE delivery IN (SELECT delivery FROM deliveries
                 WHERE lane = $1 AND state = 0 AND at > $2 AND attempts > 0 ORDER BY at, delivery LIMIT $3)",
                &[&lane, &self.now, &i64::from(max)],
            )?,
        };
        Ok(rows)
    }

    fn set_retried(&mut self, lane: LaneId, insist: bool, version: u64) -> Result<()> {
        self.sql.execute(
            "UPDATE subscribers SET version = $2, retried = $2, insisted = CASE WHEN $3 THEN $2 ELSE insisted END
             WHERE lane = $1",
            &[&lane, &int(version), &insist],
        )?;
        Ok(())
    }

    fn resendable(&mut self, delivery: DeliveryId) -> Result<Option<Resendable>> {
        let query = "SELECT d.bytes, d.ttl FROM all_deliveries d JOIN events e USING (event)
            WHERE d.delivery = $1 AND (d.body IS NULL AND e.bytes IS NOT NULL
                OR EXISTS (SELECT 1 FROM bodies b WHERE b.body = d.body))";
        let Some(row) = self.sql.first(query, &[&delivery])? else { return Ok(None) };
        let Count(bytes) = row.try_get(0)?;
        Ok(Some(Resendable { bytes, ttl: row.try_get(1)? }))
    }

    fn set_resent(&mut self, delivery: DeliveryId, expires: StoreTime) -> Result<bool> {
        let back = "WITH gone AS (DELETE FROM done WHERE delivery = $1 RETURNING *)
            INSERT INTO deliveries SELECT delivery, lane, event, body, bytes, 1, attempts, at, expires, ttl,
                last_attempt, NULL, status, error, NULL, signature FROM gone";
        self.sql.execute(back, &[&delivery])?;
        let mark = "INSERT INTO resent SELECT delivery, $2, last_attempt FROM deliveries WHERE delivery = $1
            ON CONFLICT (delivery, at) DO UPDATE SET after = excluded.after";
        if self.sql.execute(mark, &[&delivery, &self.now])? == 0 {
            return Ok(false);
        }
        self.set_waiting(&[(delivery, expires)])?;
        Ok(true)
    }
}
