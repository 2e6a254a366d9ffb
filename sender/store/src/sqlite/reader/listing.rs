use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use super::super::event_id::{EventId, StoredEventId};
use super::super::values::{Bits, int, size};
use crate::command::{Attempt, AttemptOutcome, Body, Details, KeptAnswer, SECRETS_MAX};
use crate::engine::{DeliveryId, LaneId, StoreTime};
use crate::lane::{Bounds, Pause, Retried, Secret};
use crate::paging::last_if_full;
use crate::read::{
    Attempted, DeadLetter, Delivery, Filter, Lanes, LiveSecret, Resent, Subscriber, SubscriberRef, Tried,
    Tries,
};
use crate::seal::Field;
use crate::sqlite::failure::or_least;

type Rows<T> = (Vec<T>, Option<[u64; 2]>);

const LOOKED_AT_MAX: u32 = 10_000;

const ATTEMPTS_MAX: usize = 1_000;

const SUBSCRIBER: &str =
    "SELECT s.lane, s.id, s.name, s.url, s.patterns, s.settings, l.rows_max, l.bytes_max,
    l.when_full, l.state, s.version, s.created, s.retried, s.insisted, s.pause_reason, s.pause_until
    FROM subscribers s JOIN lanes l ON l.lane = s.lane";

fn read_subscriber(row: &Row<'_>) -> Result<Subscriber> {
    Ok(Subscriber {
        lane: row.get(0)?,
        id: row.get(1)?,
        name: row.get(2)?,
        url: row.get(3)?,
        patterns: row.get(4)?,
        settings: row.get(5)?,
        bounds: Bounds { rows_max: row.get(6)?, bytes_max: row.get(7)?, when_full: row.get(8)? },
        state: row.get(9)?,
        version: row.get(10)?,
        created: row.get(11)?,
        retried: Retried { asked: row.get(12)?, insisted: row.get(13)? },
        pause: Pause { reason: row.get(14)?, until: row.get(15)? },
    })
}

pub(super) fn subscribers_since(sql: &Connection, since: u64, max: u32) -> Result<Vec<Subscriber>> {
    sql.prepare_cached(&format!("{SUBSCRIBER} WHERE s.version > ?1 ORDER BY s.version LIMIT ?2"))?
        .query_map(params![int(since), max], read_subscriber)?
        .collect()
}

pub(super) fn subscribers(sql: &Connection, place: Option<[u64; 2]>, max: u32) -> Result<Rows<Subscriber>> {
    let after = place.map_or(0, |at| at[0]);
    let rows: Vec<Subscriber> = sql
        .prepare_cached(&format!(
            "{SUBSCRIBER} WHERE s.lane > ?1 AND s.removed IS NULL ORDER BY s.lane LIMIT ?2"
        ))?
        .query_map(params![int(after), max], read_subscriber)?
        .collect::<Result<_>>()?;
    let next = last_if_full(&rows, max, |row| [row.lane.0, 0]);
    Ok((rows, next))
}

pub(super) fn subscriber(sql: &Connection, which: &SubscriberRef) -> Result<Option<Subscriber>> {
    let find = |condition: &str, value: &dyn rusqlite::ToSql| {
        let query = format!("{SUBSCRIBER} WHERE s.removed IS NULL AND {condition} = ?1");
        sql.prepare_cached(&query)?.query_row([value], read_subscriber).optional()
    };
    match which {
        SubscriberRef::Lane(lane) => find("s.lane", lane),
        SubscriberRef::Id(id) => find("s.id", id),
        SubscriberRef::Name(name) => find("s.name", name),
    }
}

pub(super) fn secrets(sql: &Connection, lane: LaneId, now: StoreTime) -> Result<Vec<LiveSecret>> {
    sql.prepare_cached(
        "SELECT secret, created, retires FROM secrets WHERE lane = ?1 AND (retires IS NULL OR retires > ?2)
         ORDER BY id DESC LIMIT ?3",
    )?
    .query_map(params![lane, now, int(size(SECRETS_MAX))], |row| {
        Ok(LiveSecret {
            secret: Secret::new(row.get::<_, Box<str>>(0)?),
            created: row.get(1)?,
            retires: row.get(2)?,
        })
    })?
    .collect()
}

