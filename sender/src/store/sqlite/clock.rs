//! The file's time: where it is kept, how it is brought back, and what becomes of the times that were written meanwhile.
//!
//! A delivery that was recorded, redriven or tried by a clock that was ahead is due, and expires, too late. How much too late
//! is told by its own row: it cannot have been recorded, redriven or tried in the future. Such rows are brought back in small
//! steps, one lane after the other, along the index of what is due later than now.

use hookproof_failed_sync::ends_the_process;
use rusqlite::{Connection, OptionalExtension, Result, TransactionBehavior, params};

use super::damaged::or_least;
use super::failure::Doing;
use super::{SqliteStore, Work};
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use crate::store::StoreError;
use crate::store::clock::{Anchor, Beginning, Fault, FileClock, MachineMoment, Start, TOLERANCE};

const DOING: &str = "read the time of the store";

/// What the file says of the time.
pub(super) fn file_clock(sql: &Connection) -> Result<FileClock> {
    sql.prepare_cached(
        "SELECT t.clock, c.at, c.boot, c.uptime, c.correcting_lane IS NOT NULL FROM totals t JOIN clock c",
    )?
    .query_row([], |row| {
        let boot: Option<Box<str>> = row.get(2)?;
        let (at, uptime) = (row.get(1)?, row.get(3)?);
        let anchor = boot.map(|boot| Anchor { at, moment: MachineMoment { boot, uptime } });
        Ok(FileClock { latest: row.get(0)?, anchor, is_correcting: row.get(4)? })
    })
}

impl SqliteStore {
    /// Begins to count on the file: from which time, as [`FileClock::start`] tells. What is wrong with the file's
    /// time is corrected, and the moment is kept for the processes that begin later. Whoever commits without having called
    /// this hands in times of its own, and corrects nothing.
    ///
    /// # Errors
    ///
    /// When the store cannot be read and written.
    pub fn begin_clock(&mut self, beginning: Beginning<'_>) -> std::result::Result<Start, StoreError> {
        let machine = beginning.machine;
        let file = file_clock(&self.sql).doing(DOING)?;
        let mut start = file.start(beginning);
        // In the ordinary case nothing is written: a database that is locked can be counted on all the same.
        if is_corrected(&start) || (machine.is_some() && !file.is_anchored(machine)) {
            start = self.write_clock(beginning)?;
        }
        self.follows_the_machine = machine.is_some();
        self.expiry_grace = match start.fault {
            Some(Fault::Kept(ahead)) => ahead,
            Some(Fault::Corrected(_)) | None => Nanos::ZERO,
        };
        Ok(start)
    }

    /// The same, written down, unless another process has done so since.
    fn write_clock(&mut self, beginning: Beginning<'_>) -> std::result::Result<Start, StoreError> {
        let tx = self.sql.transaction_with_behavior(TransactionBehavior::Immediate).doing(DOING)?;
        let start = file_clock(&tx).doing(DOING)?.start(beginning);
        if is_corrected(&start) {
            set_back(&tx, start.now).doing("bring the time of the store back")?;
        }
        if let Some(machine) = beginning.machine {
            tx.prepare_cached("UPDATE clock SET at = ?1, boot = ?2, uptime = ?3")
                .and_then(|mut update| update.execute(params![start.now, machine.boot, machine.uptime]))
                .doing("keep the time of the store")?;
        }
        let committed = tx.commit();
        ends_the_process(&self.sql, committed).doing("keep the time of the store")?;
        Ok(start)
    }
}

const fn is_corrected(start: &Start) -> bool {
    matches!(start.fault, Some(Fault::Corrected(_)))
}

/// No lease is longer than this (`--lease`).
const LEASE_MAX: Nanos = Nanos::HOUR;

/// Brings the file's time back to `now`.
fn set_back(sql: &Connection, now: StoreTime) -> Result<()> {
    let minute = i64::try_from(now.0 / Nanos::MINUTE.0).unwrap_or(i64::MAX);
    sql.prepare_cached("UPDATE totals SET clock = ?1, marked_minute = min(marked_minute, ?2)")?
        .execute(params![now, minute])?;
    set_back_beside_totals(sql, now)
}

/// Nobody knows by which time a lease was counted, and a living owner may not be robbed: a lease is cut to the longest that
/// there may be. Whoever renews makes it right again, and whoever is dead is known by its lock.
fn set_back_beside_totals(sql: &Connection, now: StoreTime) -> Result<()> {
    let minute = i64::try_from(now.0 / Nanos::MINUTE.0).unwrap_or(i64::MAX);
    sql.prepare_cached("DELETE FROM marks WHERE minute > ?1")?.execute([minute])?;
    let longest = StoreTime(now.0.saturating_add(LEASE_MAX.0));
    sql.prepare_cached("UPDATE owners SET until = ?1 WHERE until > ?1")?.execute([longest])?;
    // Who is said to have come later than now would pass for a newcomer until then.
    let nodes = sql.prepare_cached("UPDATE nodes SET since = ?1 WHERE since > ?1")?.execute([now])?;
    if nodes > 0 {
        sql.prepare_cached("UPDATE membership SET changes = changes + 1")?.execute([])?;
    }
    sql.prepare_cached("UPDATE clock SET correcting_lane = 0, correcting_at = 0, correcting_delivery = 0")?
        .execute([])?;
    Ok(())
}

