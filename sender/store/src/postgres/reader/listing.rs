use tokio_postgres::Row;

use super::Read;
use crate::command::SECRETS_MAX;
use crate::command::{Attempt, AttemptOutcome, Body, Details, KeptAnswer};
use crate::engine::{DeliveryId, LaneId, StoreTime};
use crate::lane::{Pause, Retried, Secret};
use crate::paging::last_if_full;
use crate::postgres::ledger::read_bounds;
use crate::postgres::link::{Link, Value};
use crate::postgres::values::{Bits, Count, int, is_storable, size};
use crate::read::{
    Attempted, DeadLetter, Delivery, Filter, Lanes, LiveSecret, Resent, Subscriber, SubscriberRef, Tried,
    Tries,
};
use crate::seal::Field;

type Rows<T> = (Vec<T>, Option<[u64; 2]>);

const LOOKED_AT_MAX: i64 = 10_000;

pub(super) fn status(row: &Row, column: usize) -> Read<Option<u16>> {
    Ok(row.try_get::<_, Option<i32>>(column)?.and_then(|status| u16::try_from(status).ok()))
}

fn all<T>(sql: &Link, query: &'static str, values: &[Value<'_>], read: fn(&Row) -> Read<T>) -> Read<Vec<T>> {
    sql.query(query, values)?.iter().map(read).collect()
}

macro_rules! subscriber {
    ($rest:literal) => {
        concat!(
            "SELECT s.lane, s.id, s.name, s.url, s.patterns, s.settings, l.rows_max, l.bytes_max, l.when_full, l.state,
             s.version, s.created, s.retried, s.insisted, s.pause_reason, s.pause_until
             FROM subscribers s JOIN lanes l ON l.lane = s.lane WHERE ",
            $rest
        )
    };
}

pub(super) fn pause(row: &Row, column: usize) -> Read<Pause> {
    let reason = row.try_get::<_, Option<&str>>(column)?.map(Into::into);
    Ok(Pause { reason, until: row.try_get(column + 1)? })
}

fn read_subscriber(row: &Row) -> Read<Subscriber> {
    let text = |column| row.try_get::<_, &str>(column).map(Into::into);
    let count = |column| row.try_get::<_, Count>(column).map(|count| count.0);
    Ok(Subscriber {
        lane: row.try_get(0)?,
        id: text(1)?,
        name: text(2)?,
        url: text(3)?,
        patterns: text(4)?,
        settings: text(5)?,
        bounds: read_bounds(row, 6)?,
        state: row.try_get(9)?,
        version: count(10)?,
        created: row.try_get(11)?,
        retried: Retried { asked: count(12)?, insisted: count(13)? },
        pause: pause(row, 14)?,
    })
}

pub(super) fn subscribers_since(sql: &Link, since: u64, max: u32) -> Read<Vec<Subscriber>> {
    let query = subscriber!("s.version > $1 ORDER BY s.version LIMIT $2");
    all(sql, query, &[&int(since), &i64::from(max)], read_subscriber)
}

pub(super) fn subscribers(sql: &Link, place: Option<[u64; 2]>, max: u32) -> Read<Rows<Subscriber>> {
    let after = place.map_or(0, |at| at[0]);
    let query = subscriber!("s.lane > $1 AND s.removed IS NULL ORDER BY s.lane LIMIT $2");
    let rows = all(sql, query, &[&int(after), &i64::from(max)], read_subscriber)?;
    let next = last_if_full(&rows, max, |row| [row.lane.0, 0]);
    Ok((rows, next))
}

pub(super) fn subscriber(sql: &Link, which: &SubscriberRef) -> Read<Option<Subscriber>> {
    let row = match which {
        SubscriberRef::Lane(lane) => sql.first(subscriber!("s.removed IS NULL AND s.lane = $1"), &[lane])?,
        SubscriberRef::Id(text) | SubscriberRef::Name(text) if !is_storable(text) => None,
        SubscriberRef::Id(id) => sql.first(subscriber!("s.removed IS NULL AND s.id = $1"), &[&&**id])?,
        SubscriberRef::Name(name) => {
            sql.first(subscriber!("s.removed IS NULL AND s.name = $1"), &[&&**name])?
        }
    };
    row.as_ref().map(read_subscriber).transpose()
}