const DELIVERY: &str =
    "SELECT d.delivery, d.lane, e.id, e.kind, e.key, e.received, d.state, d.attempts, d.bytes,
    d.at, d.expires, d.reason, d.status, d.error FROM deliveries d";

/// A dead letter may have lost its event.
const ITS_EVENT: &str = "LEFT JOIN events e ON e.event = d.event";

fn read_delivery(row: &Row<'_>) -> Result<Delivery> {
    Ok(Delivery {
        delivery: row.get(0)?,
        lane: row.get(1)?,
        event: row.get::<_, Option<StoredEventId>>(2)?.map(|id| id.0).unwrap_or_default(),
        kind: row.get::<_, Option<_>>(3)?.unwrap_or_default(),
        key: row.get(4)?,
        received: or_least(row.get::<_, Option<_>>(5))?.unwrap_or_default(),
        place: row.get(6)?,
        // An invalid figure must not hide the others.
        attempts: or_least(row.get(7))?,
        bytes: or_least(row.get(8))?,
        at: or_least(row.get(9))?,
        expires: or_least(row.get(10))?,
        reason: row.get(11).unwrap_or_default(),
    })
}

pub(super) fn queue(
    sql: &Connection,
    lane: LaneId,
    place: Option<[u64; 2]>,
    max: u32,
) -> Result<Rows<Delivery>> {
    let [at, delivery] = place.unwrap_or([0, 0]);
    let rows: Vec<Delivery> = sql
        .prepare_cached(&format!(
            "{DELIVERY} INDEXED BY deliveries_due {ITS_EVENT} WHERE d.lane = ?1 AND d.state = 0
             AND (d.at, d.delivery) > (?2, ?3) ORDER BY d.at, d.delivery LIMIT ?4"
        ))?
        .query_map(params![lane, int(at), int(delivery), max], read_delivery)?
        .collect::<Result<_>>()?;
    let next = last_if_full(&rows, max, |row| [row.at.0, row.delivery.0]);
    Ok((rows, next))
}

pub(super) fn deliveries(
    sql: &Connection,
    of: &Filter,
    place: Option<[u64; 2]>,
    max: u32,
) -> Result<Rows<Delivery>> {
    let before = place.map_or(u64::MAX, |at| at[0]);
    let mut query = sql.prepare_cached(&format!(
        "{DELIVERY} {ITS_EVENT} WHERE d.delivery < ?1 ORDER BY d.delivery DESC LIMIT ?2"
    ))?;
    let found = query.query_map(params![int(before), LOOKED_AT_MAX], read_delivery)?;
    let is_wanted =
        |found: &Delivery| of.lanes.have(found.lane) && of.place.is_none_or(|place| place == found.place);
    wanted(found, max, is_wanted, |delivery| [delivery.delivery.0, 0])
}

/// Keeps at most `max` of the rows, of which there are at most [`LOOKED_AT_MAX`].
fn wanted<T>(
    found: impl Iterator<Item = Result<T>>,
    max: u32,
    is_wanted: impl Fn(&T) -> bool,
    place: impl Fn(&T) -> [u64; 2],
) -> Result<Rows<T>> {
    let (mut rows, mut last, mut looked_at) = (Vec::new(), None, 0);
    for row in found {
        let row = row?;
        last = Some(place(&row));
        looked_at += 1;
        if is_wanted(&row) {
            rows.push(row);
        }
        if size(rows.len()) >= u64::from(max) {
            return Ok((rows, last));
        }
    }
    Ok((rows, last.filter(|_| looked_at == LOOKED_AT_MAX)))
}

pub(super) fn delivery(sql: &Connection, delivery: DeliveryId) -> Result<Option<Delivery>> {
    sql.prepare_cached(&format!("{DELIVERY} {ITS_EVENT} WHERE d.delivery = ?1"))?
        .query_row([delivery], read_delivery)
        .optional()
}

