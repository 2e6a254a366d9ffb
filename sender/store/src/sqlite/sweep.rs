//! Gives up deliveries that expired or belong to removed subscribers, in small steps.
//!
//! A delivery's expiry is noted after it has waited for [`NOTED_AFTER`], so that faster deliveries cost no note. One
//! that expires sooner is noted when it is recorded.

use std::sync::Arc;

use rusqlite::{Error, OptionalExtension, Result, params};

use super::erase::overwrite_freed_pages;
use super::event_id::StoredEventId;
use super::failure::{is_about_the_disk, is_about_the_row, or_least};
use super::lease::STILL_COUNTS;
use super::values::{int, size};
use super::{Work, latencies};
use crate::command::Reason;
use crate::commit::Rows;
use crate::commit::lease::MARGIN;
use crate::commit::sweep::SweepRows;
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use crate::queue_cache::NOTED_AFTER;
use crate::reply::Purged;

/// Noted expiries, the earliest first, including leftovers. Rows are read one by one, so that an unreadable one stops
/// no other.
pub(super) const EXPIRING: &str = "SELECT expires, delivery FROM expiring ORDER BY expires, delivery";

const LEFT_BEHIND_MAX: usize = 8_192;

/// A delivery that expires within this time is noted when it is recorded. Twice the delay of sweeps, because a flood
/// may keep them busy.
const SHORT: Nanos = NOTED_AFTER.times(2);

/// Whether the row may be the reason for a failure.
fn may_be_the_row(error: &Error) -> bool {
    is_about_the_row(error) || is_about_the_disk(error)
}

struct Event {
    event: u64,
    in_part: Option<Arc<str>>,
    received: StoreTime,
    first_delivery: u64,
    deliveries: u64,
    first_body: u64,
    bodies: u64,
}

