//! The file's time, and the correction of times written by a clock that was ahead.
//!
//! A delivery recorded, redriven or attempted under such a clock is due and expires too late. Its own row shows by
//! how much, because none of these can have happened in the future. Sweeps correct such rows in small steps, lane by
//! lane, along the index of later due times.

use hookproof_failed_sync::ends_the_process;
use rusqlite::{Connection, OptionalExtension, Result, TransactionBehavior, params};

use super::failure::{Doing, or_least};
use super::{SqliteStore, Work};
use crate::StoreError;
use crate::clock::{Anchor, Beginning, Fault, FileClock, MachineMoment, Start, TOLERANCE};
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime};

const DOING: &str = "read the database's clock";

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
    /// As decided by [`FileClock::start`]. Corrects the file's time and stores the anchor for later processes. Without
    /// this call, `commit` corrects nothing.
    pub fn begin_clock(&mut self, beginning: Beginning<'_>) -> std::result::Result<Start, StoreError> {
        let machine = beginning.machine;
        let file = file_clock(&self.sql).doing(DOING)?;
        let mut start = file.start(beginning);
        // Usually nothing needs writing, so that a locked database can be opened too.
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

    /// Decides again inside a writing transaction, because another process may have corrected the time since.
    fn write_clock(&mut self, beginning: Beginning<'_>) -> std::result::Result<Start, StoreError> {
        let tx = self.sql.transaction_with_behavior(TransactionBehavior::Immediate).doing(DOING)?;
        let start = file_clock(&tx).doing(DOING)?.start(beginning);
        if is_corrected(&start) {
            set_back(&tx, start.now).doing("correct the database's clock")?;
        }
        if let Some(machine) = beginning.machine {
            tx.prepare_cached("UPDATE clock SET at = ?1, boot = ?2, uptime = ?3")
                .and_then(|mut update| update.execute(params![start.now, machine.boot, machine.uptime]))
                .doing("keep the database's clock")?;
        }
        let committed = tx.commit();
        ends_the_process(&self.sql, committed).doing("keep the database's clock")?;
        Ok(start)
    }
}

const fn is_corrected(start: &Start) -> bool {
    matches!(start.fault, Some(Fault::Corrected(_)))
}

/// The upper limit of `--lease`.
const LEASE_MAX: Nanos = Nanos::HOUR;

fn set_back(sql: &Connection, now: StoreTime) -> Result<()> {
    let minute = i64::try_from(now.0 / Nanos::MINUTE.0).unwrap_or(i64::MAX);
    sql.prepare_cached("UPDATE totals SET clock = ?1, marked_minute = min(marked_minute, ?2)")?
        .execute(params![now, minute])?;
    set_back_beside_totals(sql, now)
}

/// Times that depend on the wrong clock. A living owner must keep its lanes, so leases are only cut to the longest
/// possible one. The next renewal corrects them, and a dead owner is known by its lock.
fn set_back_beside_totals(sql: &Connection, now: StoreTime) -> Result<()> {
    let minute = i64::try_from(now.0 / Nanos::MINUTE.0).unwrap_or(i64::MAX);
    sql.prepare_cached("DELETE FROM marks WHERE minute > ?1")?.execute([minute])?;
    let longest = StoreTime(now.0.saturating_add(LEASE_MAX.0));
    sql.prepare_cached("UPDATE owners SET until = ?1 WHERE until > ?1")?.execute([longest])?;
    // A node with a future start time would count as a newcomer until then.
    let nodes = sql.prepare_cached("UPDATE nodes SET since = ?1 WHERE since > ?1")?.execute([now])?;
    if nodes > 0 {
        sql.prepare_cached("UPDATE membership SET changes = changes + 1")?.execute([])?;
    }
    sql.prepare_cached("UPDATE clock SET correcting_lane = 0, correcting_at = 0, correcting_delivery = 0")?
        .execute([])?;
    Ok(())
}

#[derive(Clone, Copy)]
struct Place {
    lane: LaneId,
    at: StoreTime,
    delivery: DeliveryId,
}

struct Later {
    place: Place,
    expires: StoreTime,
    begun: StoreTime,
    tried: StoreTime,
}

impl Work<'_> {
    /// Corrects at most `max` rows. Returns the number corrected, and whether more may remain.
    pub(super) fn correct_times(&mut self, max: u32) -> Result<(u64, bool)> {
        let latest = self.ledger.totals.clock;
        if self.rules.follows_the_machine && latest.since(self.now) > TOLERANCE {
            let ahead = latest.since(self.now);
            tracing::warn!(%ahead, "the database's clock was ahead of the wall clock; correcting it");
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
                    // An invalid value counts as past.
                    let (expires, begun, tried) = (row.get(2), row.get(3), row.get(4));
                    let (expires, begun) = (or_least(expires)?, or_least(begun)?);
                    found.push(Later { place, expires, begun, tried: or_least(tried)? });
                }
            }
        }
        Ok(found)
    }

    /// Moves a row's times back by as much as it was recorded or attempted in the future. The future attempt stays
    /// recorded, so only the recording corrects the expiry: it must not move twice.
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
        self.cache.arrive(row.place.lane, at);
        self.index_expiry(delivery, expires)?;
        Ok(true)
    }
}
