//! Burying what nobody will send: what has expired, and what removed subscribers were owed. In small steps.
//!
//! What expires is noted once it has waited for [`NOTED_AFTER`], so that what is delivered sooner costs no note. Whatever would
//! expire sooner is noted when it is recorded.

use rusqlite::{OptionalExtension, Result, params};

use super::damaged::{is_about_the_disk, is_about_the_row, or_least};
use super::unswept::NOTED_AFTER;
use super::values::{int, size};
use super::{Work, latencies};
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use crate::store::command::{Reason, Sweep};
use crate::store::reply::{Reply, Swept};
use crate::store::room::Bounded;

/// What expires, the first first, with what was left behind. Rows are read one by one, so that one that can't be read stops no
/// other.
pub(super) const EXPIRING: &str = "SELECT expires, delivery FROM expiring ORDER BY expires, delivery";

/// No sweep deletes more of what was left behind.
const LEFT_BEHIND_MAX: usize = 8_192;

/// A delivery that expires within that is noted when it is recorded, since sweeps come to it later. It is twice as long as they
/// leave it alone: a flood may keep them busy.
const SHORT: Nanos = NOTED_AFTER.times(2);

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
        let noting = self.note_expiring()?;
        let (expired, clearing) = self.expired(sweep.max)?;
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
            more: correcting || noting || clearing || expired + gone >= u64::from(sweep.max),
        }))
    }

    /// Notes when those expire that still wait, of the deliveries that nobody has looked at and that may be older than
    /// [`NOTED_AFTER`]. Says whether there may be more to look at.
    fn note_expiring(&mut self) -> Result<bool> {
        let newest = self.ledger.totals.next_delivery - 1;
        let old = self.places.unswept.old(self.now, newest);
        let kept: u64 =
            self.sql.prepare_cached("SELECT delivery FROM swept")?.query_row([], |row| row.get(0))?;
        let after = self.places.unswept.after(kept);
        if after >= old {
            return Ok(false);
        }
        let (noted, last) = self.note_some(after, old)?;
        if self.places.unswept.reach(last, kept) || noted > 0 {
            self.sql.prepare_cached("UPDATE swept SET delivery = ?1")?.execute([int(last)])?;
        }
        Ok(last < old)
    }

    /// Notes the first of those after one delivery and up to another: how many, and up to which. Where some cannot be read, SQLite
    /// lets nothing more be written in this transaction: it fails, and the next sweeps get past them. A claim that comes to them
    /// finds out what is to become of them.
    fn note_some(&mut self, after: u64, old: u64) -> Result<(usize, u64)> {
        let last = self.places.unswept.step(after).min(old);
        let noted = self
            .sql
            .prepare_cached(
                "INSERT OR IGNORE INTO expiring SELECT expires, delivery FROM deliveries
                 WHERE delivery > ?1 AND delivery <= ?2 AND state = 0",
            )?
            .execute([int(after), int(last)]);
        if noted.as_ref().is_err_and(|error| is_about_the_row(error) || is_about_the_disk(error)) {
            self.places.unswept.fail(after, last);
        }
        Ok((noted?, last))
    }

    /// A delivery that was just recorded may expire before a sweep looks at it: then it is noted at once.
    pub(super) fn note_if_short(&self, delivery: DeliveryId, expires: StoreTime) -> Result<()> {
        if expires.since(self.now) <= SHORT { self.note_new_expiry(delivery, expires) } else { Ok(()) }
    }

    /// A delivery expires at another time than it did. What is not noted yet will be.
    pub(super) fn note_new_expiry(&self, delivery: DeliveryId, expires: StoreTime) -> Result<()> {
        self.sql
            .prepare_cached("INSERT OR IGNORE INTO expiring VALUES (?1, ?2)")?
            .execute(params![expires, delivery])?;
        Ok(())
    }

    /// The longest expired that nobody holds. A row of which nobody can tell whose it is stops no other; one that the disk does
    /// not give stops this commit alone. What was left behind before them, and before the next that expires, is deleted. Says
    /// whether more of it may be.
    fn expired(&mut self, max: u32) -> Result<(Vec<Expired>, bool)> {
        let before = int(self.surely_before(self.now).0);
        let mut query = self.sql.prepare_cached(EXPIRING)?;
        let mut rows = query.query([])?;
        let (mut expired, mut left_behind) = (Vec::new(), Vec::new());
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        while expired.len() < max
            && left_behind.len() < LEFT_BEHIND_MAX
            && let Some(row) = rows.next()?
        {
            let (expires, delivery): (i64, DeliveryId) = (row.get(0)?, row.get(1)?);
            if self.places.deliveries_passed_over.has(delivery.0) {
                continue;
            }
            match self.expiring_row(delivery, expires) {
                Err(error) if is_about_the_row(&error) => {}
                Err(error) => {
                    self.places.deliveries_passed_over.note(delivery.0, &error);
                    return Err(error);
                }
                Ok(None) => left_behind.push((expires, delivery)),
                Ok(_) if expires > before => break,
                // What is handed out is its holder's to give up.
                Ok(Some(row)) if self.held.has(row.lane, row.delivery) => {}
                Ok(Some(row)) => expired.push(row),
            }
        }
        let mut delete =
            self.sql.prepare_cached("DELETE FROM expiring WHERE expires = ?1 AND delivery = ?2")?;
        for (expires, delivery) in &left_behind {
            delete.execute(params![expires, delivery])?;
        }
        Ok((expired, left_behind.len() >= LEFT_BEHIND_MAX))
    }

    /// A delivery, if it waits and expires then.
    fn expiring_row(&self, delivery: DeliveryId, expires: i64) -> Result<Option<Expired>> {
        self.sql
            .prepare_cached(
                "SELECT lane, bytes, attempts FROM deliveries WHERE delivery = ?1 AND state = 0 AND expires = ?2",
            )?
            .query_row(params![delivery, expires], |row| {
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
            .optional()
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
