use std::collections::BTreeMap;

use hookproof_words::event_type::EventPatterns;
use rusqlite::{Connection, OptionalExtension, Result, params};

use super::super::ledger::{counts, totals};
use super::super::values::int;
use crate::commit::job::is_of;
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use crate::lane::{Bounds, LaneState, Pause};
use crate::paging::last_if_full;
use crate::read::{AttemptTimes, AuditSecond, DeadGroup, LaneStatus, Limited, Status, TimesPage};
use crate::reply::Record;

const NOT_SWEPT_MAX: u32 = 500_000;

pub(super) fn status(sql: &Connection, now: StoreTime) -> Result<Status> {
    let counts = totals(sql)?.counts;
    let hour_ago = StoreTime(now.0.saturating_sub(Nanos::HOUR.0));
    let before: Option<[u64; 4]> = sql
        .prepare_cached(
            "SELECT delivered, failed_attempts, dead, latency_us FROM marks WHERE minute >= ?1
             ORDER BY minute LIMIT 1",
        )?
        .query_row([int(hour_ago.0 / Nanos::MINUTE.0)], |row| {
            Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?])
        })
        .optional()?;
    Ok(Status {
        oldest_due: oldest_due(sql)?,
        next_to_expire: next_to_expire(sql)?,
        subscribers: subscribers(sql)?,
        unreadable: count(
            sql,
            "SELECT count(*) FROM deliveries INDEXED BY deliveries_unreadable WHERE state = 2 AND reason = 4",
        )?,
        outbox: count(sql, "SELECT count(*) FROM outbox")?,
        outbox_rejected: count(sql, "SELECT count(*) FROM outbox_rejected")?,
        ..Status::of_hour(counts, before)
    })
}

fn count(sql: &Connection, query: &str) -> Result<u64> {
    sql.prepare_cached(query)?.query_row([], |row| row.get(0))
}

/// One index lookup for each lane with waiting deliveries.
fn oldest_due(sql: &Connection) -> Result<Option<StoreTime>> {
    sql.prepare_cached(
        "SELECT min((SELECT at FROM deliveries INDEXED BY deliveries_due
            WHERE lane = l.lane AND state = 0 ORDER BY at LIMIT 1))
         FROM lanes l WHERE l.waiting > 0",
    )?
    .query_row([], |row| row.get(0))
}

/// The earliest of the noted expiries and of the unswept deliveries, of which a limited number is examined.
fn next_to_expire(sql: &Connection) -> Result<Option<StoreTime>> {
    sql.prepare_cached(
        "SELECT received FROM (
             SELECT * FROM (SELECT x.expires, e.received FROM expiring x
                 CROSS JOIN deliveries d ON d.delivery = x.delivery AND d.state = 0 AND d.expires = x.expires
                 CROSS JOIN events e ON e.event = d.event ORDER BY x.expires LIMIT 1)
             UNION ALL
             SELECT * FROM (SELECT d.expires, e.received FROM
                 (SELECT event, expires, state FROM deliveries WHERE delivery > (SELECT delivery FROM swept)
                     ORDER BY delivery LIMIT ?1) d
                 CROSS JOIN events e ON e.event = d.event WHERE d.state = 0 ORDER BY d.expires LIMIT 1))
         ORDER BY expires LIMIT 1",
    )?
    .query_row([NOT_SWEPT_MAX], |row| row.get(0))
    .optional()
}

fn subscribers(sql: &Connection) -> Result<[u64; 3]> {
    let mut states = [0; 3];
    let mut query = sql.prepare_cached("SELECT state, count(*) FROM lanes GROUP BY state")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let number = row.get(1)?;
        match row.get(0)? {
            LaneState::Active => states[0] = number,
            LaneState::Paused => states[1] = number,
            LaneState::Disabled => states[2] = number,
            LaneState::Removed => {}
        }
    }
    Ok(states)
}

