//! Dead letters: burying, forgetting, redriving.

use rusqlite::{OptionalExtension, Result, params};

use super::Work;
use super::values::int;
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use crate::store::command::{Dead, Forget, Reason, Redrive};
use crate::store::operate::{last_if_full, named};
use crate::store::read::Place;
use crate::store::reply::{Redriven, Reply};
use crate::store::room::Bounded;

const OLDEST: &str = "SELECT delivery FROM deliveries INDEXED BY deliveries_dead
    WHERE state = 2 AND delivery > ?1 ORDER BY delivery LIMIT ?2";

const OLDEST_OF_LANE: &str = "SELECT delivery FROM deliveries INDEXED BY deliveries_dead_of_lane
    WHERE state = 2 AND delivery > ?1 AND lane = ?3 ORDER BY delivery LIMIT ?2";

/// A dead letter that may be redriven.
struct Letter {
    lane: LaneId,
    bytes: u64,
    ttl: Nanos,
}

impl Work<'_> {
    /// Makes a dead letter of a waiting delivery, and forgets the oldest if there are too many.
    pub(super) fn bury(
        &mut self,
        lane: LaneId,
        delivery: DeliveryId,
        bytes: u64,
        attempts_before: u32,
        reason: Reason,
    ) -> Result<()> {
        // Figures that make no sense would keep whoever lists dead letters from reading any.
        self.sql
            .prepare_cached(
                "UPDATE deliveries SET state = 2, at = ?2, reason = ?3, bytes = max(bytes, 0), ttl = max(ttl, 0),
                 attempts = min(max(attempts, 0), 4294967295), expires = max(expires, 0),
                 last_attempt = max(last_attempt, 0) WHERE delivery = ?1",
            )?
            .execute(params![delivery, self.now, reason])?;
        self.held.leave(lane, delivery);
        self.fronts.fresh.doubt(lane);
        self.ledger.count(self.sql, lane, |counts| {
            counts.leave(bytes, attempts_before > 0);
            counts.dead += 1;
            counts.dead_kept += 1;
        })?;
        self.written.settled += 1;
        let kept = self.ledger.lane(self.sql, lane)?.map_or(0, |lane| lane.counts.dead_kept);
        if kept > self.rules.limits.dead_per_lane_max {
            self.forget_oldest(Some(lane))?;
        }
        if self.ledger.totals.counts.dead_kept > self.rules.limits.dead_max {
            self.forget_oldest(None)?;
        }
        Ok(())
    }

    pub(super) fn forget(&mut self, forget: &Forget) -> Result<Reply> {
        let letters = self.chosen(&forget.which, forget.after, forget.max)?;
        let mut rows = 0;
        for letter in &letters {
            rows += u64::from(self.forget_one(*letter)?);
        }
        Ok(Reply::Forgotten { rows, last: last_if_full(&letters, forget.max) })
    }

    fn forget_oldest(&mut self, lane: Option<LaneId>) -> Result<()> {
        for letter in self.oldest(lane, DeliveryId(0), 1)? {
            self.written.forgotten += u64::from(self.forget_one(letter)?);
        }
        Ok(())
    }

    /// Deletes a dead letter. Its body goes with its event.
    pub(super) fn forget_one(&mut self, letter: DeliveryId) -> Result<bool> {
        let lane: Option<LaneId> = self
            .sql
            .prepare_cached("DELETE FROM deliveries WHERE delivery = ?1 AND state = 2 RETURNING lane")?
            .query_row([letter], |row| row.get(0))
            .optional()?;
        let Some(lane) = lane else { return Ok(false) };
        self.ledger.count(self.sql, lane, |counts| counts.dead_kept = counts.dead_kept.saturating_sub(1))?;
        Ok(true)
    }

    /// So many of those that are meant, the oldest first; of those that are named, some may be no dead letters.
    fn chosen(&self, which: &Dead, after: Option<DeliveryId>, max: u32) -> Result<Vec<DeliveryId>> {
        let after = after.unwrap_or(DeliveryId(0));
        let lane = match which {
            Dead::All => None,
            Dead::Of(lane) => Some(*lane),
            Dead::These(letters) => return Ok(named(letters, after, max)),
        };
        self.oldest(lane, after, max)
    }

    pub(super) fn oldest(
        &self,
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

    pub(super) fn redrive(&mut self, redrive: &Redrive) -> Result<Reply> {
        let letters = self.chosen(&redrive.which, redrive.after, redrive.max)?;
        let mut redriven = Redriven::default();
        for letter in &letters {
            match self.redrive_one(*letter)? {
                Redrove::Waits(lane) => redriven.rows.push((lane, *letter)),
                Redrove::StaysDead => redriven.kept += 1,
                Redrove::WasNotDead => {}
            }
        }
        redriven.last = last_if_full(&letters, redrive.max);
        if !redriven.rows.is_empty() {
            self.ledger.change().stirred += 1;
        }
        Ok(Reply::Redriven(redriven))
    }

    fn redrive_one(&mut self, delivery: DeliveryId) -> Result<Redrove> {
        let Some(letter) = self.letter(delivery)? else { return Ok(Redrove::WasNotDead) };
        let accepts = self.ledger.lane(self.sql, letter.lane)?.is_some_and(|lane| lane.state.accepts());
        if !accepts || !self.has_room(letter.lane, letter.bytes)? {
            return Ok(Redrove::StaysDead);
        }
        let expires = self.after(letter.ttl);
        // Nobody waits in its place any more, so it is not to be replaced either.
        self.sql
            .prepare_cached(
                "UPDATE deliveries SET state = 0, at = ?2, attempts = 0, expires = ?3, reason = NULL,
                 coalesce = NULL WHERE delivery = ?1",
            )?
            .execute(params![delivery, self.now, expires])?;
        self.note_new_expiry(delivery, expires)?;
        self.fronts.add(letter.lane, self.now);
        self.ledger.count(self.sql, letter.lane, |counts| {
            counts.dead = counts.dead.saturating_sub(1);
            counts.dead_kept = counts.dead_kept.saturating_sub(1);
            counts.waiting += 1;
            counts.waiting_bytes += letter.bytes;
        })?;
        Ok(Redrove::Waits(letter.lane))
    }

    fn letter(&self, delivery: DeliveryId) -> Result<Option<Letter>> {
        self.sql
            .prepare_cached("SELECT lane, bytes, ttl FROM deliveries WHERE delivery = ?1 AND state = ?2")?
            .query_row(params![delivery, Place::Dead], |row| {
                Ok(Letter { lane: row.get(0)?, bytes: row.get(1)?, ttl: row.get(2)? })
            })
            .optional()
    }

    /// Dead letters from before a moment, of those after a place: how many were looked at is told by the place
    /// returned.
    pub(super) fn forget_old(
        &mut self,
        before: StoreTime,
        after: DeliveryId,
        max: u32,
    ) -> Result<(u64, Option<DeliveryId>)> {
        let letters: Vec<(DeliveryId, StoreTime)> = self
            .sql
            .prepare_cached(
                "SELECT delivery, at FROM deliveries INDEXED BY deliveries_dead
                 WHERE state = 2 AND delivery > ?1 ORDER BY delivery LIMIT ?2",
            )?
            .query_map([int(after.0), i64::from(max)], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_>>()?;
        let mut forgotten = 0;
        for (letter, at) in &letters {
            if *at < before {
                forgotten += u64::from(self.forget_one(*letter)?);
            }
        }
        let full = letters.len() == usize::try_from(max).unwrap_or(usize::MAX);
        Ok((forgotten, letters.last().map(|(letter, _)| *letter).filter(|_| full)))
    }
}

/// What became of a redriven dead letter.
enum Redrove {
    Waits(LaneId),
    StaysDead,
    WasNotDead,
}
