//! What a commit writes of events, deliveries and attempts: by columns, a statement for each table.

use super::ledger::{Changes, Ledger};
use super::link::{Ask, Link};
use super::rows::{Delivery, NewAttempt, NewDelivery, NewEvent, Rows, numbers};
use super::stop::Result;
use super::table::Table;
use super::values::{Bits, int, size};
use crate::engine::DeliveryId;
use crate::store::command::Body;

const DELIVERY_NUMBERS: &str = "SELECT nextval('delivery_numbers') FROM generate_series(1, $1::int8)";

/// Attempts by columns.
macro_rules! attempts {
    () => {
        "SELECT * FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::int8[], $6::int2[], $7::int4[],
         $8::text[], $9::int8[], $10::int8[], $11::bool[])"
    };
}

/// Writes what is to be written.
pub(super) fn flush(sql: &Link, ledger: &mut Ledger, rows: &mut Rows) -> Result<()> {
    let written = rows.numbers.len();
    let unused = rows.unused.len().min(rows.fresh.len());
    rows.numbers.extend(rows.unused.drain(..unused));
    if rows.fresh.len() > unused {
        let given = sql.query(DELIVERY_NUMBERS, &[&int(size(rows.fresh.len() - unused))])?;
        rows.numbers.extend(numbers(&given)?.into_iter().map(|number| DeliveryId(number.cast_unsigned())));
    }
    let changes: Changes = ledger.changes();
    write(sql, rows, &rows.numbers[written..], &changes)?;
    rows.are_written();
    Ok(())
}

/// Writes all tables at once.
fn write(sql: &Link, rows: &Rows, numbers: &[DeliveryId], changes: &Changes) -> Result<()> {
    let mut tables: Vec<Table<'_>> = Vec::new();
    if !rows.bodies.is_empty() {
        tables.push(bodies(&rows.bodies));
    }
    if !rows.events.is_empty() {
        tables.push(events(&rows.events, rows));
    }
    if !rows.fresh.is_empty() {
        tables.push(fresh(&rows.fresh, numbers));
    }
    let changed: Vec<(DeliveryId, &Delivery)> = rows.changed().collect();
    if !changed.is_empty() {
        tables.push(deliveries(&changed));
    }
    let (first, others): (Vec<&NewAttempt>, Vec<_>) =
        rows.attempts.iter().partition(|attempt| attempt.is_first);
    if !first.is_empty() {
        tables.push(attempts(concat!("INSERT INTO attempts ", attempts!()), &first));
    }
    if !others.is_empty() {
        tables.push(attempts(
            concat!("INSERT INTO attempts ", attempts!(), " ON CONFLICT DO NOTHING"),
            &others,
        ));
    }
    tables.extend(changes.tables());
    let mut asks: Vec<Ask<'_>> = tables.iter().map(Table::ask).collect();
    asks.extend(changes.state());
    if !asks.is_empty() {
        sql.execute_all(&asks)?;
    }
    Ok(())
}

fn bodies(bodies: &[(i64, Body)]) -> Table<'_> {
    Table::new("INSERT INTO bodies SELECT * FROM unnest($1::int8[], $2::int8[], $3::bytea[])")
        .with(bodies.iter().map(|(number, _)| *number))
        .with(bodies.iter().map(|(_, body)| Bits(body.hash())))
        .with(bodies.iter().map(|(_, body)| &*body.bytes))
}

fn events<'a>(events: &'a [NewEvent], rows: &Rows) -> Table<'a> {
    let real = |one: &DeliveryId| int(rows.real(*one).0);
    Table::new(
        "INSERT INTO events SELECT event, id, kind, key, received, in_part,
         CASE WHEN deliveries IS NULL THEN ARRAY[delivery] ELSE deliveries::int8[] END,
         CASE WHEN bodies IS NULL THEN ARRAY[]::int8[] ELSE bodies::int8[] END, hash, bytes
         FROM unnest($1::int8[], $2::text[], $3::text[], $4::text[], $5::int8[], $6::bool[], $7::int8[], $8::text[],
         $9::text[], $10::int8[], $11::bytea[])
         u (event, id, kind, key, received, in_part, delivery, deliveries, bodies, hash, bytes)",
    )
    .with(events.iter().map(|event| event.number))
    .with(events.iter().map(|event| &*event.id))
    .with(events.iter().map(|event| &*event.kind))
    .with(events.iter().map(|event| event.key.as_deref()))
    .with(events.iter().map(|event| event.received))
    .with(events.iter().map(|event| event.in_part))
    .with(events.iter().map(move |event| event.deliveries.first().map(real)))
    .with(events.iter().map(move |event| array(event.deliveries.iter().map(real), 1)))
    .with(events.iter().map(|event| array(event.bodies.iter().copied(), 0)))
    .with(events.iter().map(|event| event.body.as_ref().map(|body| Bits(body.hash()))))
    .with(events.iter().map(|event| event.body.as_ref().map(|body| &*body.bytes)))
}

