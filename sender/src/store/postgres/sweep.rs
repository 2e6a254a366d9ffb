//! Burying what nobody will send: what has expired, and what removed subscribers were owed. In small steps.

use std::collections::BTreeMap;

use super::rows::{Delivery, delivery_columns};
use super::values::{int, size};
use super::{Result, Work, latencies};
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use crate::store::command::{Reason, Sweep};
use crate::store::reply::{Reply, Swept};
use crate::store::room::Bounded;

/// What has expired, the longest first.
const EXPIRED: &str = concat!(
    "SELECT ",
    delivery_columns!(),
    ", false FROM deliveries WHERE state + 0 = 0 AND expires <= $1 ORDER BY expires, delivery LIMIT $2"
);

/// Adds what writers have counted, none of it since a time, to the row of those that are gone. One that is at a commit is not, and none is waited for: it might
/// be about to do the same.
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

/// A writer that has written nothing for so long is gone. One that is not gets a new row.
pub(super) const GONE_AFTER: Nanos = Nanos::DAY.times(7);

impl Work<'_> {
    pub(super) fn sweep(&mut self, sweep: Sweep) -> Result<Reply> {
        let expired = self.sweep_expired(sweep.max)?;
        let left = sweep.max.saturating_sub(u32::try_from(expired).unwrap_or(u32::MAX));
        let gone = self.sweep_removed(left)?;
        self.forget_writers()?;
        let more = expired + gone >= u64::from(sweep.max);
        Ok(Reply::Swept(Swept { expired, gone, corrected: 0, more }))
    }

    fn sweep_expired(&mut self, max: u32) -> Result<u64> {
        // What is handed out is its holder's to give up.
        let limit = i64::from(max) + int(size(self.held.len()));
        let mut expired: Vec<(DeliveryId, Delivery)> = Vec::new();
        for row in self.sql.query(EXPIRED, &[&self.surely_before(self.now), &limit])? {
            let (delivery, row) = Delivery::read(&row)?;
            if size(expired.len()) < u64::from(max) && !self.held.has(row.lane, delivery) {
                expired.push((delivery, row));
            }
        }
        self.ledger.need(expired.iter().map(|(_, row)| row.lane))?;
        let rows = size(expired.len());
        for (delivery, row) in expired {
            let lane = row.lane;
            self.rows.deliveries.insert(delivery, Some(row));
            self.bury(lane, delivery, Reason::Expired)?;
        }
        Ok(rows)
    }

    fn sweep_removed(&mut self, max: u32) -> Result<u64> {
        let query = "SELECT lane FROM lanes WHERE state = 3 AND waiting > 0 ORDER BY lane LIMIT $1";
        let lanes = self.lanes_by(query, &[&i64::from(max)])?;
        let (mut left, mut likely) = (u64::from(max), BTreeMap::new());
        for lane in &lanes {
            let rows = self.ledger.lane(*lane)?.map_or(0, |lane| lane.counts.waiting).min(left);
            left -= rows;
            if rows > 0 {
                // Where one more is not to be found there is nothing left, and no need to look again.
                likely.insert(*lane, rows + 1);
            }
        }
        if !likely.is_empty() {
            self.read_waiting(&likely)?;
        }
        let mut gone = 0;
        for lane in lanes {
            let left = u64::from(max) - gone;
            if left == 0 {
                break;
            }
            gone += self.shed_rows(lane, u32::try_from(left).unwrap_or(max), Reason::Gone)?;
        }
        Ok(gone)
    }

    /// The lanes that a question finds, locked.
    fn lanes_by(&mut self, query: &'static str, values: &[super::link::Value<'_>]) -> Result<Vec<LaneId>> {
        self.flush()?;
        let found = self.sql.query(query, values)?;
        let lanes = found.iter().map(|row| row.try_get(0)).collect::<std::result::Result<Vec<_>, _>>()?;
        self.ledger.need(lanes.iter().copied())?;
        Ok(lanes)
    }

    /// Deletes removed subscribers of whom nothing is left.
    pub(super) fn delete_removed(&mut self, removed_before: StoreTime) -> Result<()> {
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
}
