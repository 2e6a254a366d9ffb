//! Latencies on their way to the file: a row for each lane, measure and hour, and one for ever, in place of a write for
//! each attempt.
//! Several processes write into the same rows: each adds what it has counted.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use rusqlite::{Connection, OptionalExtension, Result, params};

use super::values::int;
use crate::engine::{LaneId, Nanos, StoreTime};
use crate::store::gathered::{Gathered, Slice, hour};
use crate::store::latency::{Histogram, Measure, Measured};
use crate::store::read::{LastHour, Over};

/// The row that holds all hours.
const EVER: u64 = 0;
/// The present hour and those before it that make a day.
const HOURS: u64 = 24;

/// Writes what has waited long enough, as far as one commit may.
pub(super) fn flush(gathered: &mut Gathered, sql: &Connection, now: StoreTime) -> Result<()> {
    write(sql, gathered.due(now))
}

/// Writes all there is.
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
            // Figures that are damaged must not keep deliveries from being settled: they begin anew.
            Histogram::from_bytes(&bytes).unwrap_or_default()
        });
    sum.add(more);
    // Of a lane that was deleted meanwhile nothing may stay behind.
    sql.prepare_cached(
        "INSERT INTO latencies SELECT ?1, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 FROM lanes WHERE lane = ?1)
         ON CONFLICT DO UPDATE SET counted = excluded.counted",
    )?
    .execute(params![lane, measure, int(hour), sum.to_bytes()])?;
    Ok(())
}

/// What was counted of each of these lanes; the ones without any are left out.
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

/// What became of each lane's attempts in the last sixty minutes: exact for the present hour of the clock; of the one
/// before, the part that still counts, as if its attempts had come evenly.
pub(super) fn last_hour(sql: &Connection, lanes: &[LaneId], now: StoreTime) -> Result<Vec<LastHour>> {
    let left = Nanos::HOUR.0 - now.0 % Nanos::HOUR.0;
    let part = |count: u64| {
        let exact = u128::from(count) * u128::from(left) / u128::from(Nanos::HOUR.0);
        u64::try_from(exact).unwrap_or(u64::MAX)
    };
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

/// Forgets hours that no figure is about any more.
pub(super) fn forget_old(sql: &Connection, now: StoreTime, max: u32) -> Result<()> {
    let before = hour(now).saturating_sub(HOURS);
    sql.prepare_cached(
        "DELETE FROM latencies WHERE (lane, measure, hour) IN
         (SELECT lane, measure, hour FROM latencies INDEXED BY latencies_hour WHERE hour > ?1 AND hour < ?2 LIMIT ?3)",
    )?
    .execute(params![int(EVER), int(before), max])?;
    Ok(())
}

/// Forgets a lane.
pub(super) fn forget_lane(sql: &Connection, lane: LaneId) -> Result<()> {
    sql.prepare_cached("DELETE FROM latencies WHERE lane = ?1")?.execute([lane])?;
    Ok(())
}

impl FromSql for Histogram {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Self::from_bytes(value.as_blob()?).ok_or(FromSqlError::InvalidType)
    }
}
