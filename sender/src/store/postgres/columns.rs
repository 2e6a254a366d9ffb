//! What a commit writes of events, deliveries and attempts: by columns, a statement for each table.

use super::Result;
use super::changes::Rest;
use super::ledger::Ledger;
use super::link::{Ask, Link};
use super::rows::{NewAttempt, NewDelivery, Rows, numbers};
use super::values::{Bits, int, size};
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use crate::store::command::{Outcome, Reason};
use crate::store::read::Place;

const DELIVERY_NUMBERS: &str = "SELECT nextval('delivery_numbers') FROM generate_series(1, $1::int8)";

/// Writes what is to be written.
pub(super) fn flush(sql: &Link, ledger: &mut Ledger, rows: &mut Rows) -> Result<()> {
    let written = rows.numbers.len();
    if !rows.fresh.is_empty() {
        let given = sql.query(DELIVERY_NUMBERS, &[&int(size(rows.fresh.len()))])?;
        rows.numbers.extend(numbers(&given)?.into_iter().map(|number| DeliveryId(number.cast_unsigned())));
    }
    let (events, fresh) = (Events::of(rows), Fresh::of(&rows.fresh, &rows.numbers[written..]));
    let (changed, attempts) = (Changed::of(rows), Attempts::of(&rows.attempts));
    let changes = ledger.changes();
    let rest = Rest::of(&changes);
    let mut asks = events.asks();
    asks.extend([fresh.ask(), changed.ask(), attempts.ask(), changes.lanes.ask()].into_iter().flatten());
    asks.extend(rest.asks(&changes));
    if !asks.is_empty() {
        sql.execute_all(&asks)?;
    }
    rows.are_written();
    Ok(())
}

/// Bodies and events by columns.
#[derive(Default)]
struct Events<'a> {
    bodies: (Vec<i64>, Vec<Bits>, Vec<&'a [u8]>),
    keys: (Vec<i64>, Vec<&'a str>, Vec<&'a str>, Vec<Option<&'a str>>),
    rest: (Vec<StoreTime>, Vec<bool>),
    /// The deliveries and the bodies of each event, as text of an array: arrays of arrays have one length.
    parts: (Vec<String>, Vec<String>),
}

impl<'a> Events<'a> {
    fn of(rows: &'a Rows) -> Self {
        let mut columns = Self::default();
        for (number, body) in &rows.bodies {
            columns.bodies.0.push(*number);
            columns.bodies.1.push(Bits(body.hash));
            columns.bodies.2.push(&body.bytes);
        }
        for event in &rows.events {
            columns.keys.0.push(event.number);
            columns.keys.1.push(&event.id);
            columns.keys.2.push(&event.kind);
            columns.keys.3.push(event.key.as_deref());
            columns.rest.0.push(event.received);
            columns.rest.1.push(event.in_part);
            columns.parts.0.push(array(event.deliveries.iter().map(|delivery| int(rows.real(*delivery).0))));
            columns.parts.1.push(array(event.bodies.iter().copied()));
        }
        columns
    }

    fn asks(&self) -> Vec<Ask<'_>> {
        let (bodies, keys, rest, parts) = (&self.bodies, &self.keys, &self.rest, &self.parts);
        let mut asks = Vec::new();
        if !bodies.0.is_empty() {
            asks.push(Ask {
                text: "INSERT INTO bodies SELECT * FROM unnest($1::int8[], $2::int8[], $3::bytea[])",
                values: vec![&bodies.0, &bodies.1, &bodies.2],
            });
        }
        if !keys.0.is_empty() {
            asks.push(Ask {
                text: "INSERT INTO events SELECT event, id, kind, key, received, in_part, deliveries::int8[], bodies::int8[]
                    FROM unnest($1::int8[], $2::text[], $3::text[], $4::text[], $5::int8[], $6::bool[], $7::text[], $8::text[])
                    u (event, id, kind, key, received, in_part, deliveries, bodies)",
                values: vec![&keys.0, &keys.1, &keys.2, &keys.3, &rest.0, &rest.1, &parts.0, &parts.1],
            });
        }
        asks
    }
}

fn array(numbers: impl Iterator<Item = i64>) -> String {
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    format!("{{{}}}", numbers.join(","))
}

/// New deliveries by columns.
#[derive(Default)]
struct Fresh<'a> {
    keys: (Vec<DeliveryId>, Vec<LaneId>, Vec<i64>, Vec<i64>, Vec<i64>),
    times: (Vec<Place>, Vec<StoreTime>, Vec<StoreTime>, Vec<Nanos>, Vec<Option<Reason>>),
    texts: (Vec<Option<&'a str>>, Vec<Option<&'a str>>),
}

