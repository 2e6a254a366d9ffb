//! The outcomes of attempts: delivered, retried later, given up, or released.

use super::dead::DeadRows;
use super::subscribe::SubscriberRows;
use crate::command::{Attempt, AttemptOutcome, Fate, KeptAnswer, Reason, Settlement};
use crate::engine::{DeliveryId, StoreTime};
use crate::lane::LaneState;
use crate::latency::Gathered;
use crate::queue_cache::Waiting;
use crate::read::Place;
use crate::reply::{Reply, SettleResult};

pub(crate) struct Before {
    pub(crate) place: Place,
    pub(crate) attempts: u32,
    pub(crate) bytes: u64,
    pub(crate) last_attempt: Option<StoreTime>,
    pub(crate) due: StoreTime,
}

impl From<Waiting> for Before {
    fn from(Waiting { attempts, bytes, last_attempt, due, .. }: Waiting) -> Self {
        Self { place: Place::Waiting, attempts, bytes, last_attempt, due }
    }
}

pub(crate) trait AttemptRows: DeadRows + SubscriberRows {
    fn before(&mut self, settlement: &Settlement) -> Result<Option<Before>, Self::Error>;

    /// Whether the delivery's event was not erased.
    fn has_content(&mut self, delivery: DeliveryId) -> Result<bool, Self::Error>;

    /// Writes an attempt, linked to the previous one, and its answer in place of the one in that slot. Returns false if
    /// the attempt was written already.
    fn insert_attempt(
        &mut self,
        settlement: &Settlement,
        attempt: &Attempt,
        before: Option<&Before>,
        capped: bool,
        slot: Option<i16>,
    ) -> Result<bool, Self::Error>;

    /// Writes the delivery's last attempt. For a delivered one, [`Self::set_delivered`] may do it instead.
    fn set_last_attempt(&mut self, settlement: &Settlement, attempt: &Attempt) -> Result<(), Self::Error>;

    fn set_delivered(&mut self, settlement: &Settlement) -> Result<(), Self::Error>;

    fn set_retry(&mut self, settlement: &Settlement, due: StoreTime) -> Result<(), Self::Error>;

    fn set_attempts(&mut self, settlement: &Settlement) -> Result<(), Self::Error>;

    fn latencies(&mut self) -> &mut Gathered;

    fn settled(&mut self, _: &Settlement) {}

    fn settle(&mut self, settlements: &[Settlement]) -> Result<Reply, Self::Error> {
        let mut results = Vec::with_capacity(settlements.len());
        for settlement in settlements {
            results.push(self.settle_one(settlement)?);
            let Settlement { lane, term, delivery, .. } = *settlement;
            self.cache().settle(lane, term, delivery);
            self.settled(settlement);
        }
        Ok(Reply::Settled(results))
    }

    fn settle_one(&mut self, settlement: &Settlement) -> Result<SettleResult, Self::Error> {
        let lane = self.lane(settlement.lane)?;
        let is_current = lane.is_some_and(|lane| lane.term == settlement.term);
        let capped = lane.is_some_and(|lane| lane.capped);
        let before = self.before(settlement)?;
        if let Some(attempt) = &settlement.attempt {
            let has_content = match before.as_ref().map(|before| before.place) {
                Some(Place::Waiting | Place::Dead) => true,
                Some(Place::Delivered | Place::Coalesced) => self.has_content(settlement.delivery)?,
                Some(Place::Forgotten) | None => false,
            };
            let attempt = if has_content { attempt } else { &attempt.erased() };
            self.record_attempt(settlement, attempt, before.as_ref(), capped)?;
        }
        // In any state of the delivery.
        if is_current {
            self.disable_after(settlement)?;
        }
        let Some(before) = before else { return Ok(SettleResult::Absent) };
        if !is_current {
            self.disturb(settlement.lane)?;
        }
        match settlement.fate {
            Fate::Delivered => self.deliver(settlement, &before),
            Fate::Released => {
                // A claim beside this commit skips the delivery, so the next claim must look there again.
                if before.place == Place::Waiting {
                    self.arrive(settlement.lane, before.due)?;
                }
                Ok(SettleResult::Applied)
            }
            Fate::Retry { .. } | Fate::Dead(_) if !is_current => Ok(SettleResult::Stale),
            Fate::Retry { .. } | Fate::Dead(_) if before.place != Place::Waiting => Ok(SettleResult::Absent),
            Fate::Retry { due } => self.retry(settlement, &before, due),
            Fate::Dead(reason) => {
                if settlement.attempts != before.attempts {
                    self.set_attempts(settlement)?;
                }
                self.set_dead(settlement.lane, settlement.delivery, reason)?;
                let tried = before.attempts > 0;
                self.count_buried(settlement.lane, settlement.delivery, before.bytes, tried)?;
                Ok(SettleResult::Applied)
            }
        }
    }

