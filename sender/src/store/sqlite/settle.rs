//! What became of deliveries. The hottest path: one row changed, one attempt written, and nothing read of what was handed out here.

use rusqlite::{OptionalExtension, Result, params};

use super::values::Bits;
use super::{Work, at_hand};
use crate::engine::{DeliveryId, LaneId, StoreTime};
use crate::store::command::{Attempt, Fate, Outcome, Reason, Settlement};
use crate::store::held::Waiting;
use crate::store::read::Place;
use crate::store::reply::{Reply, SettleResult};

/// A delivery as it stands before a settlement.
struct Before {
    place: Place,
    attempts: u32,
    bytes: u64,
    last_attempt: Option<StoreTime>,
}

impl From<Waiting> for Before {
    fn from(Waiting { attempts, bytes, last_attempt }: Waiting) -> Self {
        Self { place: Place::Waiting, attempts, bytes, last_attempt }
    }
}

impl Work<'_> {
    pub(super) fn settle(&mut self, settlements: &[Settlement]) -> Result<Reply> {
        let mut results = Vec::with_capacity(settlements.len());
        for settlement in settlements {
            results.push(self.settle_one(settlement)?);
            let Settlement { lane, term, delivery, .. } = *settlement;
            if !self.held.give_back(lane, term, delivery) {
                // It may be one that was to be handed out next.
                self.fronts.fresh.doubt(lane);
                self.held.leave(lane, delivery);
                // A claim beside this commit passes over it, and is not to go on behind it.
                self.fronts.add(lane, StoreTime(0));
            }
        }
        Ok(Reply::Settled(results))
    }

    fn settle_one(&mut self, settlement: &Settlement) -> Result<SettleResult> {
        let lane = self.ledger.lane(self.sql, settlement.lane)?;
        let (current, capped) = (lane.map(|lane| lane.term), lane.is_some_and(|lane| lane.capped));
        let before = match self.held.known(settlement.lane, settlement.term, settlement.delivery) {
            Some(waiting) => Some(waiting.into()),
            None => self.before(settlement.lane, settlement.delivery)?,
        };
        if let Some(attempt) = &settlement.attempt {
            self.record_attempt(settlement, attempt, before.as_ref(), capped)?;
        }
        // That the endpoint is gone is a fact, whatever became of the delivery.
        if settlement.fate == Fate::Dead(Reason::Gone) && current == Some(settlement.term) {
            self.disable(settlement.lane)?;
        }
        let Some(before) = before else { return Ok(SettleResult::Absent) };
        match settlement.fate {
            Fate::Delivered => self.deliver(settlement, &before),
            Fate::Released => {
                // It is due when it was.
                self.fronts.add(settlement.lane, StoreTime(0));
                Ok(SettleResult::Applied)
            }
            Fate::Retry { .. } | Fate::Dead(_) if current != Some(settlement.term) => Ok(SettleResult::Stale),
            Fate::Retry { .. } | Fate::Dead(_) if before.place != Place::Waiting => Ok(SettleResult::Absent),
            Fate::Retry { due } => self.retry(settlement, &before, due),
            Fate::Dead(reason) => self.die(settlement, &before, reason),
        }
    }

    fn before(&mut self, lane: LaneId, delivery: DeliveryId) -> Result<Option<Before>> {
        let read =
            "SELECT state, attempts, bytes, last_attempt FROM deliveries WHERE delivery = ?1 AND lane = ?2";
        at_hand(&mut self.hot.read_before, self.sql, read)?
            .query_row(params![delivery, lane], |row| {
                Ok(Before {
                    place: row.get(0)?,
                    attempts: row.get(1)?,
                    bytes: row.get(2)?,
                    last_attempt: row.get(3)?,
                })
            })
            .optional()
    }

    /// Writes an attempt down, and lets the delivery's chain begin there.
    fn record_attempt(
        &mut self,
        settlement: &Settlement,
        attempt: &Attempt,
        before: Option<&Before>,
        capped: bool,
    ) -> Result<()> {
        let error = attempt.error.as_deref().map(shortened);
        let insert = "INSERT OR IGNORE INTO attempts VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        let inserted = at_hand(&mut self.hot.insert_attempt, self.sql, insert)?.execute(params![
            attempt.at,
            settlement.delivery,
            settlement.lane,
            settlement.attempts,
            attempt.latency,
            attempt.outcome,
            attempt.status,
            error,
            Bits(attempt.body_hash),
            before.and_then(|before| before.last_attempt),
            capped.then_some(1),
        ])?;
        // The same attempt told twice counts once.
        if inserted == 0 {
            return Ok(());
        }
        let is_first = before.is_some_and(|before| before.last_attempt.is_none());
        self.latencies.stage(settlement.lane, attempt, is_first);
        let delivered = attempt.outcome == Outcome::Delivered;
        let latency_us = attempt.latency.0 / 1_000;
        self.ledger.count(self.sql, settlement.lane, |counts| {
            if delivered {
                counts.latency_us = counts.latency_us.saturating_add(latency_us);
            } else {
                counts.failed_attempts += 1;
            }
        })?;
        // A success is written with the delivery itself.
        if before.is_some() && settlement.fate != Fate::Delivered {
            self.sql
                .prepare_cached(
                    "UPDATE deliveries SET last_attempt = ?2, status = ?3, error = ?4 WHERE delivery = ?1",
                )?
                .execute(params![settlement.delivery, attempt.at, attempt.status, error])?;
        }
        Ok(())
    }

    /// A fact, whoever tells it and however late.
    fn deliver(&mut self, settlement: &Settlement, before: &Before) -> Result<SettleResult> {
        if before.place == Place::Delivered {
            return Ok(SettleResult::Absent);
        }
        let attempt = settlement.attempt.as_ref();
        let update = "UPDATE deliveries SET state = 1, at = ?2, attempts = max(attempts, ?3),
            last_attempt = coalesce(?4, last_attempt), status = ?5, error = NULL, reason = NULL
            WHERE delivery = ?1";
        at_hand(&mut self.hot.deliver, self.sql, update)?.execute(params![
            settlement.delivery,
            self.now,
            settlement.attempts,
            attempt.map(|attempt| attempt.at),
            attempt.and_then(|attempt| attempt.status),
        ])?;
        let (bytes, tried) = (before.bytes, before.attempts > 0);
        let place = before.place;
        self.ledger.count(self.sql, settlement.lane, |counts| {
            match place {
                Place::Waiting => counts.leave(bytes, tried),
                Place::Dead => {
                    counts.dead = counts.dead.saturating_sub(1);
                    counts.dead_kept = counts.dead_kept.saturating_sub(1);
                }
                Place::Coalesced => counts.coalesced = counts.coalesced.saturating_sub(1),
                Place::Delivered => {}
            }
            counts.delivered += 1;
        })?;
        self.written.settled += 1;
        Ok(SettleResult::Applied)
    }

    fn retry(&mut self, settlement: &Settlement, before: &Before, due: StoreTime) -> Result<SettleResult> {
        self.sql
            .prepare_cached("UPDATE deliveries SET at = ?2, attempts = ?3 WHERE delivery = ?1")?
            .execute(params![settlement.delivery, due, settlement.attempts])?;
        self.fronts.add(settlement.lane, due);
        if before.attempts == 0 && settlement.attempts > 0 {
            self.ledger.count(self.sql, settlement.lane, |counts| counts.retrying += 1)?;
        } else if before.attempts > 0 && settlement.attempts == 0 {
            self.ledger.count(self.sql, settlement.lane, |counts| {
                counts.retrying = counts.retrying.saturating_sub(1);
            })?;
        }
        Ok(SettleResult::Applied)
    }

    fn die(&mut self, settlement: &Settlement, before: &Before, reason: Reason) -> Result<SettleResult> {
        if settlement.attempts != before.attempts {
            self.sql
                .prepare_cached("UPDATE deliveries SET attempts = ?2 WHERE delivery = ?1")?
                .execute(params![settlement.delivery, settlement.attempts])?;
        }
        self.bury(settlement.lane, settlement.delivery, before.bytes, before.attempts, reason)?;
        Ok(SettleResult::Applied)
    }
}

/// As much of an error as is kept.
fn shortened(error: &str) -> &str {
    &error[..error.floor_char_boundary(Attempt::ERROR_BYTES_MAX)]
}