impl<'a> Fresh<'a> {
    fn of(fresh: &'a [NewDelivery], numbers: &[DeliveryId]) -> Self {
        let mut columns = Self::default();
        for (one, number) in fresh.iter().zip(numbers) {
            columns.keys.0.push(*number);
            columns.keys.1.push(one.lane);
            columns.keys.2.push(one.event);
            columns.keys.3.push(one.body);
            columns.keys.4.push(int(one.bytes));
            columns.times.0.push(one.place);
            columns.times.1.push(one.at);
            columns.times.2.push(one.expires);
            columns.times.3.push(one.ttl);
            columns.times.4.push(one.reason);
            columns.texts.0.push(one.coalesce.as_deref());
            columns.texts.1.push(one.signature.as_deref());
        }
        columns
    }

    fn ask(&self) -> Option<Ask<'_>> {
        let (keys, times, texts) = (&self.keys, &self.times, &self.texts);
        (!keys.0.is_empty()).then(|| Ask {
            text: "INSERT INTO deliveries SELECT delivery, lane, event, body, bytes, state, 0, at, expires, ttl, NULL,
                reason, NULL, NULL, alike, signature
                FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::int8[], $6::int2[], $7::int8[],
                $8::int8[], $9::int8[], $10::int2[], $11::text[], $12::text[])
                u (delivery, lane, event, body, bytes, state, at, expires, ttl, reason, alike, signature)",
            values: vec![
                &keys.0, &keys.1, &keys.2, &keys.3, &keys.4, &times.0, &times.1, &times.2, &times.3, &times.4,
                &texts.0, &texts.1,
            ],
        })
    }
}

/// Attempts by columns.
#[derive(Default)]
struct Attempts<'a> {
    keys: (Vec<StoreTime>, Vec<DeliveryId>, Vec<LaneId>, Vec<i64>),
    told: (Vec<Nanos>, Vec<Outcome>, Vec<Option<i32>>, Vec<Option<&'a str>>),
    rest: (Vec<Bits>, Vec<Option<StoreTime>>, Vec<bool>),
}

impl<'a> Attempts<'a> {
    fn of(attempts: &'a [NewAttempt]) -> Self {
        let mut columns = Self::default();
        for attempt in attempts {
            columns.keys.0.push(attempt.at);
            columns.keys.1.push(attempt.delivery);
            columns.keys.2.push(attempt.lane);
            columns.keys.3.push(attempt.number.into());
            columns.told.0.push(attempt.latency);
            columns.told.1.push(attempt.outcome);
            columns.told.2.push(attempt.status);
            columns.told.3.push(attempt.error.as_deref());
            columns.rest.0.push(Bits(attempt.body_hash));
            columns.rest.1.push(attempt.before);
            columns.rest.2.push(attempt.capped);
        }
        columns
    }

    fn ask(&self) -> Option<Ask<'_>> {
        let (keys, told, rest) = (&self.keys, &self.told, &self.rest);
        (!keys.0.is_empty()).then(|| Ask {
            text: "INSERT INTO attempts SELECT * FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::int8[],
                $6::int2[], $7::int4[], $8::text[], $9::int8[], $10::int8[], $11::bool[]) ON CONFLICT DO NOTHING",
            values: vec![
                &keys.0, &keys.1, &keys.2, &keys.3, &told.0, &told.1, &told.2, &told.3, &rest.0, &rest.1, &rest.2,
            ],
        })
    }
}

/// Deliveries that changed, by columns.
#[derive(Default)]
struct Changed<'a> {
    keys: (Vec<DeliveryId>, Vec<Place>, Vec<StoreTime>, Vec<i64>),
    rest: (Vec<Option<StoreTime>>, Vec<Option<i32>>, Vec<Option<&'a str>>, Vec<Option<Reason>>),
}

impl<'a> Changed<'a> {
    fn of(rows: &'a Rows) -> Self {
        let mut columns = Self::default();
        for delivery in &rows.changed {
            let Some(Some(found)) = rows.deliveries.get(delivery) else { continue };
            columns.keys.0.push(*delivery);
            columns.keys.1.push(found.place);
            columns.keys.2.push(found.at);
            columns.keys.3.push(found.attempts.into());
            columns.rest.0.push(found.last_attempt);
            columns.rest.1.push(found.status);
            columns.rest.2.push(found.error.as_deref());
            columns.rest.3.push(found.reason);
        }
        columns
    }

    fn ask(&self) -> Option<Ask<'_>> {
        let (keys, rest) = (&self.keys, &self.rest);
        (!keys.0.is_empty()).then(|| Ask {
            text: "UPDATE deliveries d SET state = u.state, at = u.at, attempts = u.attempts,
                last_attempt = u.last_attempt, status = u.status, error = u.error, reason = u.reason
                FROM unnest($1::int8[], $2::int2[], $3::int8[], $4::int8[], $5::int8[], $6::int4[], $7::text[], $8::int2[])
                u (delivery, state, at, attempts, last_attempt, status, error, reason) WHERE d.delivery = u.delivery",
            values: vec![&keys.0, &keys.1, &keys.2, &keys.3, &rest.0, &rest.1, &rest.2, &rest.3],
        })
    }
}
