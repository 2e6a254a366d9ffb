//! The rows of deliveries that expired or belong to a removed subscriber, and of events and attempts past their
//! retention.

use std::collections::BTreeMap;

use super::rows::{Delivery, delivery_columns};
use super::values::{int, size};
use super::{Result, Work, latencies};
use crate::command::Reason;
use crate::commit::lease::MARGIN;
use crate::commit::sweep::SweepRows;
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use crate::reply::Purged;

const EXPIRED: &str = concat!(
    "SELECT ",
    delivery_columns!(),
    ", false FROM deliveries WHERE state + 0 = 0 AND expires <= $1 ORDER BY expires, delivery LIMIT $2"
);

/// Merges the counts of writers idle since a given time into row 0. Skips locked rows: their writers are active, and
/// may be running the same statement.
pub(super) const RETIRE: &str = "WITH free AS (SELECT writer FROM totals WHERE writer = ANY($1) AND writer <> 0
        AND clock < $2 FOR UPDATE SKIP LOCKED),
    gone AS (DELETE FROM totals WHERE writer IN (SELECT writer FROM free) RETURNING *),
    them AS (SELECT max(clock) clock, sum(accepted) accepted, sum(delivered) delivered, sum(dead) dead,
        sum(coalesced) coalesced, sum(waiting) waiting, sum(waiting_bytes) waiting_bytes, sum(retrying) retrying,
        sum(dead_kept) dead_kept, sum(failed_attempts) failed_attempts, sum(latency_us) latency_us FROM gone)
    UPDATE totals t SET clock = greatest(t.clock, g.clock), accepted = t.accepted + g.accepted,
        delivered = t.delivered + g.delivered, dead = t.dead + g.dead, coalesced = t.coalesced + g.coalesced,
        waiting = t.waiting + g.waiting, waiting_bytes = t.waiting_bytes + g.waiting_bytes,
        retrying = t.retrying + g.retrying, dead_kept = t.dead_kept + g.dead_kept,
        failed_attempts = t.failed_attempts + g.failed_attempts, latency_us = t.latency_us + g.latency_us
    FROM them g WHERE t.writer = 0 AND g.clock IS NOT NULL";

/// An idle writer's row is deleted after this long. If the writer is active again, it gets a new row.
pub(super) const GONE_AFTER: Nanos = Nanos::DAY.times(7);

/// Events after a place, and whether each must be kept. An event is kept while it is recent, while a delivery waits,
/// is a dead letter or was settled recently, or while its outbox row waits for targets without room. For a recent
/// event nothing more is read.
const EVENTS: &str = "SELECT e.event, e.received, CASE WHEN e.received < $2 THEN e.deliveries END, e.bodies,
    e.received >= $2 OR EXISTS (SELECT 1 FROM unnest(e.deliveries) n JOIN all_deliveries d ON d.delivery = n
        WHERE d.state IN (0, 2) OR d.at >= $2)
    OR (e.in_part AND EXISTS (SELECT 1 FROM outbox o WHERE o.event = e.id))
    FROM events e WHERE e.event > $1 ORDER BY e.event LIMIT $3";

/// Both delete up to $2 of these deliveries, each from its table. Meanwhile another process may have had one sent again.
const DONE: &str = "DELETE FROM done WHERE delivery IN
    (SELECT delivery FROM done WHERE delivery = ANY($1) ORDER BY delivery LIMIT $2)";
const SETTLED: &str = "DELETE FROM deliveries WHERE delivery IN
    (SELECT delivery FROM deliveries WHERE delivery = ANY($1) AND state NOT IN (0, 2) ORDER BY delivery LIMIT $2)";

/// Attempts after a place, and whether a window cap still needs each.
const ATTEMPTS: &str = "SELECT a.at, a.delivery, a.capped AND a.at >= $3 AND a.at >= coalesce(
        (SELECT l.record_at FROM lanes l WHERE l.lane = a.lane ORDER BY l.era DESC LIMIT 1), 9223372036854775807) - $4
    FROM attempts a WHERE (a.at, a.delivery) > ($5, $6) AND a.at < $1 ORDER BY a.at, a.delivery LIMIT $2";

