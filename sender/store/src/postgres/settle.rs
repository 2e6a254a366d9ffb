//! The rows of attempts. The hottest path: it works in memory, between one read and one write.

use super::rows::NewAttempt;
use super::values::storable;
use super::{Result, Work};
use crate::command::{Attempt, Settlement};
use crate::commit::settle::{AttemptRows, Before, shortened};
use crate::engine::{DeliveryId, StoreTime};
use crate::latency::Gathered;
use crate::read::Place;

impl AttemptRows for Work<'_> {
    fn before(&mut self, settlement: &Settlement) -> Result<Option<Before>> {
        let Settlement { lane, delivery, .. } = *settlement;
        if self.rows.may_record(delivery) {
            self.flush()?;
            self.rows.forget_delivery(delivery);
        }
        Ok(self.rows.delivery(self.sql, lane, delivery)?.map(|row| Before {
            place: row.place,
            attempts: row.attempts,
            bytes: row.bytes,
            last_attempt: row.last_attempt,
            due: row.at,
        }))
    }

    fn has_content(&mut self, delivery: DeliveryId) -> Result<bool> {
        let query = "SELECT 1 FROM all_deliveries d JOIN events e ON e.event = d.event
            WHERE d.delivery = $1 AND (e.key IS NOT NULL OR e.bytes IS NOT NULL)";
        Ok(self.sql.exists(query, &[&delivery])?)
    }

    fn insert_attempt(
        &mut self,
        settlement: &Settlement,
        attempt: &Attempt,
        before: Option<&Before>,
        capped: bool,
        slot: Option<i16>,
    ) -> Result<bool> {
        if self.is_known(settlement, attempt, before)? {
            return Ok(false);
        }
        let last = before.and_then(|before| before.last_attempt);
        let details = self.seal.close_details((settlement.delivery, attempt.at), &attempt.details)?;
        self.rows.attempts.push(NewAttempt {
            at: attempt.at,
            delivery: settlement.delivery,
            lane: settlement.lane,
            number: settlement.attempts,
            latency: attempt.latency,
            outcome: attempt.outcome,
            status: attempt.status.map(i32::from),
            error: kept_error(attempt),
            body_hash: attempt.body_hash,
            before: last,
            capped,
            details,
            slot,
            is_first: before.is_some() && last.is_none(),
        });
        Ok(true)
    }

    fn set_last_attempt(&mut self, settlement: &Settlement, attempt: &Attempt) -> Result<()> {
        self.rows.change(settlement.delivery, |row| {
            row.last_attempt = Some(attempt.at);
            row.status = attempt.status.map(i32::from);
            row.error = kept_error(attempt);
        });
        Ok(())
    }

    fn set_delivered(&mut self, settlement: &Settlement) -> Result<()> {
        let attempt = settlement.attempt.as_ref();
        let now = self.now;
        self.rows.change(settlement.delivery, |row| {
            row.place = Place::Delivered;
            row.at = now;
            row.attempts = row.attempts.max(settlement.attempts);
            row.last_attempt = attempt.map(|attempt| attempt.at).or(row.last_attempt);
            row.status = attempt.and_then(|attempt| attempt.status).map(i32::from);
            row.error = None;
            row.reason = None;
        });
        Ok(())
    }

    fn set_retry(&mut self, settlement: &Settlement, due: StoreTime) -> Result<()> {
        self.rows.change(settlement.delivery, |row| {
            row.at = due;
            row.attempts = settlement.attempts;
        });
        Ok(())
    }

    fn set_attempts(&mut self, settlement: &Settlement) -> Result<()> {
        self.rows.change(settlement.delivery, |row| row.attempts = settlement.attempts);
        Ok(())
    }

    fn latencies(&mut self) -> &mut Gathered {
        self.gathered
    }

    /// A released one can be given up for room.
    fn settled(&mut self, settlement: &Settlement) {
        self.rows.update_oldest(settlement.delivery);
    }
}

impl Work<'_> {
    /// Whether the attempt was recorded before. Spares the query for one that no attempt of the delivery can equal: it is counted
    /// higher, and began after the last that was told.
    fn is_known(&self, settlement: &Settlement, attempt: &Attempt, before: Option<&Before>) -> Result<bool> {
        let is_newest = |before: &Before| {
            let is_later = before.last_attempt.is_none_or(|last| last < attempt.at);
            is_later && before.attempts < settlement.attempts
        };
        if before.is_some_and(is_newest) {
            return Ok(false);
        }
        let delivery = settlement.delivery;
        if self.rows.attempts.iter().any(|new| new.delivery == delivery && new.at == attempt.at) {
            return Ok(true);
        }
        let query = "SELECT 1 FROM attempts WHERE at = $1 AND delivery = $2";
        Ok(self.sql.exists(query, &[&attempt.at, &delivery])?)
    }
}

fn kept_error(attempt: &Attempt) -> Option<Box<str>> {
    attempt.error.as_deref().map(|error| storable(shortened(error)).into())
}