/// An array of more than so many, as text: a column of arrays would have to be one of arrays of one length.
fn array(numbers: impl ExactSizeIterator<Item = i64>, more_than: usize) -> Option<String> {
    (numbers.len() > more_than).then(|| {
        let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
        format!("{{{}}}", numbers.join(","))
    })
}

fn fresh<'a>(fresh: &'a [NewDelivery], numbers: &'a [DeliveryId]) -> Table<'a> {
    Table::new(
        "INSERT INTO deliveries SELECT delivery, lane, event, body, bytes, state, 0, at, expires, ttl, NULL,
         reason, NULL, NULL, alike, signature
         FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::int8[], $6::int2[], $7::int8[],
         $8::int8[], $9::int8[], $10::int2[], $11::text[], $12::text[])
         u (delivery, lane, event, body, bytes, state, at, expires, ttl, reason, alike, signature)",
    )
    .with(numbers.iter().copied())
    .with(fresh.iter().map(|one| one.lane))
    .with(fresh.iter().map(|one| one.event))
    .with(fresh.iter().map(|one| one.body))
    .with(fresh.iter().map(|one| int(one.bytes)))
    .with(fresh.iter().map(|one| one.place))
    .with(fresh.iter().map(|one| one.at))
    .with(fresh.iter().map(|one| one.expires))
    .with(fresh.iter().map(|one| one.ttl))
    .with(fresh.iter().map(|one| one.reason))
    .with(fresh.iter().map(|one| one.coalesce.as_deref()))
    .with(fresh.iter().map(|one| one.signature.as_deref()))
}

fn attempts<'a>(text: &'static str, attempts: &[&'a NewAttempt]) -> Table<'a> {
    Table::new(text)
        .with(attempts.iter().map(|attempt| attempt.at))
        .with(attempts.iter().map(|attempt| attempt.delivery))
        .with(attempts.iter().map(|attempt| attempt.lane))
        .with(attempts.iter().map(|attempt| i64::from(attempt.number)))
        .with(attempts.iter().map(|attempt| attempt.latency))
        .with(attempts.iter().map(|attempt| attempt.outcome))
        .with(attempts.iter().map(|attempt| attempt.status))
        .with(attempts.iter().map(|attempt| attempt.error.as_deref()))
        .with(attempts.iter().map(|attempt| Bits(attempt.body_hash)))
        .with(attempts.iter().map(|attempt| attempt.before))
        .with(attempts.iter().map(|attempt| attempt.capped))
}

fn deliveries<'a>(changed: &[(DeliveryId, &'a Delivery)]) -> Table<'a> {
    Table::new(
        "UPDATE deliveries d SET state = u.state, at = u.at, attempts = u.attempts,
         last_attempt = u.last_attempt, status = u.status, error = u.error, reason = u.reason
         FROM unnest($1::int8[], $2::int2[], $3::int8[], $4::int8[], $5::int8[], $6::int4[], $7::text[], $8::int2[])
         u (delivery, state, at, attempts, last_attempt, status, error, reason) WHERE d.delivery = u.delivery",
    )
    .with(changed.iter().map(|(delivery, _)| *delivery))
    .with(changed.iter().map(|(_, row)| row.place))
    .with(changed.iter().map(|(_, row)| row.at))
    .with(changed.iter().map(|(_, row)| i64::from(row.attempts)))
    .with(changed.iter().map(|(_, row)| row.last_attempt))
    .with(changed.iter().map(|(_, row)| row.status))
    .with(changed.iter().map(|(_, row)| row.error.as_deref()))
    .with(changed.iter().map(|(_, row)| row.reason))
}