impl SweepRows for Work<'_> {
    fn prepare_sweep(&mut self, _: u32) -> Result<(u64, bool)> {
        Ok((0, false))
    }

    fn expired(&mut self, max: u32) -> Result<(Vec<(LaneId, DeliveryId, Reason)>, bool)> {
        // A delivery that is handed out is left to its holder.
        let limit = i64::from(max) + int(size(self.cache.claimed_in_all()));
        let mut expired = Vec::new();
        for row in self.sql.query(EXPIRED, &[&self.surely_before(self.now), &limit])? {
            let (delivery, row) = Delivery::read(&row)?;
            if size(expired.len()) < u64::from(max) && !self.cache.has(row.lane, delivery) {
                expired.push((row.lane, delivery, Reason::Expired));
                self.rows.deliveries.insert(delivery, Some(row));
            }
        }
        self.ledger.need(expired.iter().map(|(lane, ..)| *lane))?;
        Ok((expired, false))
    }

    fn removed_lanes(&mut self, max: u32) -> Result<Vec<LaneId>> {
        let query = "SELECT lane FROM lanes WHERE state = 3 AND waiting > 0 ORDER BY lane LIMIT $1";
        let lanes = self.lanes_by(query, &[&i64::from(max)])?;
        let (mut left, mut likely) = (u64::from(max), BTreeMap::new());
        for lane in &lanes {
            let rows = self.ledger.lane(*lane)?.map_or(0, |lane| lane.counts.waiting).min(left);
            left -= rows;
            if rows > 0 {
                // One more, so that the block is complete and no second read is needed.
                likely.insert(*lane, rows + 1);
            }
        }
        if !likely.is_empty() {
            self.read_waiting(&likely)?;
        }
        Ok(lanes)
    }

    fn ended_pauses(&mut self, max: u32) -> Result<Vec<LaneId>> {
        let query = "SELECT lane FROM subscribers WHERE pause_until <= $1 ORDER BY pause_until LIMIT $2";
        self.lanes_by(query, &[&self.surely_before(self.now), &i64::from(max)])
    }

    fn end_pause(&mut self, lane: LaneId) -> Result<bool> {
        let end = "UPDATE subscribers SET pause_reason = NULL, pause_until = NULL
            WHERE lane = $1 AND pause_until <= $2";
        Ok(self.sql.execute(end, &[&lane, &self.surely_before(self.now)])? > 0)
    }

    fn tidy(&mut self) -> Result<()> {
        self.forget_writers()
    }

    fn surely_before(&self, moment: StoreTime) -> StoreTime {
        StoreTime(moment.0.saturating_sub(self.ledger.grace(self.now).0))
    }

    fn purge_events(&mut self, before: StoreTime, max: u32, purged: &mut Purged) -> Result<bool> {
        let (mut left, limit) = (u64::from(max), i64::from(max));
        let found =
            self.sql.query(EVENTS, &[&int(self.cache.scans.at.event.unwrap_or(0)), &before, &limit])?;
        let (mut events, mut bodies): (Vec<i64>, Vec<i64>) = Default::default();
        for row in &found {
            let event: i64 = row.try_get(0)?;
            // Nothing is settled before it is received, and events are ordered by receipt. The exceptions were
            // received "later than now" by a clock that was ahead.
            if (before..=self.now).contains(&row.try_get::<_, StoreTime>(1)?) {
                self.delete_events(&events, &bodies)?;
                purged.events += size(events.len());
                self.cache.scans.at.event = None;
                return Ok(false);
            }
            if left == 0 {
                break;
            }
            left -= 1;
            if !row.try_get::<_, bool>(4)? {
                let deliveries: Vec<i64> = row.try_get(2)?;
                let deleted = self.delete_deliveries(&deliveries, left.max(1))?;
                purged.deliveries += deleted;
                left = left.saturating_sub(deleted);
                if deleted < size(deliveries.len())
                    && self.sql.exists(
                        "SELECT 1 FROM all_deliveries WHERE delivery = ANY($1) LIMIT 1",
                        &[&deliveries],
                    )?
                {
                    self.delete_events(&events, &bodies)?;
                    purged.events += size(events.len());
                    return Ok(true);
                }
                events.push(event);
                bodies.extend(row.try_get::<_, Vec<i64>>(3)?);
            }
            self.cache.scans.at.event = Some(event.cast_unsigned());
        }
        self.delete_events(&events, &bodies)?;
        purged.events += size(events.len());
        let full = left == 0 || found.len() >= usize::try_from(max).unwrap_or(usize::MAX);
        if !full {
            self.cache.scans.at.event = None;
        }
        Ok(full)
    }

    fn delete_attempts(&mut self, before: StoreTime, max: u32) -> Result<(u64, bool)> {
        let (at, delivery) = self.cache.scans.at.attempt.unwrap_or((StoreTime(0), DeliveryId(0)));
        let now = self.surely_before(self.now);
        let longest = StoreTime(now.0.saturating_sub(crate::engine::contract::WINDOW_LENGTH_MAX.0));
        let found =
            self.sql.query(ATTEMPTS, &[&before, &i64::from(max), &longest, &MARGIN, &at, &delivery])?;
        let (mut ats, mut deliveries): (Vec<StoreTime>, Vec<DeliveryId>) = Default::default();
        let mut last = None;
        for row in &found {
            let (at, delivery): (StoreTime, DeliveryId) = (row.try_get(0)?, row.try_get(1)?);
            last = Some((at, delivery));
            if !row.try_get::<_, bool>(2)? {
                ats.push(at);
                deliveries.push(delivery);
            }
        }
        let mut beside = 0;
        for delete in [
            "DELETE FROM resent WHERE (delivery, at) IN
                (SELECT delivery, at FROM resent WHERE at < $1 ORDER BY at LIMIT $2)",
            // A commit may be replacing one of them.
            "DELETE FROM answers WHERE (lane, slot) IN
                (SELECT lane, slot FROM answers WHERE at < $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED)",
        ] {
            beside = beside.max(self.sql.execute(delete, &[&before, &i64::from(max)])?);
        }
        let mut deleted = 0;
        if !ats.is_empty() {
            let delete = "DELETE FROM attempts a USING unnest($1::int8[], $2::int8[]) u (at, delivery)
                WHERE a.at = u.at AND a.delivery = u.delivery";
            deleted = self.sql.execute(delete, &[&ats, &deliveries])?;
        }
        let full = found.len() >= usize::try_from(max).unwrap_or(usize::MAX);
        self.cache.scans.at.attempt = last.filter(|_| full);
        Ok((deleted, full || beside >= u64::from(max)))
    }

    fn delete_removed(&mut self, removed_before: StoreTime) -> Result<()> {
        let query = "SELECT l.lane FROM lanes l JOIN subscribers s ON s.lane = l.lane
            WHERE l.state = 3 AND s.removed < $1 AND l.waiting = 0 AND l.dead_kept = 0 ORDER BY l.lane LIMIT 1000";
        let lanes = self.lanes_by(query, &[&removed_before])?;
        if lanes.is_empty() {
            return Ok(());
        }
        self.sql.execute("DELETE FROM subscribers WHERE lane = ANY($1)", &[&lanes])?;
        self.sql.execute("DELETE FROM lanes WHERE lane = ANY($1)", &[&lanes])?;
        latencies::forget_lanes(self.sql, &lanes)?;
        lanes.into_iter().for_each(|lane| self.ledger.drop_lane(lane));
        Ok(())
    }

    fn delete_changes(&mut self, before: StoreTime, max: u32) -> Result<()> {
        let delete =
            "DELETE FROM changes WHERE number IN (SELECT number FROM changes ORDER BY number LIMIT $2)
            AND at < $1 AND number < (SELECT max(number) FROM changes)";
        self.sql.execute(delete, &[&before, &i64::from(max)])?;
        Ok(())
    }

    fn forget_latencies(&mut self, max: u32) -> Result<()> {
        Ok(latencies::forget_old(self.sql, self.surely_before(self.now), max)?)
    }
}

