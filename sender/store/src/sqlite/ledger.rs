//! Counts of lanes and of the whole store, lane owners, and the next free numbers.
//!
//! A commit reads a lane's row once, counts in memory, and writes the row once at its end. No other process can write
//! meanwhile. The next commit continues from there ([`crate::queue_cache`]) if no other connection has written since.

use std::collections::{BTreeMap, btree_map};

use rusqlite::{Connection, OptionalExtension, Result, Row, Statement, params};

use super::values::{Bits, int};
use crate::engine::{LaneId, Nanos, StoreTime};
use crate::lane::{Bounds, Counts};
use crate::queue_cache::{FileVersion, Lane, LaneRows};
use crate::reply::Record;

/// Changes to a lane that are not yet written.
#[derive(Debug, Default)]
struct Unwritten {
    record: Option<Record>,
    counts: bool,
    terms: bool,
}

#[derive(Debug)]
pub(super) struct Totals {
    pub(super) identity: u64,
    /// The latest time of any commit, which measures leases.
    pub(super) clock: StoreTime,
    pub(super) roster: u64,
    pub(super) stirred: u64,
    pub(super) next_lane: u64,
    pub(super) next_event: u64,
    pub(super) next_body: u64,
    pub(super) next_delivery: u64,
    marked_minute: u64,
    pub(super) counts: Counts,
}

#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) totals: Totals,
    /// The rows read so far, at the beginning those that are known.
    pub(super) lanes: LaneRows,
    before: Counts,
    totals_changed: bool,
    unwritten: BTreeMap<LaneId, Unwritten>,
    data_version: i64,
}

/// Figures need only the last hour.
const MARKS_KEPT_MINUTES: u64 = 24 * 60;

fn entry<'a>(lanes: &'a mut LaneRows, sql: &Connection, lane: LaneId) -> Result<&'a mut Option<Lane>> {
    match lanes.entry(lane) {
        btree_map::Entry::Occupied(known) => Ok(known.into_mut()),
        btree_map::Entry::Vacant(unknown) => {
            let read = sql.prepare_cached(LANE)?.query_row([lane], read_lane).optional()?;
            Ok(unknown.insert(read))
        }
    }
}

impl Ledger {
    pub(super) fn begin(sql: &Connection, now: StoreTime) -> Result<Self> {
        let mut totals = sql.prepare_cached(TOTALS)?.query_row([], Totals::read)?;
        totals.clock = totals.clock.max(now);
        let before = totals.counts;
        // Inside the transaction, so that no write can come between this and later reads.
        let data_version = sql.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        let (lanes, unwritten) = (LaneRows::new(), BTreeMap::new());
        Ok(Self { totals, lanes, before, totals_changed: false, unwritten, data_version })
    }

    pub(super) const fn version(&self) -> FileVersion {
        FileVersion { arrivals: self.totals.arrivals(), data: self.data_version }
    }

    pub(super) fn left(self) -> (FileVersion, LaneRows) {
        debug_assert!(self.unwritten.is_empty(), "not written: {:?}", self.unwritten);
        (self.version(), self.lanes)
    }

    pub(super) fn lane(&mut self, sql: &Connection, lane: LaneId) -> Result<Option<&Lane>> {
        Ok(entry(&mut self.lanes, sql, lane)?.as_ref())
    }

    fn change_lane(
        &mut self,
        sql: &Connection,
        lane: LaneId,
        change: impl FnOnce(&mut Lane, &mut Unwritten),
    ) -> Result<()> {
        if let Some(found) = entry(&mut self.lanes, sql, lane)? {
            change(found, self.unwritten.entry(lane).or_default());
        }
        Ok(())
    }

    pub(super) fn count(
        &mut self,
        sql: &Connection,
        lane: LaneId,
        count: impl Fn(&mut Counts),
    ) -> Result<()> {
        self.change_lane(sql, lane, |lane, unwritten| {
            count(&mut lane.counts);
            unwritten.counts = true;
        })?;
        count(&mut self.totals.counts);
        self.totals_changed = true;
        Ok(())
    }

    pub(super) fn amend(
        &mut self,
        sql: &Connection,
        lane: LaneId,
        amend: impl FnOnce(&mut Lane),
    ) -> Result<()> {
        self.change_lane(sql, lane, |lane, unwritten| {
            amend(lane);
            unwritten.terms = true;
        })
    }

