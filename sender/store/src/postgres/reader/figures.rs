use hookproof_words::event_type::EventPatterns;
use tokio_postgres::Row;

use super::Read;
use super::listing::pause;
use crate::commit::job::is_of;
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use crate::lane::LaneState;
use crate::paging::last_if_full;
use crate::postgres::ledger::{counts, read_bounds, read_counts};
use crate::postgres::link::Link;
use crate::postgres::values::{Count, int};
use crate::postgres::wanted::summed;
use crate::read::{AttemptTimes, AuditSecond, DeadGroup, LaneStatus, Limited, Status, TimesPage};
use crate::reply::Record;

pub(super) fn status(sql: &Link, now: StoreTime) -> Read<Status> {
    let counts = read_counts(&sql.one(concat!("SELECT ", summed!(), " FROM newest_totals"), &[])?)?;
    let hour_ago = int(now.0.saturating_sub(Nanos::HOUR.0) / Nanos::MINUTE.0);
    let query = "SELECT delivered, failed_attempts, dead, latency_us FROM marks WHERE minute >= $1 ORDER BY minute LIMIT 1";
    let mark = |row: Row| {
        let count = |column| row.try_get::<_, Count>(column).map(|count| count.0);
        Ok([count(0)?, count(1)?, count(2)?, count(3)?])
    };
    let before = sql.first(query, &[&hour_ago])?.map(mark).transpose()?;
    Ok(Status {
        oldest_due: oldest_due(sql)?,
        next_to_expire: next_to_expire(sql)?,
        subscribers: subscribers(sql)?,
        unreadable: count(sql, "SELECT count(*) FROM deliveries WHERE state = 2 AND reason = 4")?,
        outbox: count(sql, "SELECT count(*) FROM outbox")?,
        outbox_rejected: count(sql, "SELECT count(*) FROM outbox_rejected")?,
        ..Status::of_hour(counts, before)
    })
}

fn count(sql: &Link, query: &'static str) -> Read<u64> {
    Ok(sql.one(query, &[])?.try_get::<_, Count>(0)?.0)
}

/// One index lookup for each lane with waiting deliveries.
fn oldest_due(sql: &Link) -> Read<Option<StoreTime>> {
    let query = "SELECT min((SELECT at FROM deliveries d WHERE d.lane = l.lane AND state = 0 AND at >= l.head ORDER BY at, delivery LIMIT 1))
        FROM lanes l WHERE l.waiting > 0";
    sql.one(query, &[])?.try_get(0)
}

fn next_to_expire(sql: &Link) -> Read<Option<StoreTime>> {
    let query = "SELECT e.received FROM deliveries d JOIN events e ON e.event = d.event
        WHERE d.state + 0 = 0 ORDER BY d.expires, d.delivery LIMIT 1";
    sql.first(query, &[])?.map(|row| row.try_get(0)).transpose()
}

fn subscribers(sql: &Link) -> Read<[u64; 3]> {
    let mut states = [0; 3];
    for row in sql.query("SELECT state, count(*) FROM lanes GROUP BY state", &[])? {
        let number = row.try_get::<_, Count>(1)?.0;
        match row.try_get(0)? {
            LaneState::Active => states[0] = number,
            LaneState::Paused => states[1] = number,
            LaneState::Disabled => states[2] = number,
            LaneState::Removed => {}
        }
    }
    Ok(states)
}

const LANES: &str = concat!(
    "SELECT ",
    counts!(),
    ", l.lane, l.state, l.rows_max, l.bytes_max, l.when_full, l.owner, l.term, s.id, s.name,
     (SELECT at FROM deliveries d WHERE d.lane = l.lane AND d.state = 0 AND d.at >= l.head ORDER BY at, delivery LIMIT 1),
     s.pause_reason, s.pause_until FROM lanes l JOIN subscribers s ON s.lane = l.lane WHERE l.lane > $1 ORDER BY l.lane LIMIT $2"
);

pub(super) fn lanes(
    sql: &Link,
    place: Option<[u64; 2]>,
    max: u32,
) -> Read<(Vec<LaneStatus>, Option<[u64; 2]>)> {
    let after = place.map_or(0, |at| at[0]);
    let lane = |row: &Row| {
        let term = row.try_get(16)?;
        Ok(LaneStatus {
            counts: read_counts(row)?,
            lane: row.try_get(10)?,
            state: row.try_get(11)?,
            bounds: read_bounds(row, 12)?,
            owner: row.try_get::<_, Option<_>>(15)?.map(|owner| (owner, term)),
            id: row.try_get::<_, &str>(17)?.into(),
            name: row.try_get::<_, &str>(18)?.into(),
            next: row.try_get(19)?,
            pause: pause(row, 20)?,
        })
    };
    let lanes: Vec<LaneStatus> =
        sql.query(LANES, &[&int(after), &i64::from(max)])?.iter().map(lane).collect::<Read<_>>()?;
    let next = last_if_full(&lanes, max, |lane| [lane.lane.0, 0]);
    Ok((lanes, next))
}

pub(super) fn lane(sql: &Link, lane: LaneId) -> Read<Option<LaneStatus>> {
    let (found, _) = lanes(sql, Some([lane.0.saturating_sub(1), 0]), 1)?;
    Ok(found.into_iter().find(|found| found.lane == lane))
}

