//! Writes and reads latencies. Several nodes share the rows: each adds its counts under the row's lock.

use std::collections::BTreeMap;

use tokio_postgres::Error;

use super::link::Link;
use super::values::int;
use crate::engine::{LaneId, StoreTime};
use crate::latency::{Gathered, Histogram, Measure, Measured, Slice, hour, within_last_hour};
use crate::read::{LastHour, Over};

const EVER: u64 = 0;
/// A day includes the present hour.
const HOURS: u64 = 24;

type Key = (LaneId, i16, i64);

pub(super) fn flush<'a>(
    sql: &Link,
    slices: impl Iterator<Item = (Slice, &'a Measured)>,
) -> super::Result<()> {
    Ok(write(sql, slices)?)
}

pub(super) fn flush_all(sql: &Link, gathered: &mut Gathered) -> Result<(), Error> {
    write(sql, gathered.all())
}

fn write<'a>(sql: &Link, slices: impl Iterator<Item = (Slice, &'a Measured)>) -> Result<(), Error> {
    let mut sums: BTreeMap<Key, Histogram> = BTreeMap::new();
    for ((lane, hour), measured) in slices {
        for (measure, histogram) in measured.parts().filter(|(_, histogram)| !histogram.is_empty()) {
            for hour in [hour, EVER] {
                sums.entry((lane, code(measure), int(hour))).or_default().add(histogram);
            }
        }
    }
    if sums.is_empty() {
        return Ok(());
    }
    let lanes: Vec<LaneId> = sums.keys().map(|key| key.0).collect();
    let measures: Vec<i16> = sums.keys().map(|key| key.1).collect();
    let hours: Vec<i64> = sums.keys().map(|key| key.2).collect();
    // All writers lock a lane's rows in this order. A lane that was deleted meanwhile gets no rows.
    let make = "INSERT INTO latencies SELECT u.lane, u.measure, u.hour, ''::bytea
        FROM unnest($1::int8[], $2::int2[], $3::int8[]) u (lane, measure, hour)
        CROSS JOIN LATERAL (SELECT 1 FROM lanes l WHERE l.lane = u.lane ORDER BY l.era DESC LIMIT 1) l
        ORDER BY 1, 2, 3 ON CONFLICT DO NOTHING";
    let lock = "SELECT l.lane, l.measure, l.hour, l.counted FROM latencies l
        JOIN unnest($1::int8[], $2::int2[], $3::int8[]) u (lane, measure, hour)
        ON l.lane = u.lane AND l.measure = u.measure AND l.hour = u.hour
        ORDER BY l.lane, l.measure, l.hour FOR UPDATE OF l";
    sql.query(make, &[&lanes, &measures, &hours])?;
    for row in sql.query(lock, &[&lanes, &measures, &hours])? {
        // A damaged histogram starts again, so that it cannot block settlements.
        let before = Histogram::from_bytes(row.try_get(3)?).unwrap_or_default();
        if let Some(sum) = sums.get_mut(&(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)) {
            sum.add(&before);
        }
    }
    let counted: Vec<Vec<u8>> = sums.values().map(Histogram::to_bytes).collect();
    let update = "UPDATE latencies l SET counted = u.counted
        FROM unnest($1::int8[], $2::int2[], $3::int8[], $4::bytea[]) u (lane, measure, hour, counted)
        WHERE l.lane = u.lane AND l.measure = u.measure AND l.hour = u.hour";
    sql.execute(update, &[&lanes, &measures, &hours, &counted])?;
    Ok(())
}

const fn code(measure: Measure) -> i16 {
    match measure {
        Measure::Answer => 0,
        Measure::FirstAttempt => 1,
        Measure::Delivery => 2,
    }
}

pub(super) fn read(sql: &Link, lanes: &[LaneId], over: Over) -> Result<Vec<(LaneId, Measured)>, Error> {
    let (first, last) = match over {
        Over::Day { until } => ((hour(until) + 1).saturating_sub(HOURS).max(EVER + 1), i64::MAX),
        Over::Ever => (EVER, int(EVER)),
    };
    let query = "SELECT lane, measure, counted FROM latencies
        WHERE lane = ANY($1) AND measure IN (0, 1, 2) AND hour BETWEEN $2 AND $3";
    let mut sums: BTreeMap<LaneId, Measured> = BTreeMap::new();
    for row in sql.query(query, &[&lanes, &int(first), &last])? {
        if let Some(histogram) = Histogram::from_bytes(row.try_get(2)?) {
            sums.entry(row.try_get(0)?).or_default().of(row.try_get(1)?).add(&histogram);
        }
    }
    Ok(lanes.iter().filter_map(|lane| sums.remove(lane).map(|sum| (*lane, sum))).collect())
}

/// Exact for the present hour; [`within_last_hour`] estimates the part of the one before.
pub(super) fn last_hour(sql: &Link, lanes: &[LaneId], now: StoreTime) -> Result<Vec<LastHour>, Error> {
    let (present, before) = (int(hour(now)), int(hour(now).saturating_sub(1).max(EVER + 1)));
    let query =
        "SELECT lane, hour, counted FROM latencies WHERE lane = ANY($1) AND measure = 0 AND hour IN ($2, $3)";
    let mut counts: BTreeMap<LaneId, (u64, u64)> = BTreeMap::new();
    for row in sql.query(query, &[&lanes, &present, &before])? {
        let found = Histogram::from_bytes(row.try_get(2)?).unwrap_or_default();
        let counted = counts.entry(row.try_get(0)?).or_default();
        let is_present = row.try_get::<_, i64>(1)? == present;
        let some = |count| within_last_hour(count, is_present, now);
        counted.0 += some(found.delivered());
        counted.1 += some(found.failed());
    }
    let of = |lane: &LaneId| {
        let (delivered, failed) = counts.get(lane).copied().unwrap_or_default();
        LastHour { lane: *lane, delivered, failed }
    };
    Ok(lanes.iter().map(of).collect())
}

pub(super) fn forget_old(sql: &Link, now: StoreTime, max: u32) -> Result<(), Error> {
    let before = int(hour(now).saturating_sub(HOURS));
    let delete = "DELETE FROM latencies WHERE (lane, measure, hour) IN
        (SELECT lane, measure, hour FROM latencies WHERE hour > 0 AND hour < $1 ORDER BY hour LIMIT $2)";
    sql.execute(delete, &[&before, &i64::from(max)])?;
    Ok(())
}

pub(super) fn forget_lanes(sql: &Link, lanes: &[LaneId]) -> Result<(), Error> {
    sql.execute("DELETE FROM latencies WHERE lane = ANY($1)", &[&lanes])?;
    Ok(())
}