    pub(super) fn set_record(&mut self, sql: &Connection, lane: LaneId, record: Record) -> Result<()> {
        self.totals_changed = true;
        self.change_lane(sql, lane, |_, unwritten| unwritten.record = Some(record))
    }

    pub(super) fn mark_capped(&mut self, lane: LaneId) {
        if let Some(Some(known)) = self.lanes.get_mut(&lane) {
            known.capped = true;
        }
    }

    /// Drops a lane that was just inserted or deleted.
    pub(super) fn forget(&mut self, lane: LaneId) {
        self.lanes.remove(&lane);
        self.unwritten.remove(&lane);
    }

    pub(super) fn change(&mut self) -> &mut Totals {
        self.totals_changed = true;
        &mut self.totals
    }

    pub(super) fn set_back(&mut self, now: StoreTime) {
        let totals = self.change();
        totals.clock = now;
        totals.marked_minute = totals.marked_minute.min(now.0 / Nanos::MINUTE.0);
    }

    pub(super) fn next_roster(&mut self) -> u64 {
        let totals = self.change();
        totals.roster += 1;
        totals.roster
    }

    /// Writes the changes since the last flush, each row once. Runs at the end of a commit, and before queries that
    /// must see its changes.
    pub(super) fn flush(&mut self, sql: &Connection, now: StoreTime) -> Result<()> {
        self.flush_lanes(sql)?;
        if self.totals_changed {
            debug_assert!(self.totals.counts.conserved(), "{:?}", self.totals.counts);
            let minute = now.0 / Nanos::MINUTE.0;
            if minute > self.totals.marked_minute {
                self.mark(sql, minute)?;
                self.totals.marked_minute = minute;
            }
            self.totals.flush(sql)?;
            self.totals_changed = false;
        }
        Ok(())
    }

    fn flush_lanes(&mut self, sql: &Connection) -> Result<()> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        let (mut terms, mut counts) = (sql.prepare_cached(TERMS)?, sql.prepare_cached(COUNTS)?);
        for (id, unwritten) in std::mem::take(&mut self.unwritten) {
            if let Some(Some(lane)) = self.lanes.get(&id) {
                unwritten.flush(id, lane, &mut terms, &mut counts)?;
            }
        }
        Ok(())
    }

    fn mark(&self, sql: &Connection, minute: u64) -> Result<()> {
        let old = minute.saturating_sub(MARKS_KEPT_MINUTES);
        sql.prepare_cached("DELETE FROM marks WHERE minute < ?1")?.execute([int(old)])?;
        sql.prepare_cached("INSERT OR IGNORE INTO marks VALUES (?1, ?2, ?3, ?4, ?5)")?.execute([
            int(minute),
            int(self.before.delivered),
            int(self.before.failed_attempts),
            int(self.before.dead),
            int(self.before.latency_us),
        ])?;
        Ok(())
    }
}

const TOTALS: &str = "SELECT accepted, delivered, dead, coalesced, waiting, waiting_bytes, retrying, dead_kept,
    failed_attempts, latency_us, identity, clock, roster, stirred, next_lane, next_event, next_body, next_delivery,
    marked_minute FROM totals";

impl Totals {
    /// [`FileVersion::arrivals`]: deliveries recorded, or put back.
    const fn arrivals(&self) -> u64 {
        self.next_delivery.wrapping_add(self.stirred)
    }

    pub(super) fn read(row: &Row<'_>) -> Result<Self> {
        Ok(Self {
            counts: counts(row)?,
            identity: row.get::<_, Bits>(10)?.0,
            clock: row.get(11)?,
            roster: row.get(12)?,
            stirred: row.get(13)?,
            next_lane: row.get(14)?,
            next_event: row.get(15)?,
            next_body: row.get(16)?,
            next_delivery: row.get(17)?,
            marked_minute: row.get(18)?,
        })
    }