pub(super) fn secrets(sql: &Link, lane: LaneId, now: StoreTime) -> Read<Vec<LiveSecret>> {
    let query =
        "SELECT secret, created, retires FROM secrets WHERE lane = $1 AND (retires IS NULL OR retires > $2)
        ORDER BY id DESC LIMIT $3";
    all(sql, query, &[&lane, &now, &int(size(SECRETS_MAX))], |row| {
        Ok(LiveSecret {
            secret: Secret::new(row.try_get::<_, &str>(0)?),
            created: row.try_get(1)?,
            retires: row.try_get(2)?,
        })
    })
}

/// A dead letter may have lost its event.
macro_rules! delivery {
    ($rest:literal) => {
        concat!(
            "SELECT d.delivery, d.lane, e.id, e.kind, e.key, e.received, d.state, d.attempts, d.bytes,
             d.at, d.expires, d.reason, d.status, d.error FROM all_deliveries d LEFT JOIN events e ON e.event = d.event ",
            $rest
        )
    };
}

fn read_delivery(row: &Row) -> Read<Delivery> {
    let text = |column| row.try_get::<_, Option<&str>>(column);
    Ok(Delivery {
        delivery: row.try_get(0)?,
        lane: row.try_get(1)?,
        event: text(2)?.unwrap_or_default().into(),
        kind: text(3)?.unwrap_or_default().into(),
        key: text(4)?.map(Into::into),
        received: row.try_get::<_, Option<StoreTime>>(5)?.unwrap_or_default(),
        place: row.try_get(6)?,
        attempts: u32::try_from(row.try_get::<_, i64>(7)?).unwrap_or(u32::MAX),
        bytes: row.try_get::<_, Count>(8)?.0,
        at: row.try_get(9)?,
        expires: row.try_get(10)?,
        reason: row.try_get(11).unwrap_or_default(),
    })
}

pub(super) fn queue(sql: &Link, lane: LaneId, place: Option<[u64; 2]>, max: u32) -> Read<Rows<Delivery>> {
    let [at, delivery] = place.unwrap_or([0, 0]);
    let query = delivery!(
        "WHERE d.lane = $1 AND d.state = 0 AND (d.at, d.delivery) > ($2, $3) ORDER BY d.at, d.delivery LIMIT $4"
    );
    let rows = all(sql, query, &[&lane, &int(at), &int(delivery), &i64::from(max)], read_delivery)?;
    let next = last_if_full(&rows, max, |row| [row.at.0, row.delivery.0]);
    Ok((rows, next))
}

pub(super) fn deliveries(sql: &Link, of: &Filter, place: Option<[u64; 2]>, max: u32) -> Read<Rows<Delivery>> {
    let before = place.map_or(u64::MAX, |at| at[0]);
    // Examines a limited number, and reads only the matching ones in full. The lower bound comes from `done`: below
    // it, the other table holds dead rows of deliveries that moved there.
    let lowest = "SELECT coalesce((SELECT delivery FROM done WHERE delivery < $1 ORDER BY delivery DESC OFFSET $2 LIMIT 1), 0)";
    let low: DeliveryId = sql.one(lowest, &[&int(before), &LOOKED_AT_MAX])?.try_get(0)?;
    let query = "WITH looked AS (SELECT delivery, lane, state FROM all_deliveries WHERE delivery >= $6 AND delivery < $1
            ORDER BY delivery DESC LIMIT $2)
        SELECT d.delivery, d.lane, e.id, e.kind, e.key, e.received, d.state, d.attempts, d.bytes, d.at, d.expires, d.reason
        FROM looked l JOIN all_deliveries d ON d.delivery = l.delivery LEFT JOIN events e ON e.event = d.event
        WHERE ($3::int8[] IS NULL OR l.lane = ANY($3)) AND ($4::int2 IS NULL OR l.state = $4)
        ORDER BY d.delivery DESC LIMIT $5";
    let lanes = of.lanes.listed();
    let found =
        sql.query(query, &[&int(before), &LOOKED_AT_MAX, &lanes, &of.place, &i64::from(max), &low])?;
    let rows = found.iter().map(read_delivery).collect::<Read<Vec<_>>>()?;
    if let Some(next) = last_if_full(&rows, max, |row| [row.delivery.0, 0]) {
        return Ok((rows, Some(next)));
    }
    let looked = "SELECT count(*), min(delivery) FROM
        (SELECT delivery FROM all_deliveries WHERE delivery >= $3 AND delivery < $1 ORDER BY delivery DESC LIMIT $2) l";
    let row = sql.one(looked, &[&int(before), &LOOKED_AT_MAX, &low])?;
    let end: DeliveryId = if row.try_get::<_, i64>(0)? == LOOKED_AT_MAX { row.try_get(1)? } else { low };
    Ok((rows, (end.0 > 0).then_some([end.0, 0])))
}

