use tokio_postgres::Row;

use super::values::Count;
use super::{Result, Work};
use crate::commit::erase::{Erasable, EraseRows};
use crate::engine::DeliveryId;

const ERASABLE: &str = "SELECT d.event, d.delivery, d.lane, d.state, d.bytes, d.attempts > 0,
        CASE WHEN a.error IS NOT NULL OR a.body_hash <> 0 THEN greatest(d.attempts, 1)::int8 ELSE 0 END
    FROM all_deliveries c JOIN events e ON e.event = c.event
    CROSS JOIN LATERAL unnest(e.deliveries) n JOIN all_deliveries d ON d.delivery = n
    LEFT JOIN attempts a ON a.at = d.last_attempt AND a.delivery = d.delivery
    WHERE c.delivery = $1 AND (e.key IS NOT NULL OR e.bytes IS NOT NULL) ORDER BY d.delivery";

macro_rules! chain {
    ($then:literal) => {
        concat!(
            "WITH RECURSIVE chain AS (
                SELECT a.at, a.delivery, a.before FROM all_deliveries d
                    JOIN attempts a ON a.at = d.last_attempt AND a.delivery = d.delivery WHERE d.delivery = ANY($1)
                UNION SELECT a.at, a.delivery, a.before FROM chain c
                    JOIN attempts a ON a.at = c.before AND a.delivery = c.delivery) ",
            $then
        )
    };
}
const ATTEMPTS: &str = chain!("SELECT count(*) FROM chain");
const ERASE_ATTEMPTS: &str = chain!(
    "UPDATE attempts a SET error = NULL, body_hash = 0 FROM chain c WHERE a.at = c.at AND a.delivery = c.delivery"
);

const ANSWERS: &str =
    "SELECT count(*) FROM all_deliveries d JOIN answers n ON n.lane = d.lane AND n.delivery = d.delivery
    WHERE d.delivery = ANY($1)";
const ERASE_ANSWERS: &str = "DELETE FROM answers n USING all_deliveries d
    WHERE d.delivery = ANY($1) AND n.lane = d.lane AND n.delivery = d.delivery";

const ERASE_WAITING: &str = "UPDATE deliveries SET body = NULL, error = NULL, coalesce = NULL, signature = NULL,
    at = CASE WHEN state = 0 THEN $2 ELSE at END, reason = CASE WHEN state IN (0, 2) THEN NULL ELSE reason END,
    state = CASE WHEN state IN (0, 2) THEN 4::int2 ELSE state END WHERE delivery = ANY($1)";
const ERASE_DONE: &str =
    "UPDATE done SET body = NULL, error = NULL, coalesce = NULL, signature = NULL WHERE delivery = ANY($1)";
const ERASE_BODIES: &str = "DELETE FROM bodies WHERE body = ANY(ARRAY(
    SELECT unnest(e.bodies) FROM events e WHERE e.event = ANY($1)))";
const ERASE_EVENTS: &str = "UPDATE events SET key = NULL, bytes = NULL, bodies = '{}' WHERE event = ANY($1)";

impl EraseRows for Work<'_> {
    fn erasable(&mut self, chosen: DeliveryId) -> Result<Vec<Erasable>> {
        let read = |row: &Row| -> Result<Erasable> {
            let (Count(event), Count(bytes), Count(history)) =
                (row.try_get(0)?, row.try_get(4)?, row.try_get(6)?);
            let (delivery, lane, place, tried) =
                (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?, row.try_get(5)?);
            Ok(Erasable { event, delivery, lane, place, bytes, tried, history })
        };
        let found = self.sql.query(ERASABLE, &[&chosen])?.iter().map(read).collect::<Result<Vec<_>>>()?;
        self.ledger.need(found.iter().map(|one| one.lane))?;
        Ok(found)
    }

    fn erase_history(&mut self, deliveries: &[DeliveryId], plan: bool) -> Result<(u64, u64)> {
        if !plan {
            let attempts = self.sql.execute(ERASE_ATTEMPTS, &[&deliveries])?;
            return Ok((attempts, self.sql.execute(ERASE_ANSWERS, &[&deliveries])?));
        }
        let mut counts = [0; 2];
        for (count, query) in counts.iter_mut().zip([ATTEMPTS, ANSWERS]) {
            if let Some(row) = self.sql.first(query, &[&deliveries])? {
                let Count(found) = row.try_get(0)?;
                *count = found;
            }
        }
        Ok(counts.into())
    }

    fn erase_content(&mut self, events: &[u64], deliveries: &[DeliveryId]) -> Result<()> {
        let events: Vec<i64> = events.iter().map(|event| event.cast_signed()).collect();
        self.sql.execute(ERASE_WAITING, &[&deliveries, &self.now])?;
        self.sql.execute(ERASE_DONE, &[&deliveries])?;
        self.sql.execute(ERASE_ANSWERS, &[&deliveries])?;
        self.sql.execute(ERASE_BODIES, &[&events])?;
        self.sql.execute(ERASE_EVENTS, &[&events])?;
        Ok(())
    }
}