pub(super) fn lanes(
    sql: &Connection,
    place: Option<[u64; 2]>,
    max: u32,
) -> Result<(Vec<LaneStatus>, Option<[u64; 2]>)> {
    let after = place.map_or(0, |at| at[0]);
    let lanes: Vec<LaneStatus> = sql
        .prepare_cached(
            "SELECT l.accepted, l.delivered, l.dead, l.coalesced, l.waiting, l.waiting_bytes, l.retrying,
             l.dead_kept, l.failed_attempts, l.latency_us, l.lane, l.state, l.rows_max, l.bytes_max, l.when_full,
             l.owner, l.term, s.id, s.name,
             (SELECT at FROM deliveries INDEXED BY deliveries_due
                 WHERE lane = l.lane AND state = 0 ORDER BY at LIMIT 1), s.pause_reason, s.pause_until
             FROM lanes l JOIN subscribers s ON s.lane = l.lane WHERE l.lane > ?1 ORDER BY l.lane LIMIT ?2",
        )?
        .query_map(params![int(after), max], |row| {
            let term = row.get(16)?;
            Ok(LaneStatus {
                counts: counts(row)?,
                lane: row.get(10)?,
                state: row.get(11)?,
                bounds: Bounds { rows_max: row.get(12)?, bytes_max: row.get(13)?, when_full: row.get(14)? },
                owner: row.get::<_, Option<_>>(15)?.map(|owner| (owner, term)),
                id: row.get(17)?,
                name: row.get(18)?,
                next: row.get(19)?,
                pause: Pause { reason: row.get(20)?, until: row.get(21)? },
            })
        })?
        .collect::<Result<_>>()?;
    let next = last_if_full(&lanes, max, |lane| [lane.lane.0, 0]);
    Ok((lanes, next))
}

pub(super) fn lane(sql: &Connection, lane: LaneId) -> Result<Option<LaneStatus>> {
    let (found, _) = lanes(sql, Some([lane.0.saturating_sub(1), 0]), 1)?;
    Ok(found.into_iter().find(|found| found.lane == lane))
}

pub(super) fn checkpoints(sql: &Connection, lanes: &[LaneId]) -> Result<Vec<(LaneId, Record)>> {
    let mut query =
        sql.prepare_cached("SELECT record, record_at FROM lanes WHERE lane = ?1 AND record IS NOT NULL")?;
    let mut found = Vec::new();
    for lane in lanes {
        let record =
            query.query_row([lane], |row| Ok(Record { bytes: row.get(0)?, at: row.get(1)? })).optional()?;
        found.extend(record.map(|record| (*lane, record)));
    }
    Ok(found)
}

pub(super) fn dead_groups(sql: &Connection, since: StoreTime, max: u32) -> Result<Vec<DeadGroup>> {
    sql.prepare_cached(
        "SELECT lane, reason, status, error, at / ?2 * ?2 AS hour, count(*) AS rows, sum(attempts), min(at), max(at)
         FROM deliveries INDEXED BY deliveries_dead WHERE state = 2 AND at >= ?1
         GROUP BY lane, reason, status, error, hour ORDER BY rows DESC, hour, lane, reason, status, error LIMIT ?3",
    )?
    .query_map(params![since, Nanos::HOUR, max], |row| {
        Ok(DeadGroup {
            lane: row.get(0)?,
            reason: row.get(1)?,
            status: row.get(2)?,
            error: row.get(3)?,
            hour: row.get(4)?,
            rows: row.get(5)?,
            attempts: row.get(6)?,
            first: row.get(7)?,
            last: row.get(8)?,
        })
    })?
    .collect()
}

pub(super) fn delivered(
    sql: &Connection,
    lane: LaneId,
    (since, before): (StoreTime, StoreTime),
    events: Option<&EventPatterns>,
) -> Result<u64> {
    let of = params![lane, since, before];
    if events.is_none() {
        let all = "SELECT count(*) FROM deliveries WHERE lane = ?1 AND state = 1 AND at >= ?2 AND at < ?3";
        return sql.prepare_cached(all)?.query_row(of, |row| row.get(0));
    }
    let mut query = sql.prepare_cached(
        "SELECT e.kind, count(*) FROM deliveries d JOIN events e ON e.event = d.event
         WHERE d.lane = ?1 AND d.state = 1 AND d.at >= ?2 AND d.at < ?3 GROUP BY e.kind",
    )?;
    let rows = query.query_map(of, |row| {
        let kind: String = row.get(0)?;
        Ok(if is_of(events, Some(&kind)) { row.get(1)? } else { 0_u64 })
    })?;
    rows.sum()
}