    fn flush(&self, sql: &Connection) -> Result<()> {
        let counts = &self.counts;
        sql.prepare_cached(
            "UPDATE totals SET accepted = ?1, delivered = ?2, dead = ?3, coalesced = ?4, waiting = ?5,
             waiting_bytes = ?6, retrying = ?7, dead_kept = ?8, failed_attempts = ?9, latency_us = ?10,
             clock = ?11, roster = ?12, stirred = ?13, next_lane = ?14, next_event = ?15, next_body = ?16,
             next_delivery = ?17, marked_minute = ?18",
        )?
        .execute(params![
            int(counts.accepted),
            int(counts.delivered),
            int(counts.dead),
            int(counts.coalesced),
            int(counts.waiting),
            int(counts.waiting_bytes),
            int(counts.retrying),
            int(counts.dead_kept),
            int(counts.failed_attempts),
            int(counts.latency_us),
            self.clock,
            int(self.roster),
            int(self.stirred),
            int(self.next_lane),
            int(self.next_event),
            int(self.next_body),
            int(self.next_delivery),
            int(self.marked_minute),
        ])?;
        Ok(())
    }
}

/// The next delivery's number, and [`FileVersion::arrivals`].
pub(super) fn numbers(sql: &Connection) -> Result<(u64, u64)> {
    sql.prepare_cached("SELECT next_delivery, stirred FROM totals")?.query_row([], |row| {
        let (next, stirred): (u64, u64) = (row.get(0)?, row.get(1)?);
        Ok((next, next.wrapping_add(stirred)))
    })
}

pub(super) fn totals(sql: &Connection) -> Result<Totals> {
    sql.prepare_cached(TOTALS)?.query_row([], Totals::read)
}

const LANE: &str = "SELECT accepted, delivered, dead, coalesced, waiting, waiting_bytes, retrying, dead_kept,
    failed_attempts, latency_us, state, rows_max, bytes_max, when_full, owner, term,
    EXISTS (SELECT 1 FROM capped WHERE lane = ?1) FROM lanes WHERE lane = ?1";

const TERMS: &str =
    "UPDATE lanes SET state = ?2, rows_max = ?3, bytes_max = ?4, when_full = ?5, owner = ?6, term = ?7
    WHERE lane = ?1";

/// The counts and the checkpoint share a row, so that both cost one write.
const COUNTS: &str =
    "UPDATE lanes SET accepted = ?2, delivered = ?3, dead = ?4, coalesced = ?5, waiting = ?6,
    waiting_bytes = ?7, retrying = ?8, dead_kept = ?9, failed_attempts = ?10, latency_us = ?11,
    record_at = coalesce(?12, record_at), record = coalesce(?13, record) WHERE lane = ?1";

fn read_lane(row: &Row<'_>) -> Result<Lane> {
    Ok(Lane {
        counts: counts(row)?,
        state: row.get(10)?,
        bounds: Bounds { rows_max: row.get(11)?, bytes_max: row.get(12)?, when_full: row.get(13)? },
        owner: row.get(14)?,
        term: row.get(15)?,
        capped: row.get(16)?,
    })
}

impl Unwritten {
    fn flush(
        self,
        id: LaneId,
        lane: &Lane,
        terms: &mut Statement<'_>,
        write: &mut Statement<'_>,
    ) -> Result<()> {
        debug_assert!(lane.counts.conserved(), "lane {}: {:?}", id.0, lane.counts);
        if self.terms {
            terms.execute(params![
                id,
                lane.state,
                int(lane.bounds.rows_max),
                int(lane.bounds.bytes_max),
                lane.bounds.when_full,
                lane.owner,
                lane.term,
            ])?;
        }
        if !self.counts && self.record.is_none() {
            return Ok(());
        }
        let (counts, record) = (&lane.counts, self.record.as_ref());
        write.execute(params![
            id,
            int(counts.accepted),
            int(counts.delivered),
            int(counts.dead),
            int(counts.coalesced),
            int(counts.waiting),
            int(counts.waiting_bytes),
            int(counts.retrying),
            int(counts.dead_kept),
            int(counts.failed_attempts),
            int(counts.latency_us),
            record.map(|record| record.at),
            record.map(|record| &*record.bytes),
        ])?;
        Ok(())
    }
}

pub(super) fn counts(row: &Row<'_>) -> Result<Counts> {
    Ok(Counts {
        accepted: row.get(0)?,
        delivered: row.get(1)?,
        dead: row.get(2)?,
        coalesced: row.get(3)?,
        waiting: row.get(4)?,
        waiting_bytes: row.get(5)?,
        retrying: row.get(6)?,
        dead_kept: row.get(7)?,
        failed_attempts: row.get(8)?,
        latency_us: row.get(9)?,
    })
}