impl SweepRows for Work<'_> {
    fn prepare_sweep(&mut self, max: u32) -> Result<(u64, bool)> {
        let (corrected, correcting) = self.correct_times(max)?;
        Ok((corrected, self.index_expiring()? || correcting))
    }

    /// Skips rows with an unreadable lane; a disk error fails only this commit. Also deletes the leftovers that it
    /// passes.
    fn expired(&mut self, max: u32) -> Result<(Vec<(LaneId, DeliveryId, Reason)>, bool)> {
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
            if self.cache.scans.failed_deliveries.has(delivery.0) {
                continue;
            }
            match self.expiring_row(delivery, expires) {
                Err(error) if is_about_the_row(&error) => {}
                Err(error) => {
                    if may_be_the_row(&error) {
                        self.cache.scans.failed_deliveries.add(delivery.0);
                    }
                    return Err(error);
                }
                Ok(None) => left_behind.push((expires, delivery)),
                Ok(_) if expires > before => break,
                Ok(Some((lane, _))) if self.cache.has(lane, delivery) => {}
                Ok(Some((lane, reason))) => expired.push((lane, delivery, reason)),
            }
        }
        let mut delete =
            self.sql.prepare_cached("DELETE FROM expiring WHERE expires = ?1 AND delivery = ?2")?;
        for (expires, delivery) in &left_behind {
            delete.execute(params![expires, delivery])?;
        }
        Ok((expired, left_behind.len() >= LEFT_BEHIND_MAX))
    }

    fn removed_lanes(&mut self, _: u32) -> Result<Vec<LaneId>> {
        self.ledger.flush(self.sql, self.now)?;
        let lanes: Vec<LaneId> = self
            .sql
            .prepare_cached("SELECT lane FROM lanes INDEXED BY lanes_removed WHERE state = 3 ORDER BY lane")?
            .query_map([], |row| row.get(0))?
            .collect::<Result<_>>()?;
        let mut waiting = Vec::new();
        for lane in lanes {
            if self.lane(lane)?.is_some_and(|lane| lane.counts.waiting > 0) {
                waiting.push(lane);
            }
        }
        Ok(waiting)
    }

    fn ended_pauses(&mut self, max: u32) -> Result<Vec<LaneId>> {
        self.sql
            .prepare_cached(
                "SELECT lane FROM subscribers WHERE pause_until <= ?1 ORDER BY pause_until LIMIT ?2",
            )?
            .query_map(params![self.surely_before(self.now), max], |row| row.get(0))?
            .collect()
    }

    fn end_pause(&mut self, lane: LaneId) -> Result<bool> {
        let end = "UPDATE subscribers SET pause_reason = NULL, pause_until = NULL
                   WHERE lane = ?1 AND pause_until <= ?2";
        let ended = self.sql.prepare_cached(end)?.execute(params![lane, self.surely_before(self.now)])?;
        Ok(ended > 0)
    }

    fn tidy(&mut self) -> Result<()> {
        self.forget_owners()?;
        // An outbox row with a huge id may be gone now.
        self.renumber_outbox()
    }

    fn surely_before(&self, moment: StoreTime) -> StoreTime {
        StoreTime(moment.0.saturating_sub(self.rules.expiry_grace.0))
    }

    /// Overwrites no page that becomes free: that could double the writes, and fail on a full disk.
    fn purge_events(&mut self, before: StoreTime, max: u32, purged: &mut Purged) -> Result<bool> {
        overwrite_freed_pages(self.sql, false)?;
        let purged = self.purge_old_events(before, max, purged);
        overwrite_freed_pages(self.sql, true)?;
        purged
    }

    fn delete_attempts(&mut self, before: StoreTime, max: u32) -> Result<(u64, bool)> {
        let (at, delivery) = self.cache.scans.at.attempt.unwrap_or((StoreTime(0), DeliveryId(0)));
        let longest = StoreTime(self.now.0.saturating_sub(crate::engine::contract::WINDOW_LENGTH_MAX.0));
        let looked_at: Vec<(StoreTime, DeliveryId, bool)> = self
            .sql
            .prepare_cached(&format!(
                "SELECT a.at, a.delivery, {STILL_COUNTS} FROM attempts a
                 WHERE (a.at, a.delivery) > (?5, ?6) AND a.at < ?1 ORDER BY a.at, a.delivery LIMIT ?2"
            ))?
            .query_map(params![before, max, longest, MARGIN, at, delivery], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?
            .collect::<Result<_>>()?;
        let mut beside = 0;
        for delete in [
            "DELETE FROM resent WHERE (delivery, at) IN
                 (SELECT delivery, at FROM resent WHERE at < ?1 ORDER BY at LIMIT ?2)",
            "DELETE FROM answers WHERE rowid IN (SELECT rowid FROM answers WHERE at < ?1 ORDER BY at LIMIT ?2)",
        ] {
            beside = beside.max(self.sql.prepare_cached(delete)?.execute(params![before, max])?);
        }
        let mut delete = self.sql.prepare_cached("DELETE FROM attempts WHERE at = ?1 AND delivery = ?2")?;
        let mut deleted = 0;
        for (at, delivery, _) in looked_at.iter().filter(|(.., counts)| !counts) {
            deleted += size(delete.execute(params![at, delivery])?);
        }
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        let full = looked_at.len() >= max;
        self.cache.scans.at.attempt =
            looked_at.last().filter(|_| full).map(|(at, delivery, _)| (*at, *delivery));
        Ok((deleted, full || beside >= max))
    }

    fn delete_removed(&mut self, removed_before: StoreTime) -> Result<()> {
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

    fn delete_changes(&mut self, before: StoreTime, max: u32) -> Result<()> {
        self.sql
            .prepare_cached(
                "DELETE FROM changes WHERE number IN (SELECT number FROM changes ORDER BY number LIMIT ?2)
                 AND at < ?1 AND number < (SELECT max(number) FROM changes)",
            )?
            .execute(params![before, max])
            .map(drop)
    }

    fn forget_latencies(&mut self, max: u32) -> Result<()> {
        latencies::forget_old(self.sql, self.now, max)
    }
}

impl Work<'_> {
    fn purge_old_events(&mut self, before: StoreTime, max: u32, purged: &mut Purged) -> Result<bool> {
        let mut left = u64::from(max);
        while left > 0 {
            let next = self.event_after(self.cache.scans.at.event.unwrap_or(0))?;
            // Nothing is settled before it is received, and events are ordered by receipt. The exceptions were
            // received "later than now" by a clock that was ahead.
            let Some(event) = next.filter(|event| !(before..=self.now).contains(&event.received)) else {
                self.cache.scans.at.event = None;
                return Ok(false);
            };
            left -= 1;
            if !self.purge_event(&event, before, &mut left, purged)? {
                return Ok(true);
            }
            self.cache.scans.at.event = Some(event.event);
        }
        Ok(true)
    }

    /// Notes the expiry of deliveries that may have waited for [`NOTED_AFTER`]. Returns whether more may remain.
    fn index_expiring(&mut self) -> Result<bool> {
        let newest = self.ledger.totals.next_delivery - 1;
        let old = self.cache.scans.expiry.old(self.now, newest);
        let kept: u64 =
            self.sql.prepare_cached("SELECT delivery FROM swept")?.query_row([], |row| row.get(0))?;
        let after = self.cache.scans.expiry.after(kept);
        if after >= old {
            return Ok(false);
        }
        let (noted, last) = self.index_range(after, old)?;
        if self.cache.scans.expiry.reach(last, kept) || noted > 0 {
            self.sql.prepare_cached("UPDATE swept SET delivery = ?1")?.execute([int(last)])?;
        }
        Ok(last < old)
    }

    /// Notes one range of deliveries. Returns the number noted, and the last one examined. After an unreadable row
    /// SQLite accepts no more writes in this transaction, so it fails, and the next sweeps skip the row. A claim
    /// decides its fate.
    fn index_range(&mut self, after: u64, old: u64) -> Result<(usize, u64)> {
        let last = self.cache.scans.expiry.step(after).min(old);
        let noted = self
            .sql
            .prepare_cached(
                "INSERT OR IGNORE INTO expiring SELECT expires, delivery FROM deliveries
                 WHERE delivery > ?1 AND delivery <= ?2 AND state = 0",
            )?
            .execute([int(after), int(last)]);
        if noted.as_ref().is_err_and(may_be_the_row) {
            self.cache.scans.expiry.fail(after, last);
        }
        Ok((noted?, last))
    }

    pub(super) fn index_if_short(&self, delivery: DeliveryId, expires: StoreTime) -> Result<()> {
        if expires.since(self.now) <= SHORT { self.index_expiry(delivery, expires) } else { Ok(()) }
    }

    pub(super) fn index_expiry(&self, delivery: DeliveryId, expires: StoreTime) -> Result<()> {
        self.sql
            .prepare_cached("INSERT OR IGNORE INTO expiring VALUES (?1, ?2)")?
            .execute(params![expires, delivery])?;
        Ok(())
    }

    fn expiring_row(&self, delivery: DeliveryId, expires: i64) -> Result<Option<(LaneId, Reason)>> {
        self.sql
            .prepare_cached(
                "SELECT lane, bytes, attempts FROM deliveries WHERE delivery = ?1 AND state = 0 AND expires = ?2",
            )?
            .query_row(params![delivery, expires], |row| {
                let (bytes, attempts) = (row.get::<_, u64>(1), row.get::<_, u32>(2));
                // Invalid figures become an `unreadable` letter. A disk error fails the commit.
                let is_damaged = bytes.is_err() || attempts.is_err();
                or_least(bytes)?;
                or_least(attempts)?;
                Ok((row.get(0)?, if is_damaged { Reason::Unreadable } else { Reason::Expired }))
            })
            .optional()
    }

    /// Returns false if parts of the event remain.
    fn purge_event(
        &mut self,
        event: &Event,
        before: StoreTime,
        left: &mut u64,
        purged: &mut Purged,
    ) -> Result<bool> {
        if event.received > self.now || self.cache.scans.failed_events.has(event.event) {
            return Ok(true);
        }
        let done = self.delete_where_old(event, before, left, purged);
        if done.as_ref().is_err_and(may_be_the_row) {
            self.cache.scans.failed_events.add(event.event);
        }
        done
    }

    /// Deletes an event that nothing keeps. Returns false if parts remain.
    fn delete_where_old(
        &self,
        event: &Event,
        before: StoreTime,
        left: &mut u64,
        purged: &mut Purged,
    ) -> Result<bool> {
        if self.kept_by(event, before)? {
            return Ok(true);
        }
        let deleted = self.delete_deliveries(event, (*left).max(1))?;
        purged.deliveries += deleted;
        *left = left.saturating_sub(deleted);
        if self.any_delivery(event)? {
            return Ok(false);
        }
        self.delete_event(event)?;
        purged.events += 1;
        Ok(true)
    }

    fn event_after(&self, after: u64) -> Result<Option<Event>> {
        self.sql
            .prepare_cached(
                "SELECT event, received, first_delivery, deliveries, first_body, bodies, iif(in_part, id, NULL) FROM events
                 WHERE event > ?1 ORDER BY event LIMIT 1",
            )?
            .query_row([int(after)], |row| {
                Ok(Event {
                    event: row.get(0)?,
                    received: row.get(1)?,
                    first_delivery: row.get(2)?,
                    deliveries: row.get(3)?,
                    first_body: row.get(4)?,
                    bodies: row.get(5)?,
                    in_part: row.get::<_, Option<StoredEventId>>(6)?.map(|id| id.0),
                })
            })
            .optional()
    }

    /// Whether a delivery still waits, is a dead letter or was settled recently, or the outbox row waits for targets
    /// without room.
    fn kept_by(&self, event: &Event, before: StoreTime) -> Result<bool> {
        if let Some(id) = &event.in_part
            && self.sql.prepare_cached("SELECT 1 FROM outbox WHERE event = ?1")?.exists([id])?
        {
            return Ok(true);
        }
        self.sql
            .prepare_cached(
                "SELECT 1 FROM deliveries WHERE delivery >= ?1 AND delivery < ?2 AND event = ?4
                 AND (state IN (0, 2) OR at >= ?3) LIMIT 1",
            )?
            .exists(params![
                int(event.first_delivery),
                int(event.first_delivery + event.deliveries),
                before,
                int(event.event)
            ])
    }

    fn delete_deliveries(&self, event: &Event, max: u64) -> Result<u64> {
        let deleted = self
            .sql
            .prepare_cached(
                "DELETE FROM deliveries WHERE delivery IN
                 (SELECT delivery FROM deliveries WHERE delivery >= ?1 AND delivery < ?2 AND event = ?4
                  ORDER BY delivery LIMIT ?3)",
            )?
            .execute([
                int(event.first_delivery),
                int(event.first_delivery + event.deliveries),
                int(max),
                int(event.event),
            ])?;
        Ok(size(deleted))
    }

    fn any_delivery(&self, event: &Event) -> Result<bool> {
        self.sql
            .prepare_cached(
                "SELECT 1 FROM deliveries WHERE delivery >= ?1 AND delivery < ?2 AND event = ?3 LIMIT 1",
            )?
            .exists([
                int(event.first_delivery),
                int(event.first_delivery + event.deliveries),
                int(event.event),
            ])
    }

    fn delete_event(&self, event: &Event) -> Result<()> {
        if event.bodies > 0 {
            self.sql
                .prepare_cached("DELETE FROM further_bodies WHERE body >= ?1 AND body < ?2")?
                .execute([int(event.first_body), int(event.first_body + event.bodies)])?;
        }
        self.sql.prepare_cached("DELETE FROM events WHERE event = ?1")?.execute([int(event.event)])?;
        Ok(())
    }
}