pub(super) fn audit(
    sql: &Connection,
    lane: Option<LaneId>,
    (from, until): (StoreTime, StoreTime),
    max: u32,
) -> Result<Vec<AuditSecond>> {
    let mut seconds: Vec<AuditSecond> = Vec::new();
    // In the order of time, so that only one second is gathered at once. SQLite would sort all of them.
    let (mut second, mut lanes) = (0, ByLane::new());
    let mut close = |second, lanes: &mut ByLane| {
        let of_lane = |(lane, Began { attempts, limited })| AuditSecond { lane, second, attempts, limited };
        seconds.extend(std::mem::take(lanes).into_iter().map(of_lane));
        seconds.len() < max as usize
    };
    let mut query = sql.prepare_cached(ATTEMPTS_BEGUN)?;
    let mut rows = query.query(params![from, until, lane])?;
    while let Some(row) = rows.next()? {
        let at: StoreTime = row.get(0)?;
        if at.0 / Nanos::SECOND.0 != second {
            if !close(second, &mut lanes) {
                break;
            }
            second = at.0 / Nanos::SECOND.0;
        }
        lanes.entry(row.get(1)?).or_default().count(row.get(2)?);
    }
    close(second, &mut lanes);
    seconds.truncate(max as usize);
    Ok(seconds)
}

pub(super) fn limited(sql: &Connection, from: StoreTime, until: StoreTime) -> Result<Vec<Limited>> {
    let mut lanes = ByLane::new();
    let mut query = sql.prepare_cached(ATTEMPTS_BEGUN)?;
    let mut rows = query.query(params![from, until, None::<LaneId>])?;
    while let Some(row) = rows.next()? {
        lanes.entry(row.get(1)?).or_default().count(row.get(2)?);
    }
    let of_lane = |(lane, Began { attempts, limited })| Limited { lane, attempts, limited };
    Ok(lanes.into_iter().map(of_lane).collect())
}

pub(in crate::sqlite) const ATTEMPTS_BEGUN: &str = "SELECT at, lane, status IS 429 FROM attempts
    WHERE at >= ?1 AND at < ?2 AND (?3 IS NULL OR lane = ?3) ORDER BY at, delivery";

type ByLane = BTreeMap<LaneId, Began>;

#[derive(Default)]
struct Began {
    attempts: u64,
    limited: u64,
}

impl Began {
    fn count(&mut self, is_limited: bool) {
        self.attempts += 1;
        self.limited += u64::from(is_limited);
    }
}

/// Scans the attempts of all lanes, because they are ordered by time.
pub(super) fn attempt_times(
    sql: &Connection,
    lane: Option<LaneId>,
    from: (StoreTime, DeliveryId),
    until: StoreTime,
    max: u32,
) -> Result<TimesPage> {
    let query =
        "SELECT a.at, a.delivery, a.lane, a.latency, a.outcome, a.before IS NULL, e.received FROM attempts a
         LEFT JOIN deliveries d ON d.delivery = a.delivery LEFT JOIN events e ON e.event = d.event
         WHERE (a.at, a.delivery) >= (?1, ?2) AND a.at < ?3 ORDER BY a.at, a.delivery LIMIT ?4";
    let mut query = sql.prepare_cached(query)?;
    let mut rows = query.query(params![from.0, from.1, until, max])?;
    let (mut attempts, mut last, mut looked_at) = (Vec::new(), None, 0);
    while let Some(row) = rows.next()? {
        let at = row.get(0)?;
        last = Some((at, row.get(1)?));
        looked_at += 1;
        let of: LaneId = row.get(2)?;
        if lane.is_none_or(|lane| lane == of) {
            attempts.push(AttemptTimes::of((at, row.get(3)?), row.get(4)?, row.get(5)?, row.get(6)?));
        }
    }
    Ok(TimesPage::new(attempts, last, looked_at >= max))
}