impl Work<'_> {
    fn lanes_by(&mut self, query: &'static str, values: &[super::link::Value<'_>]) -> Result<Vec<LaneId>> {
        self.flush()?;
        let found = self.sql.query(query, values)?;
        let lanes = found.iter().map(|row| row.try_get(0)).collect::<std::result::Result<Vec<_>, _>>()?;
        self.ledger.need(lanes.iter().copied())?;
        Ok(lanes)
    }

    fn forget_writers(&self) -> Result<()> {
        let long_ago = StoreTime(self.surely_before(self.now).0.saturating_sub(GONE_AFTER.0));
        let found = self.sql.query(
            "SELECT writer FROM newest_totals WHERE writer <> 0 AND writer <> $2 AND clock > 0 AND clock < $1",
            &[&long_ago, &self.ledger.writer.0],
        )?;
        if found.is_empty() {
            return Ok(());
        }
        let gone = found.iter().map(|row| row.try_get(0)).collect::<std::result::Result<Vec<i64>, _>>()?;
        self.sql.execute(RETIRE, &[&gone, &long_ago])?;
        Ok(())
    }

    fn delete_deliveries(&self, deliveries: &[i64], max: u64) -> Result<u64> {
        let mut deleted = 0;
        for delete in [DONE, SETTLED] {
            deleted += self.sql.execute(delete, &[&deliveries, &int(max - deleted)])?;
        }
        Ok(deleted)
    }

    fn delete_events(&self, events: &[i64], bodies: &[i64]) -> Result<()> {
        if !events.is_empty() {
            if !bodies.is_empty() {
                self.sql.execute("DELETE FROM bodies WHERE body = ANY($1)", &[&bodies])?;
            }
            self.sql.execute("DELETE FROM events WHERE event = ANY($1)", &[&events])?;
        }
        Ok(())
    }
}
