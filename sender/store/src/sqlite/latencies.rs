//! Writes and reads latencies. Several processes add their counts to the same rows.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use rusqlite::{Connection, OptionalExtension, Result, params};

use super::values::int;
use crate::engine::{LaneId, StoreTime};
use crate::latency::{Gathered, Histogram, Measure, Measured, Slice, hour, within_last_hour};
use crate::read::{LastHour, Over};

const EVER: u64 = 0;
/// A day includes the present hour.
const HOURS: u64 = 24;

pub(super) fn flush(gathered: &mut Gathered, sql: &Connection, now: StoreTime) -> Result<()> {
    write(sql, gathered.due(now))
}

pub(super) fn flush_all(gathered: &mut Gathered, sql: &Connection) -> Result<()> {
    write(sql, gathered.all())
}

fn write<'a>(sql: &Connection, slices: impl Iterator<Item = (Slice, &'a Measured)>) -> Result<()> {
    for ((lane, hour), measured) in slices {
        for (measure, histogram) in measured.parts().filter(|(_, histogram)| !histogram.is_empty()) {
            add(sql, (lane, measure, hour), histogram)?;
            add(sql, (lane, measure, EVER), histogram)?;
        }
    }
    Ok(())
}

fn add(sql: &Connection, (lane, measure, hour): (LaneId, Measure, u64), more: &Histogram) -> Result<()> {
    let mut sum = sql
        .prepare_cached("SELECT counted FROM latencies WHERE lane = ?1 AND measure = ?2 AND hour = ?3")?
        .query_row(params![lane, measure, int(hour)], |row| row.get::<_, Vec<u8>>(0))
        .optional()?
        .map_or_else(Histogram::default, |bytes| {
            // A damaged histogram starts again, so that it cannot block settlements.
            Histogram::from_bytes(&bytes).unwrap_or_default()
        });
    sum.add(more);
    // A deleted lane must get no rows.
    sql.prepare_cached(
        "INSERT INTO latencies SELECT ?1, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 FROM lanes WHERE lane = ?1)
         ON CONFLICT DO UPDATE SET counted = excluded.counted",
    )?
    .execute(params![lane, measure, int(hour), sum.to_bytes()])?;
    Ok(())
}

pub(super) fn read(sql: &Connection, lanes: &[LaneId], over: Over) -> Result<Vec<(LaneId, Measured)>> {
    let (first, last) = match over {
        Over::Day { until } => ((hour(until) + 1).saturating_sub(HOURS).max(EVER + 1), u64::MAX),
        Over::Ever => (EVER, EVER),
    };
    let mut query = sql.prepare_cached(
        "SELECT measure, counted FROM latencies
         WHERE lane = ?1 AND measure IN (0, 1, 2) AND hour BETWEEN ?2 AND ?3",
    )?;
    let mut found = Vec::new();
    for lane in lanes {
        let mut sum: Option<Measured> = None;
        let mut rows = query.query(params![lane, int(first), int(last)])?;
        while let Some(row) = rows.next()? {
            sum.get_or_insert_default().of(row.get(0)?).add(&row.get(1)?);
        }
        found.extend(sum.map(|sum| (*lane, sum)));
    }
    Ok(found)
}

/// Exact for the present hour; [`within_last_hour`] estimates the part of the one before.
pub(super) fn last_hour(sql: &Connection, lanes: &[LaneId], now: StoreTime) -> Result<Vec<LastHour>> {
    let part = |count| within_last_hour(count, false, now);
    let mut query =
        sql.prepare_cached("SELECT counted FROM latencies WHERE lane = ?1 AND measure = 0 AND hour = ?2")?;
    let mut of = |lane: LaneId, hour: u64| {
        let found = query.query_row(params![lane, int(hour)], |row| row.get::<_, Histogram>(0)).optional()?;
        Ok::<_, rusqlite::Error>(found.map_or((0, 0), |found| (found.delivered(), found.failed())))
    };
    let mut found = Vec::with_capacity(lanes.len());
    for lane in lanes {
        let (delivered, failed) = of(*lane, hour(now))?;
        let before = of(*lane, hour(now).saturating_sub(1).max(EVER + 1))?;
        let (delivered, failed) = (delivered + part(before.0), failed + part(before.1));
        found.push(LastHour { lane: *lane, delivered, failed });
    }
    Ok(found)
}

pub(super) fn forget_old(sql: &Connection, now: StoreTime, max: u32) -> Result<()> {
    let before = hour(now).saturating_sub(HOURS);
    sql.prepare_cached(
        "DELETE FROM latencies WHERE (lane, measure, hour) IN
         (SELECT lane, measure, hour FROM latencies INDEXED BY latencies_hour WHERE hour > ?1 AND hour < ?2 LIMIT ?3)",
    )?
    .execute(params![int(EVER), int(before), max])?;
    Ok(())
}

pub(super) fn forget_lane(sql: &Connection, lane: LaneId) -> Result<()> {
    sql.prepare_cached("DELETE FROM latencies WHERE lane = ?1")?.execute([lane])?;
    Ok(())
}

impl FromSql for Histogram {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Self::from_bytes(value.as_blob()?).ok_or(FromSqlError::InvalidType)
    }
}