pub(super) fn delivery(sql: &Link, delivery: DeliveryId) -> Read<Option<Delivery>> {
    sql.first(delivery!("WHERE d.delivery = $1"), &[&delivery])?.as_ref().map(read_delivery).transpose()
}

pub(super) fn deliveries_of_event(
    sql: &Link,
    (event, lanes): (&str, &Lanes),
    place: Option<[u64; 2]>,
    max: u32,
) -> Read<Rows<Delivery>> {
    if !is_storable(event) {
        return Ok((Vec::new(), None));
    }
    let after = place.map_or(0, |at| at[0]);
    let query = delivery!(
        "WHERE d.delivery IN (SELECT unnest(n.deliveries) FROM events n WHERE n.id = $1) AND d.delivery > $3
         AND ($4::int8[] IS NULL OR d.lane = ANY($4)) ORDER BY d.delivery LIMIT $2"
    );
    let rows = all(sql, query, &[&event, &i64::from(max), &int(after), &lanes.listed()], read_delivery)?;
    let next = last_if_full(&rows, max, |row| [row.delivery.0, 0]);
    Ok((rows, next))
}

pub(super) fn siblings(sql: &Link, delivery: DeliveryId) -> Read<Vec<DeliveryId>> {
    let query = "SELECT n FROM all_deliveries d JOIN events e ON e.event = d.event
        CROSS JOIN LATERAL unnest(e.deliveries) n WHERE d.delivery = $1 ORDER BY n";
    all(sql, query, &[&delivery], |row| row.try_get(0))
}

pub(super) fn lanes_in_part(sql: &Link, event: &str) -> Read<Vec<LaneId>> {
    if !is_storable(event) {
        return Ok(Vec::new());
    }
    let query = "SELECT d.lane FROM events e CROSS JOIN LATERAL unnest(e.deliveries) n JOIN all_deliveries d ON d.delivery = n
        WHERE e.id = $1 AND e.in_part ORDER BY d.delivery";
    all(sql, query, &[&event], |row| row.try_get(0))
}

pub(super) fn body(sql: &Link, delivery: DeliveryId) -> Read<Option<(Field, Body)>> {
    let query =
        "SELECT coalesce(b.bytes, e.bytes), b.body, d.event FROM all_deliveries d LEFT JOIN bodies b ON b.body = d.body
        LEFT JOIN events e ON e.event = d.event AND d.body IS NULL
        WHERE d.delivery = $1 AND coalesce(b.bytes, e.bytes) IS NOT NULL";
    let Some(row) = sql.first(query, &[&delivery])? else { return Ok(None) };
    let field = match row.try_get::<_, Option<Count>>(1)? {
        Some(Count(body)) => Field::FurtherBody(body),
        None => Field::EventBody(row.try_get::<_, Count>(2)?.0),
    };
    Ok(Some((field, Body { bytes: row.try_get::<_, &[u8]>(0)?.into() })))
}

fn read_attempt(row: &Row) -> Read<Attempted> {
    Ok(Attempted {
        delivery: row.try_get(0)?,
        number: u32::try_from(row.try_get::<_, i64>(1)?).unwrap_or(u32::MAX),
        attempt: Attempt {
            at: row.try_get(2)?,
            latency: row.try_get(3)?,
            outcome: row.try_get(4)?,
            status: status(row, 5)?,
            error: row.try_get(6)?,
            body_hash: row.try_get::<_, Bits>(7)?.0,
            received: None,
            details: Details {
                connect: row.try_get(8)?,
                first_byte: row.try_get(9)?,
                asked: row.try_get(10)?,
                answer: None,
            },
        },
    })
}