pub(super) fn deliveries_of_event(
    sql: &Connection,
    (event, lanes): (&str, &Lanes),
    place: Option<[u64; 2]>,
    max: u32,
) -> Result<Rows<Delivery>> {
    let from = place.map_or(0, |at| at[0].saturating_add(1));
    let mut query = sql.prepare_cached(&format!(
        "{DELIVERY} {ITS_EVENT} WHERE e.id = ?1 AND d.event = e.event AND d.delivery >= max(e.first_delivery, ?3)
         AND d.delivery < e.first_delivery + e.deliveries ORDER BY d.delivery LIMIT ?2"
    ))?;
    let found = query.query_map(params![EventId::new(event), LOOKED_AT_MAX, int(from)], read_delivery)?;
    wanted(found, max, |delivery| lanes.have(delivery.lane), |delivery| [delivery.delivery.0, 0])
}

pub(super) fn siblings(sql: &Connection, delivery: DeliveryId) -> Result<Vec<DeliveryId>> {
    sql.prepare_cached(
        "SELECT d.delivery FROM deliveries c JOIN events e ON e.event = c.event JOIN deliveries d
         ON d.event = e.event AND d.delivery >= e.first_delivery AND d.delivery < e.first_delivery + e.deliveries
         WHERE c.delivery = ?1 ORDER BY d.delivery",
    )?
    .query_map([delivery], |row| row.get(0))?
    .collect()
}

pub(super) fn lanes_in_part(sql: &Connection, event: &str) -> Result<Vec<LaneId>> {
    sql.prepare_cached(
        "SELECT d.lane FROM events e JOIN deliveries d
         ON d.event = e.event AND d.delivery >= e.first_delivery AND d.delivery < e.first_delivery + e.deliveries
         WHERE e.id = ?1 AND e.in_part IS NOT NULL",
    )?
    .query_map([EventId::new(event)], |row| row.get(0))?
    .collect()
}

pub(super) fn body(sql: &Connection, delivery: DeliveryId) -> Result<Option<(Field, Body)>> {
    sql.prepare_cached(
        "SELECT e.body, e.event, NULL FROM deliveries d JOIN events e ON e.event = d.event
         WHERE d.delivery = ?1 AND d.body = 0 AND e.body IS NOT NULL
         UNION ALL SELECT b.bytes, d.event, b.body FROM deliveries d JOIN further_bodies b ON b.body = d.body WHERE d.delivery = ?1",
    )?
    .query_row([delivery], |row| {
        let further = row.get::<_, Option<u64>>(2)?;
        let field = further.map_or(Field::EventBody(row.get(1)?), Field::FurtherBody);
        Ok((field, Body { bytes: row.get(0)? }))
    })
    .optional()
}

macro_rules! attempt {
    ($rest:literal) => {
        concat!(
            "SELECT a.delivery, a.number, a.at, a.latency, a.outcome, a.status, a.error, a.body_hash, a.connect,
            a.first_byte, a.asked IS NOT NULL, ",
            $rest
        )
    };
}

fn read_attempt(row: &Row<'_>) -> Result<Attempted> {
    Ok(Attempted {
        delivery: row.get(0)?,
        number: row.get(1)?,
        attempt: Attempt {
            at: row.get(2)?,
            latency: row.get(3)?,
            outcome: row.get(4)?,
            status: row.get(5)?,
            error: row.get(6)?,
            body_hash: row.get::<_, Bits>(7)?.0,
            received: None,
            details: Details {
                connect: row.get(8)?,
                first_byte: row.get(9)?,
                asked: row.get(10)?,
                answer: None,
            },
        },
    })
}