/// The place of the row that was looked at last.
#[derive(Clone, Copy)]
struct Place {
    lane: LaneId,
    at: StoreTime,
    delivery: DeliveryId,
}

/// A waiting delivery that is due later than now.
struct Later {
    place: Place,
    expires: StoreTime,
    /// When it was recorded or redriven.
    begun: StoreTime,
    /// When it was tried last.
    tried: StoreTime,
}

impl Work<'_> {
    /// One small step of following the right time again: how many rows were corrected, and whether there may be more.
    pub(super) fn correct_times(&mut self, max: u32) -> Result<(u64, bool)> {
        let latest = self.ledger.totals.clock;
        if self.rules.follows_the_machine && latest.since(self.now) > TOLERANCE {
            let ahead = latest.since(self.now);
            tracing::warn!(%ahead, "the database's time was left ahead of the wall clock, and is brought back");
            self.ledger.set_back(self.now);
            set_back_beside_totals(self.sql, self.now)?;
        }
        let Some(from) = self.correcting()? else { return Ok((0, false)) };
        let rows = self.later_rows(from, max)?;
        let mut corrected = 0;
        for row in &rows {
            corrected += u64::from(self.correct(row)?);
        }
        let last = rows.last().map(|row| row.place);
        let next = last.filter(|_| rows.len() >= usize::try_from(max).unwrap_or(usize::MAX));
        self.sql
            .prepare_cached(
                "UPDATE clock SET correcting_lane = ?1, correcting_at = ?2, correcting_delivery = ?3",
            )?
            .execute(params![
                next.map(|next| next.lane),
                next.map_or(StoreTime(0), |next| next.at),
                next.map_or(DeliveryId(0), |next| next.delivery),
            ])?;
        if corrected > 0 {
            self.ledger.change().stirred += 1;
        }
        Ok((corrected, next.is_some()))
    }

    fn correcting(&self) -> Result<Option<Place>> {
        self.sql
            .prepare_cached(
                "SELECT correcting_lane, correcting_at, correcting_delivery FROM clock
                 WHERE correcting_lane IS NOT NULL",
            )?
            .query_row([], |row| Ok(Place { lane: row.get(0)?, at: row.get(1)?, delivery: row.get(2)? }))
            .optional()
    }

    /// The first rows that are due later than now, after a place.
    fn later_rows(&self, from: Place, max: u32) -> Result<Vec<Later>> {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        let mut lanes = self
            .sql
            .prepare_cached("SELECT lane FROM lanes WHERE lane >= ?1 AND waiting > 0 ORDER BY lane")?;
        let mut lanes = lanes.query([from.lane])?;
        let mut query = self.sql.prepare_cached(
            "SELECT at, delivery, expires, max(expires - ttl, 0), coalesce(last_attempt, 0)
             FROM deliveries INDEXED BY deliveries_due
             WHERE lane = ?1 AND state = 0 AND at >= ?2 ORDER BY at, delivery",
        )?;
        let mut found = Vec::new();
        while found.len() < max
            && let Some(row) = lanes.next()?
        {
            let lane: LaneId = row.get(0)?;
            let begin = (StoreTime(0), DeliveryId(0));
            let after = if lane == from.lane { (from.at, from.delivery) } else { begin };
            let mut rows = query.query(params![lane, after.0.max(self.now)])?;
            while found.len() < max
                && let Some(row) = rows.next()?
            {
                let (at, delivery) = (row.get(0)?, row.get(1)?);
                if (at, delivery) > after {
                    let place = Place { lane, at, delivery };
                    // What makes no sense is in no future.
                    let (expires, begun, tried) = (row.get(2), row.get(3), row.get(4));
                    let (expires, begun) = (or_least(expires)?, or_least(begun)?);
                    found.push(Later { place, expires, begun, tried: or_least(tried)? });
                }
            }
        }
        Ok(found)
    }

    /// Brings a row back by as much as it was recorded or tried in the future. That it was tried in the future stays on
    /// record, so the expiry, which may never be brought back twice, goes by the recording alone.
    fn correct(&mut self, row: &Later) -> Result<bool> {
        let (begun, tried) = (row.begun.since(self.now), row.tried.since(self.now));
        if begun.max(tried) == Nanos::ZERO {
            return Ok(false);
        }
        let earlier = |at: StoreTime, back: Nanos| StoreTime(at.0.saturating_sub(back.0));
        let (at, expires) = (earlier(row.place.at, begun.max(tried)), earlier(row.expires, begun));
        let delivery = row.place.delivery;
        self.sql
            .prepare_cached("UPDATE deliveries SET at = ?2, expires = ?3 WHERE delivery = ?1")?
            .execute(params![delivery, at, expires])?;
        self.fronts.add(row.place.lane, at);
        self.note_new_expiry(delivery, expires)?;
        Ok(true)
    }
}
