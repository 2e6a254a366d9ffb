//! What became of deliveries. The hottest path: all of it in memory, between one reading and one writing.

use super::recorded::NewAttempt;
use super::rows::Delivery;
use super::values::storable;
use super::{Result, Work};
use crate::engine::{LaneId, StoreTime};
use crate::store::command::{Attempt, Fate, Outcome, Reason, Settlement};
use crate::store::read::Place;
use crate::store::reply::{Reply, SettleResult};

impl Work<'_> {
    pub(super) fn settle(&mut self, settlements: &[Settlement]) -> Result<Reply> {
        let mut results = Vec::with_capacity(settlements.len());
        for settlement in settlements {
            results.push(self.settle_one(settlement)?);
            let Settlement { lane, term, delivery, .. } = *settlement;
            if !self.held.give_back(lane, term, delivery) {
                self.held.leave(lane, delivery);
            }
            self.rows.note(delivery);
            self.queues.forget_row(lane, delivery);
        }
        Ok(Reply::Settled(results))
    }

    fn settle_one(&mut self, settlement: &Settlement) -> Result<SettleResult> {
        let lane = settlement.lane;
        let current = self.ledger.lane(lane)?.map(|lane| lane.term);
        if self.rows.may_record(settlement.delivery) {
            self.flush()?;
            self.rows.look_again(settlement.delivery);
        }
        let before = self.rows.delivery(self.sql, lane, settlement.delivery)?.cloned();
        if let Some(attempt) = &settlement.attempt {
            self.record_attempt(settlement, attempt, before.as_ref())?;
        }
        let is_stale = current != Some(settlement.term);
        // That the endpoint is gone is a fact, whatever became of the delivery.
        if settlement.fate == Fate::Dead(Reason::Gone) && !is_stale {
            self.disable(lane)?;
        }
        let Some(before) = before else { return Ok(SettleResult::Absent) };
        if is_stale {
            self.ledger.disturb(lane)?;
        }
        match settlement.fate {
            Fate::Delivered => self.deliver(settlement, &before),
            Fate::Released => {
                // A claim beside this commit passes over it, and goes on behind it: the next one is to look there again.
                if before.place == Place::Waiting {
                    self.ledger.arrive(lane, before.at)?;
                }
                Ok(SettleResult::Applied)
            }
            Fate::Retry { .. } | Fate::Dead(_) if is_stale => Ok(SettleResult::Stale),
            Fate::Retry { .. } | Fate::Dead(_) if before.place != Place::Waiting => Ok(SettleResult::Absent),
            Fate::Retry { due } => self.retry(settlement, &before, due),
            Fate::Dead(reason) => self.die(settlement, &before, reason),
        }
    }

    /// Writes an attempt down, and lets the delivery's chain begin there.
    fn record_attempt(
        &mut self,
        settlement: &Settlement,
        attempt: &Attempt,
        before: Option<&Delivery>,
    ) -> Result<()> {
        let (lane, delivery) = (settlement.lane, settlement.delivery);
        let last = before.and_then(|before| before.last_attempt);
        // The same attempt told twice counts once.
        if self.is_known(settlement, attempt, before)? {
            return Ok(());
        }
        let error = attempt.error.as_deref().map(shortened);
        let status = attempt.status.map(i32::from);
        let is_first = before.is_some_and(|before| before.last_attempt.is_none());
        let capped = self.ledger.lane(lane)?.is_some_and(|lane| lane.capped);
        self.rows.attempts.push(NewAttempt {
            at: attempt.at,
            delivery,
            lane,
            number: settlement.attempts,
            latency: attempt.latency,
            outcome: attempt.outcome,
            status,
            error: error.clone(),
            body_hash: attempt.body_hash,
            before: last,
            capped,
            is_first,
        });
        self.gathered.stage(lane, attempt, is_first);
        let delivered = attempt.outcome == Outcome::Delivered;
        let latency_us = attempt.latency.0 / 1_000;
        self.ledger.count(lane, |counts| {
            if delivered {
                counts.latency_us = counts.latency_us.saturating_add(latency_us);
            } else {
                counts.failed_attempts += 1;
            }
        })?;
        if before.is_some() {
            self.rows.change(delivery, |row| {
                row.last_attempt = Some(attempt.at);
                row.status = status;
                row.error = error;
            });
        }
        Ok(())
    }

    /// Whether an attempt was recorded before. One that is later than the last of its delivery is new.
    fn is_known(
        &self,
        settlement: &Settlement,
        attempt: &Attempt,
        before: Option<&Delivery>,
    ) -> Result<bool> {
        if before.is_some_and(|before| before.last_attempt.is_none_or(|last| last < attempt.at)) {
            return Ok(false);
        }
        let delivery = settlement.delivery;
        if self.rows.attempts.iter().any(|new| new.delivery == delivery && new.at == attempt.at) {
            return Ok(true);
        }
        let query = "SELECT 1 FROM attempts WHERE at = $1 AND delivery = $2";
        Ok(self.sql.exists(query, &[&attempt.at, &delivery])?)
    }

    /// A fact, whoever tells it and however late.
    fn deliver(&mut self, settlement: &Settlement, before: &Delivery) -> Result<SettleResult> {
        if before.place == Place::Delivered {
            return Ok(SettleResult::Absent);
        }
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
        let (bytes, tried, place) = (before.bytes, before.attempts > 0, before.place);
        self.ledger.count(settlement.lane, |counts| {
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

    fn retry(&mut self, settlement: &Settlement, before: &Delivery, due: StoreTime) -> Result<SettleResult> {
        self.rows.change(settlement.delivery, |row| {
            row.at = due;
            row.attempts = settlement.attempts;
        });
        self.ledger.arrive(settlement.lane, due)?;
        let (was, is) = (before.attempts > 0, settlement.attempts > 0);
        self.count_retrying(settlement.lane, was, is)?;
        Ok(SettleResult::Applied)
    }

    fn count_retrying(&mut self, lane: LaneId, was: bool, is: bool) -> Result<()> {
        if was == is {
            return Ok(());
        }
        self.ledger.count(lane, |counts| {
            counts.retrying = if is { counts.retrying + 1 } else { counts.retrying.saturating_sub(1) };
        })
    }

    fn die(&mut self, settlement: &Settlement, before: &Delivery, reason: Reason) -> Result<SettleResult> {
        let now = self.now;
        self.rows.change(settlement.delivery, |row| {
            row.place = Place::Dead;
            row.at = now;
            row.attempts = settlement.attempts;
            row.reason = Some(reason);
        });
        self.count_buried(settlement.lane, settlement.delivery, before.bytes, before.attempts > 0)?;
        Ok(SettleResult::Applied)
    }
}

/// As much of an error as is kept.
fn shortened(error: &str) -> Box<str> {
    storable(&error[..error.floor_char_boundary(Attempt::ERROR_BYTES_MAX)]).into()
}
