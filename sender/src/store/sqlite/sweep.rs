//! Burying what nobody will send: what has expired, and what removed subscribers were owed. In small steps.

use rusqlite::{Result, params};

use super::damaged::{is_about_the_row, or_least};
use super::values::size;
use super::{Work, latencies};
use crate::engine::{DeliveryId, LaneId, StoreTime};
use crate::store::command::{Reason, Sweep};
use crate::store::reply::{Reply, Swept};
use crate::store::room::Bounded;

/// What has expired, the longest first. Its rows are read one by one, so that one that can't be read stops no other.
pub(super) const EXPIRED: &str = "SELECT delivery FROM deliveries INDEXED BY deliveries_expiring
    WHERE state = 0 AND expires <= ?1 ORDER BY expires, delivery";

/// One expired delivery.
struct Expired {
    delivery: DeliveryId,
    lane: LaneId,
    bytes: u64,
    attempts: u32,
    /// Its figures make no sense.
    is_damaged: bool,
}

impl Work<'_> {
    pub(super) fn sweep(&mut self, sweep: Sweep) -> Result<Reply> {
        let (corrected, correcting) = self.correct_times(sweep.max)?;
        let expired = self.expired(sweep.max)?;
        for row in &expired {
            let reason = if row.is_damaged { Reason::Unreadable } else { Reason::Expired };
            self.bury(row.lane, row.delivery, row.bytes, row.attempts, reason)?;
        }
        let expired = size(expired.len());
        let left = sweep.max.saturating_sub(u32::try_from(expired).unwrap_or(u32::MAX));
        let gone = self.sweep_removed(left)?;
        self.forget_owners()?;
        // Whoever put in such a row may have deleted it again.
        self.renumber_outbox()?;
        Ok(Reply::Swept(Swept {
            expired,
            gone,
            corrected,
            more: correcting || expired + gone >= u64::from(sweep.max),
        }))
    }

    /// The longest expired that nobody holds. A row of which nobody can tell whose it is stops no other.
    fn expired(&self, max: u32) -> Result<Vec<Expired>> {
        let mut query = self.sql.prepare_cached(EXPIRED)?;
        let mut rows = query.query([self.surely_before(self.now)])?;
        let mut expired = Vec::new();
        while expired.len() < usize::try_from(max).unwrap_or(usize::MAX)
            && let Some(row) = rows.next()?
        {
            match row.get(0).and_then(|delivery| self.expired_row(delivery)) {
                Err(error) if is_about_the_row(&error) => {}
                // What is handed out is its holder's to give up.
                Ok(row) if self.held.has(row.lane, row.delivery) => {}
                row => expired.push(row?),
            }
        }
        Ok(expired)
    }

    fn expired_row(&self, delivery: DeliveryId) -> Result<Expired> {
        self.sql
            .prepare_cached("SELECT lane, bytes, attempts FROM deliveries WHERE delivery = ?1")?
            .query_row([delivery], |row| {
                let (lane, bytes, attempts) = (row.get(0)?, row.get(1), row.get(2));
                let is_damaged = bytes.is_err() || attempts.is_err();
                Ok(Expired {
                    delivery,
                    lane,
                    bytes: or_least(bytes)?,
                    attempts: or_least(attempts)?,
                    is_damaged,
                })
            })
    }

    fn sweep_removed(&mut self, max: u32) -> Result<u64> {
        // What this commit removed must be seen.
        self.ledger.flush(self.sql, self.now)?;
        let lanes: Vec<LaneId> = self
            .sql
            .prepare_cached("SELECT lane FROM lanes INDEXED BY lanes_removed WHERE state = 3 ORDER BY lane")?
            .query_map([], |row| row.get(0))?
            .collect::<Result<_>>()?;
        let mut gone = 0;
        for lane in lanes {
            let left = u64::from(max) - gone;
            if left == 0 {
                break;
            }
            if self.ledger.lane(self.sql, lane)?.is_some_and(|lane| lane.counts.waiting > 0) {
                gone += self.shed_rows(lane, u32::try_from(left).unwrap_or(max), Reason::Gone)?;
            }
        }
        Ok(gone)
    }

    /// Deletes removed subscribers of whom nothing is left.
    pub(super) fn delete_removed(&mut self, removed_before: StoreTime) -> Result<()> {
        self.ledger.flush(self.sql, self.now)?;
        let lanes: Vec<LaneId> = self
            .sql
            .prepare_cached(
                "SELECT l.lane FROM lanes l INDEXED BY lanes_removed JOIN subscribers s ON s.lane = l.lane
                 WHERE l.state = 3 AND s.removed < ?1",
            )?
            .query_map([removed_before], |row| row.get(0))?
            .collect::<Result<_>>()?;
        for lane in lanes {
            let counts = self.ledger.lane(self.sql, lane)?.map(|lane| lane.counts);
            let empty = counts.is_some_and(|counts| counts.waiting == 0 && counts.dead_kept == 0);
            if empty {
                self.sql.prepare_cached("DELETE FROM subscribers WHERE lane = ?1")?.execute(params![lane])?;
                self.sql.prepare_cached("DELETE FROM lanes WHERE lane = ?1")?.execute(params![lane])?;
                latencies::forget_lane(self.sql, lane)?;
                self.sql.prepare_cached("DELETE FROM capped WHERE lane = ?1")?.execute(params![lane])?;
                self.ledger.forget(lane);
            }
        }
        Ok(())
    }
}
