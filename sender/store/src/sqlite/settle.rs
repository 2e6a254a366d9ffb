//! The hottest path: for a claimed delivery it changes one row, writes one attempt, and reads nothing.

use rusqlite::{OptionalExtension, Result, params};

use super::values::Bits;
use super::{Work, at_hand};
use crate::command::{Attempt, KeptAnswer, Settlement};
use crate::commit::settle::{AttemptRows, Before, shortened};
use crate::engine::{DeliveryId, StoreTime};
use crate::latency::Gathered;

impl AttemptRows for Work<'_> {
    fn before(&mut self, settlement: &Settlement) -> Result<Option<Before>> {
        let Settlement { lane, term, delivery, .. } = *settlement;
        if let Some(waiting) = self.cache.known(lane, term, delivery) {
            return Ok(Some(waiting.into()));
        }
        let read =
            "SELECT state, attempts, bytes, last_attempt FROM deliveries WHERE delivery = ?1 AND lane = ?2";
        at_hand(&mut self.hot.read_before, self.sql, read)?
            .query_row(params![delivery, lane], |row| {
                Ok(Before {
                    place: row.get(0)?,
                    attempts: row.get(1)?,
                    bytes: row.get(2)?,
                    last_attempt: row.get(3)?,
                    due: StoreTime(0),
                })
            })
            .optional()
    }

    fn has_content(&mut self, delivery: DeliveryId) -> Result<bool> {
        let query = "SELECT 1 FROM deliveries d JOIN events e ON e.event = d.event
            WHERE d.delivery = ?1 AND (e.key IS NOT NULL OR e.body IS NOT NULL)";
        self.sql.prepare_cached(query)?.exists([delivery])
    }

    fn insert_attempt(
        &mut self,
        settlement: &Settlement,
        attempt: &Attempt,
        before: Option<&Before>,
        capped: bool,
        slot: Option<i16>,
    ) -> Result<bool> {
        let insert = "INSERT OR IGNORE INTO attempts
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
        let inserted = at_hand(&mut self.hot.insert_attempt, self.sql, insert)?.execute(params![
            attempt.at,
            settlement.delivery,
            settlement.lane,
            settlement.attempts,
            attempt.latency,
            attempt.outcome,
            attempt.status,
            attempt.error.as_deref().map(shortened),
            Bits(attempt.body_hash),
            before.and_then(|before| before.last_attempt),
            capped.then_some(1),
            attempt.details.connect,
            attempt.details.first_byte,
            attempt.details.asked.then_some(1),
        ])?;
        if inserted > 0
            && let Some((slot, answer)) = slot.zip(attempt.details.answer.as_deref())
        {
            let answer = self.seal.close_answer((settlement.delivery, attempt.at), answer)?;
            let KeptAnswer { head, body, cut } = &*answer;
            self.sql
                .prepare_cached("INSERT OR REPLACE INTO answers VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?
                .execute(params![settlement.lane, slot, attempt.at, settlement.delivery, head, body, cut])?;
        }
        Ok(inserted > 0)
    }

    fn set_last_attempt(&mut self, settlement: &Settlement, attempt: &Attempt) -> Result<()> {
        self.sql
            .prepare_cached(
                "UPDATE deliveries SET last_attempt = ?2, status = ?3, error = ?4 WHERE delivery = ?1",
            )?
            .execute(params![
                settlement.delivery,
                attempt.at,
                attempt.status,
                attempt.error.as_deref().map(shortened)
            ])
            .map(drop)
    }

    fn set_delivered(&mut self, settlement: &Settlement) -> Result<()> {
        let attempt = settlement.attempt.as_ref();
        let update = "UPDATE deliveries SET state = 1, at = ?2, attempts = max(attempts, ?3),
            last_attempt = coalesce(?4, last_attempt), status = ?5, error = NULL, reason = NULL
            WHERE delivery = ?1";
        at_hand(&mut self.hot.deliver, self.sql, update)?
            .execute(params![
                settlement.delivery,
                self.now,
                settlement.attempts,
                attempt.map(|attempt| attempt.at),
                attempt.and_then(|attempt| attempt.status),
            ])
            .map(drop)
    }

    fn set_retry(&mut self, settlement: &Settlement, due: StoreTime) -> Result<()> {
        self.sql
            .prepare_cached("UPDATE deliveries SET at = ?2, attempts = ?3 WHERE delivery = ?1")?
            .execute(params![settlement.delivery, due, settlement.attempts])
            .map(drop)
    }

    fn set_attempts(&mut self, settlement: &Settlement) -> Result<()> {
        self.sql
            .prepare_cached("UPDATE deliveries SET attempts = ?2 WHERE delivery = ?1")?
            .execute(params![settlement.delivery, settlement.attempts])
            .map(drop)
    }

    fn latencies(&mut self) -> &mut Gathered {
        self.latencies
    }
}