    fn disable_after(&mut self, settlement: &Settlement) -> Result<(), Self::Error> {
        let Settlement { lane, fate, disables, .. } = *settlement;
        if fate == Fate::Dead(Reason::Gone) {
            let reason = format!("its endpoint answered 410 Gone at {}", self.now());
            return if self.accepts(lane)? { self.disable(lane, reason.into()) } else { Ok(()) };
        }
        let Some((disabled, handled)) = disables else { return Ok(()) };
        let is_active = self.lane(lane)?.is_some_and(|lane| lane.state == LaneState::Active);
        if is_active && self.retried(lane)? <= handled {
            self.disable(lane, format!("{disabled} at {}", self.now()).into())?;
        }
        Ok(())
    }

    fn record_attempt(
        &mut self,
        settlement: &Settlement,
        attempt: &Attempt,
        before: Option<&Before>,
        capped: bool,
    ) -> Result<(), Self::Error> {
        let slot = match &attempt.details.answer {
            Some(_) => {
                self.lane(settlement.lane)?.map(|lane| lane.counts.failed_attempts % KeptAnswer::OF_LANE_MAX)
            }
            None => None,
        };
        let slot = slot.and_then(|slot| i16::try_from(slot).ok());
        // An attempt that is reported twice counts once.
        if !self.insert_attempt(settlement, attempt, before, capped, slot)? {
            return Ok(());
        }
        let is_first = before.is_some_and(|before| before.last_attempt.is_none());
        self.latencies().stage(settlement.lane, attempt, is_first);
        let delivered = attempt.outcome == AttemptOutcome::Delivered;
        let latency_us = attempt.latency.0 / 1_000;
        self.count(settlement.lane, |counts| {
            if delivered {
                counts.latency_us = counts.latency_us.saturating_add(latency_us);
            } else {
                counts.failed_attempts += 1;
            }
        })?;
        // The first success is written with the delivery itself.
        let is_written = |place| settlement.fate == Fate::Delivered && place != Place::Delivered;
        if before.is_none_or(|before| is_written(before.place)) {
            return Ok(());
        }
        self.set_last_attempt(settlement, attempt)
    }

    /// An arrived delivery stays delivered, even if a former owner reports it late.
    fn deliver(&mut self, settlement: &Settlement, before: &Before) -> Result<SettleResult, Self::Error> {
        if before.place == Place::Delivered {
            return Ok(SettleResult::Absent);
        }
        self.set_delivered(settlement)?;
        let (bytes, tried, place) = (before.bytes, before.attempts > 0, before.place);
        self.count(settlement.lane, |counts| {
            match place {
                Place::Waiting => counts.leave(bytes, tried),
                Place::Dead => {
                    counts.dead = counts.dead.saturating_sub(1);
                    counts.dead_kept = counts.dead_kept.saturating_sub(1);
                }
                Place::Coalesced | Place::Forgotten => {
                    counts.coalesced = counts.coalesced.saturating_sub(1);
                }
                Place::Delivered => {}
            }
            counts.delivered += 1;
        })?;
        self.written().settled += 1;
        Ok(SettleResult::Applied)
    }

    fn retry(
        &mut self,
        settlement: &Settlement,
        before: &Before,
        due: StoreTime,
    ) -> Result<SettleResult, Self::Error> {
        self.set_retry(settlement, due)?;
        self.arrive(settlement.lane, due)?;
        let (was, is) = (before.attempts > 0, settlement.attempts > 0);
        if was != is {
            self.count(settlement.lane, |counts| {
                counts.retrying = if is { counts.retrying + 1 } else { counts.retrying.saturating_sub(1) };
            })?;
        }
        Ok(SettleResult::Applied)
    }
}

pub(crate) fn shortened(error: &str) -> &str {
    &error[..error.floor_char_boundary(Attempt::ERROR_BYTES_MAX)]
}