pub(super) fn attempts(sql: &Link, of: &Tries, place: Option<[u64; 2]>, max: u32) -> Read<Rows<Tried>> {
    let [at, delivery] = place.unwrap_or([u64::MAX; 2]).map(int);
    let query = "WITH looked AS (SELECT * FROM attempts WHERE (at, delivery) < ($1, $2)
            ORDER BY at DESC, delivery DESC LIMIT $3)
        SELECT delivery, number, at, latency, outcome, status, error, body_hash, connect, first_byte, asked, lane,
            (SELECT e.received FROM all_deliveries d JOIN events e ON e.event = d.event WHERE d.delivery = l.delivery)
        FROM looked l WHERE ($4::int8[] IS NULL OR lane = ANY($4)) AND ($5::int2 IS NULL OR outcome <> $5)
        ORDER BY at DESC, delivery DESC LIMIT $6";
    let unwanted = of.failed.then_some(AttemptOutcome::Delivered);
    let lanes = of.lanes.listed();
    let values: &[Value<'_>] = &[&at, &delivery, &LOOKED_AT_MAX, &lanes, &unwanted, &i64::from(max)];
    let rows = all(sql, query, values, |row| {
        Ok(Tried { attempted: read_attempt(row)?, lane: row.try_get(11)?, received: row.try_get(12)? })
    })?;
    let full = |Tried { attempted, .. }: &Tried| [attempted.attempt.at.0, attempted.delivery.0];
    if let Some(next) = last_if_full(&rows, max, full) {
        return Ok((rows, Some(next)));
    }
    let last = "SELECT at, delivery FROM attempts WHERE (at, delivery) < ($1, $2)
        ORDER BY at DESC, delivery DESC OFFSET $3 LIMIT 1";
    let last = sql.first(last, &[&at, &delivery, &(LOOKED_AT_MAX - 1)])?;
    let place = |row: Row| Ok([row.try_get::<_, StoreTime>(0)?.0, row.try_get::<_, DeliveryId>(1)?.0]);
    Ok((rows, last.map(place).transpose()?))
}

pub(super) fn resent(sql: &Link, delivery: DeliveryId) -> Read<Vec<Resent>> {
    let query = "SELECT at, after FROM resent WHERE delivery = $1 ORDER BY at DESC LIMIT 1000";
    all(sql, query, &[&delivery], |row| Ok(Resent { at: row.try_get(0)?, after: row.try_get(1)? }))
}

/// Follows the chain of attempts, up to 1,000 of them.
pub(super) fn attempts_of(sql: &Link, delivery: DeliveryId) -> Read<Vec<Attempted>> {
    let query = "WITH RECURSIVE chain AS (
            SELECT a.*, 1 AS place FROM all_deliveries d JOIN attempts a ON a.at = d.last_attempt AND a.delivery = d.delivery
            WHERE d.delivery = $1
        UNION ALL
            SELECT a.*, c.place + 1 FROM chain c JOIN attempts a ON a.at = c.before AND a.delivery = c.delivery
            WHERE c.place < 1000)
        SELECT delivery, number, at, latency, outcome, status, error, body_hash, connect, first_byte, asked
        FROM chain ORDER BY place";
    let attempts = all(sql, query, &[&delivery], read_attempt)?;
    let query = "SELECT n.at, n.head, n.body, n.cut FROM all_deliveries d JOIN answers n ON n.lane = d.lane
        WHERE d.delivery = $1 AND n.delivery = d.delivery";
    let answers = all(sql, query, &[&delivery], |row| {
        let answer = KeptAnswer { head: row.try_get(1)?, body: row.try_get(2)?, cut: row.try_get(3)? };
        Ok((row.try_get(0)?, answer))
    })?;
    Ok(Attempted::with_answers(attempts, answers))
}

pub(super) fn dead(sql: &Link, lanes: &Lanes, place: Option<[u64; 2]>, max: u32) -> Read<Rows<DeadLetter>> {
    let (before, limit) = (int(place.map_or(u64::MAX, |at| at[0])), i64::from(max));
    let found = match lanes.listed() {
        None => {
            let query = delivery!("WHERE d.state = 2 AND d.delivery < $1 ORDER BY d.delivery DESC LIMIT $2");
            sql.query(query, &[&before, &limit])?
        }
        Some(lanes) => {
            let query = delivery!(
                "WHERE d.state = 2 AND d.delivery < $1 AND d.lane = ANY($3) ORDER BY d.delivery DESC LIMIT $2"
            );
            sql.query(query, &[&before, &limit, &lanes])?
        }
    };
    let letter = |row: &Row| {
        Ok(DeadLetter {
            delivery: read_delivery(row)?,
            reason: row.try_get(11)?,
            status: status(row, 12)?,
            error: row.try_get(13)?,
        })
    };
    let rows = found.iter().map(letter).collect::<Read<Vec<_>>>()?;
    let next = last_if_full(&rows, max, |row| [row.delivery.delivery.0, 0]);
    Ok((rows, next))
}
