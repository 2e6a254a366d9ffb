use super::values::int;
use super::{Result, Work};
use crate::commit::retry::RetryRows;
use crate::engine::{DeliveryId, LaneId};
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
}