pub(super) fn checkpoints(sql: &Link, lanes: &[LaneId]) -> Read<Vec<(LaneId, Record)>> {
    let query = "SELECT l.lane, l.record, l.record_at FROM unnest($1::int8[]) WITH ORDINALITY u (lane, place)
        JOIN lanes l ON l.lane = u.lane WHERE l.record IS NOT NULL ORDER BY u.place";
    let checkpoint = |row: &Row| {
        let record = Record { bytes: row.try_get::<_, &[u8]>(1)?.into(), at: row.try_get(2)? };
        Ok((row.try_get(0)?, record))
    };
    sql.query(query, &[&lanes])?.iter().map(checkpoint).collect()
}

pub(super) fn dead_groups(sql: &Link, since: StoreTime, max: u32) -> Read<Vec<DeadGroup>> {
    let query = "SELECT lane, reason, status, error, at / $2 * $2 AS hour, count(*) AS rows, sum(attempts)::int8, min(at), max(at)
        FROM deliveries WHERE state = 2 AND at >= $1 GROUP BY lane, reason, status, error, hour
        ORDER BY rows DESC, hour, lane, reason, status NULLS FIRST, error NULLS FIRST LIMIT $3";
    let group = |row: &Row| {
        Ok(DeadGroup {
            lane: row.try_get(0)?,
            reason: row.try_get(1)?,
            status: super::listing::status(row, 2)?,
            error: row.try_get(3)?,
            hour: row.try_get(4)?,
            rows: row.try_get::<_, Count>(5)?.0,
            attempts: row.try_get::<_, Count>(6)?.0,
            first: row.try_get(7)?,
            last: row.try_get(8)?,
        })
    };
    sql.query(query, &[&since, &Nanos::HOUR, &i64::from(max)])?.iter().map(group).collect()
}

pub(super) fn delivered(
    sql: &Link,
    lane: LaneId,
    (since, before): (StoreTime, StoreTime),
    events: Option<&EventPatterns>,
) -> Read<u64> {
    let query = if events.is_none() {
        "SELECT NULL::text, count(*) FROM done WHERE lane = $1 AND at >= $2 AND at < $3"
    } else {
        "SELECT e.kind, count(*) FROM done d JOIN events e ON e.event = d.event
        WHERE d.lane = $1 AND d.at >= $2 AND d.at < $3 GROUP BY e.kind"
    };
    let rows = sql.query(query, &[&lane, &since, &before])?;
    let count =
        |row: &Row| Ok(if is_of(events, row.try_get(0)?) { row.try_get::<_, Count>(1)?.0 } else { 0 });
    rows.iter().map(count).sum()
}

pub(super) fn audit(
    sql: &Link,
    lane: Option<LaneId>,
    (from, until): (StoreTime, StoreTime),
    max: u32,
) -> Read<Vec<AuditSecond>> {
    let query = "SELECT lane, at / $5 AS second, count(*), count(*) FILTER (WHERE status = 429) FROM attempts
        WHERE at >= $1 AND at < $2 AND ($4::int8 IS NULL OR lane = $4) GROUP BY second, lane ORDER BY second, lane LIMIT $3";
    let second = |row: &Row| {
        let count = |column| row.try_get::<_, Count>(column).map(|count| count.0);
        Ok(AuditSecond { lane: row.try_get(0)?, second: count(1)?, attempts: count(2)?, limited: count(3)? })
    };
    sql.query(query, &[&from, &until, &i64::from(max), &lane, &Nanos::SECOND])?.iter().map(second).collect()
}

pub(super) fn limited(sql: &Link, from: StoreTime, until: StoreTime) -> Read<Vec<Limited>> {
    let query = "SELECT lane, count(*), count(*) FILTER (WHERE status = 429) FROM attempts
        WHERE at >= $1 AND at < $2 GROUP BY lane ORDER BY lane";
    let of_lane = |row: &Row| {
        let count = |column| row.try_get::<_, Count>(column).map(|count| count.0);
        Ok(Limited { lane: row.try_get(0)?, attempts: count(1)?, limited: count(2)? })
    };
    sql.query(query, &[&from, &until])?.iter().map(of_lane).collect()
}

/// Scans the attempts of all lanes, because they are ordered by time.
pub(super) fn attempt_times(
    sql: &Link,
    lane: Option<LaneId>,
    from: (StoreTime, DeliveryId),
    until: StoreTime,
    max: u32,
) -> Read<TimesPage> {
    let query =
        "SELECT a.at, a.delivery, a.lane, a.latency, a.outcome, a.before IS NULL, e.received FROM attempts a
        LEFT JOIN all_deliveries d ON d.delivery = a.delivery LEFT JOIN events e ON e.event = d.event
        WHERE (a.at, a.delivery) >= ($1, $2) AND a.at < $3 ORDER BY a.at, a.delivery LIMIT $4";
    let rows = sql.query(query, &[&from.0, &from.1, &until, &i64::from(max)])?;
    let is_full = rows.len() >= usize::try_from(max).unwrap_or(usize::MAX);
    let (mut attempts, mut last) = (Vec::with_capacity(rows.len()), None);
    for row in &rows {
        let at = row.try_get(0)?;
        last = Some((at, row.try_get(1)?));
        let of: LaneId = row.try_get(2)?;
        if lane.is_none_or(|lane| lane == of) {
            let span = (at, row.try_get(3)?);
            attempts.push(AttemptTimes::of(span, row.try_get(4)?, row.try_get(5)?, row.try_get(6)?));
        }
    }
    Ok(TimesPage::new(attempts, last, is_full))
}