pub(super) fn attempts(
    sql: &Connection,
    of: &Tries,
    place: Option<[u64; 2]>,
    max: u32,
) -> Result<Rows<Tried>> {
    let [at, delivery] = place.unwrap_or([u64::MAX; 2]);
    let mut query = sql.prepare_cached(attempt!(
        "a.lane FROM attempts a
         WHERE (a.at, a.delivery) < (?1, ?2) ORDER BY a.at DESC, a.delivery DESC LIMIT ?3"
    ))?;
    let found = query.query_map(params![int(at), int(delivery), LOOKED_AT_MAX], |row| {
        Ok(Tried { lane: row.get(11)?, received: None, attempted: read_attempt(row)? })
    })?;
    let is_wanted = |tried: &Tried| {
        let failed = tried.attempted.attempt.outcome != AttemptOutcome::Delivered;
        of.lanes.have(tried.lane) && (failed || !of.failed)
    };
    let place = |Tried { attempted, .. }: &Tried| [attempted.attempt.at.0, attempted.delivery.0];
    let (mut rows, next) = wanted(found, max, is_wanted, place)?;
    let mut event = sql.prepare_cached(
        "SELECT e.received FROM deliveries d JOIN events e ON e.event = d.event WHERE d.delivery = ?1",
    )?;
    for tried in &mut rows {
        tried.received = event.query_row([tried.attempted.delivery], |row| row.get(0)).optional()?;
    }
    Ok((rows, next))
}

pub(super) fn resent(sql: &Connection, delivery: DeliveryId) -> Result<Vec<Resent>> {
    let mut query =
        sql.prepare_cached("SELECT at, after FROM resent WHERE delivery = ?1 ORDER BY at DESC LIMIT 1000")?;
    query.query_map([delivery], |row| Ok(Resent { at: row.get(0)?, after: row.get(1)? }))?.collect()
}

/// Follows the chain: one lookup for each attempt.
pub(super) fn attempts_of(sql: &Connection, delivery: DeliveryId) -> Result<Vec<Attempted>> {
    let mut at: Option<StoreTime> = sql
        .prepare_cached("SELECT last_attempt FROM deliveries WHERE delivery = ?1")?
        .query_row([delivery], |row| row.get(0))
        .optional()?
        .flatten();
    let mut query =
        sql.prepare_cached(attempt!("a.before FROM attempts a WHERE a.at = ?1 AND a.delivery = ?2"))?;
    let mut attempts = Vec::new();
    while let Some(moment) = at.take()
        && attempts.len() < ATTEMPTS_MAX
    {
        let link = query
            .query_row(params![moment, delivery], |row| Ok((read_attempt(row)?, row.get(11)?)))
            .optional()?;
        if let Some((attempt, before)) = link {
            attempts.push(attempt);
            at = before;
        }
    }
    let answers = sql
        .prepare_cached(
            "SELECT n.at, n.head, n.body, n.cut FROM deliveries d JOIN answers n ON n.lane = d.lane
             WHERE d.delivery = ?1 AND n.delivery = d.delivery",
        )?
        .query_map([delivery], |row| {
            Ok((row.get(0)?, KeptAnswer { head: row.get(1)?, body: row.get(2)?, cut: row.get(3)? }))
        })?
        .collect::<Result<Vec<_>>>()?;
    Ok(Attempted::with_answers(attempts, answers))
}

pub(super) fn dead(
    sql: &Connection,
    lanes: &Lanes,
    place: Option<[u64; 2]>,
    max: u32,
) -> Result<Rows<DeadLetter>> {
    let before = place.map_or(u64::MAX, |at| at[0]);
    let (index, condition, lane) = match lanes {
        Lanes::One(lane) => ("deliveries_dead_of_lane", "d.lane = ?3", Some(lane)),
        Lanes::All | Lanes::These(_) => ("deliveries_dead", "?3 IS NULL", None),
    };
    let mut query = sql.prepare_cached(&format!(
        "{DELIVERY} INDEXED BY {index} {ITS_EVENT} WHERE d.state = 2 AND {condition} AND d.delivery < ?1
         ORDER BY d.delivery DESC LIMIT ?2"
    ))?;
    let found = query.query_map(params![int(before), LOOKED_AT_MAX, lane], |row| {
        Ok(DeadLetter {
            delivery: read_delivery(row)?,
            reason: row.get(11)?,
            status: row.get(12)?,
            error: row.get(13)?,
        })
    })?;
    wanted(found, max, |letter| lanes.have(letter.delivery.lane), |letter| [letter.delivery.delivery.0, 0])
}
