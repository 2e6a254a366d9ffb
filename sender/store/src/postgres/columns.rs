//! Writes events, deliveries and attempts at the end of a commit, with one statement for each table.

use std::collections::BTreeMap;

use super::failure::Result;
use super::ledger::{Changes, Ledger};
use super::link::{Link, Query, Table};
use super::record::{Put, Record, Records};
use super::rows::{Delivery, NewAttempt, NewDelivery, NewEvent, Rows, next_numbers, numbers};
use super::values::{Bits, int, size, storable};
use crate::command::{Body, KeptAnswer};
use crate::engine::{DeliveryId, LaneId};
use crate::read::Place;

const DELIVERY_NUMBERS: &str = next_numbers!("delivery_numbers");

const EVENTS: &str = "INSERT INTO events SELECT * FROM unnest($1::new_event[])";
const BODIES: &str = "INSERT INTO bodies SELECT * FROM unnest($1::int8[], $2::bytea[])";
const DELIVERIES: &str =
    "INSERT INTO deliveries SELECT delivery, lane, event, body, bytes, state, 0, at, expires, ttl, NULL,
    reason, NULL, NULL, u.coalesce, signature FROM unnest($1::new_delivery[]) u";
/// First attempts, which cannot exist yet, and others.
const ATTEMPTS: [&str; 2] = [
    "INSERT INTO attempts SELECT * FROM unnest($1::new_attempt[])",
    "INSERT INTO attempts SELECT * FROM unnest($1::new_attempt[]) ON CONFLICT DO NOTHING",
];
const ANSWERS: &str = "INSERT INTO answers SELECT * FROM unnest($1::int8[], $2::int2[], $3::int8[], $4::int8[], $5::text[],
    $6::bytea[], $7::bool[]) ON CONFLICT (lane, slot) DO UPDATE SET at = excluded.at, delivery = excluded.delivery,
    head = excluded.head, body = excluded.body, cut = excluded.cut";
const CHANGED: &str = "UPDATE deliveries d SET state = u.state, at = u.at, attempts = u.attempts,
    last_attempt = u.last_attempt, status = u.status, error = u.error, reason = u.reason
    FROM unnest($1::settled[]) u WHERE d.delivery = u.delivery";
const DELIVERED: &str = "WITH gone AS (
        DELETE FROM deliveries d USING unnest($1::settled[]) u WHERE d.delivery = u.delivery
        RETURNING d.delivery, d.lane, d.event, d.body, d.bytes, u.attempts, u.at, d.expires, d.ttl, u.last_attempt, u.status,
            u.error, d.coalesce, d.signature)
    INSERT INTO done SELECT * FROM gone";
const FORGOTTEN: &str = "DELETE FROM deliveries WHERE delivery = ANY($1)";
const CHANGED_LATER: &str =
    "UPDATE done d SET at = u.at, attempts = u.attempts, last_attempt = u.last_attempt,
    status = u.status, error = u.error FROM unnest($1::settled[]) u WHERE d.delivery = u.delivery";

pub(super) fn flush(sql: &Link, ledger: &mut Ledger, rows: &mut Rows) -> Result<()> {
    let written = rows.numbers.len();
    if !rows.fresh.is_empty() {
        // Numbers are never reused, even after a rollback. A reader that misses a number waits only until its
        // transaction ends.
        let given = sql.query(DELIVERY_NUMBERS, &[&int(size(rows.fresh.len()))])?;
        rows.numbers.extend(numbers(&given)?.into_iter().map(|number| DeliveryId(number.cast_unsigned())));
    }
    let changes: Changes = ledger.changes();
    write(sql, rows, &rows.numbers[written..], &changes)?;
    rows.are_written();
    Ok(())
}

/// Writes counts and locked rows, but no deliveries.
pub(super) fn flush_ledger(sql: &Link, ledger: &mut Ledger) -> Result<()> {
    let changes = ledger.changes();
    let tables = changes.tables();
    let asks: Vec<Query<'_>> = tables.iter().map(Table::query).chain(changes.state()).collect();
    if !asks.is_empty() {
        sql.execute_all(&asks)?;
    }
    Ok(())
}

fn write(sql: &Link, rows: &Rows, numbers: &[DeliveryId], changes: &Changes) -> Result<()> {
    let bodies = (!rows.bodies.is_empty()).then(|| bodies(&rows.bodies));
    let events = Records::new(EVENTS, rows.events.iter().map(|event| (event, rows)).collect(), event);
    let kept = rows.unwritten(rows.numbers.len() - numbers.len()).zip(numbers);
    let kept = kept.filter(|((one, _), _)| !rows.forgotten.contains(one));
    let fresh = Records::new(DELIVERIES, kept.map(|((_, new), number)| (new, number)).collect(), fresh);
    let (delivered, changed): (Vec<Changed<'_>>, Vec<_>) =
        rows.changed().partition(|(_, row)| row.place == Place::Delivered);
    let (later, delivered): (Vec<_>, Vec<_>) = delivered.into_iter().partition(|(_, row)| row.is_done);
    let settled = [(CHANGED, changed), (DELIVERED, delivered), (CHANGED_LATER, later)]
        .map(|(text, rows)| Records::new(text, rows, settled));
    let (first, others): (Vec<&NewAttempt>, Vec<_>) =
        rows.attempts.iter().partition(|attempt| attempt.is_first);
    let [first_text, others_text] = ATTEMPTS;
    let attempts = [(first_text, first), (others_text, others)]
        .map(|(text, attempts)| Records::new(text, attempts, attempt));
    let kept = rows
        .attempts
        .iter()
        .filter_map(|new| Some(((new.lane, new.slot?), (new, new.details.answer.as_deref()?))));
    let kept: Answers<'_> = kept.collect();
    let answers = (!kept.is_empty()).then(|| answers(&kept));
    let tables = changes.tables();

    let mut asks: Vec<Query<'_>> = bodies.iter().chain(&answers).map(Table::query).collect();
    asks.extend(events.query());
    asks.extend(fresh.query());
    asks.extend(settled.iter().filter_map(Records::query));
    asks.extend(attempts.iter().filter_map(Records::query));
    if !rows.deleted.is_empty() {
        asks.push(Query { text: FORGOTTEN, values: vec![&rows.deleted] });
    }
    asks.extend(tables.iter().map(Table::query));
    asks.extend(changes.state());
    if !asks.is_empty() {
        sql.execute_all(&asks)?;
    }
    Ok(())
}

/// By lane and slot, because a statement may write a row only once.
type Answers<'a> = BTreeMap<(LaneId, i16), (&'a NewAttempt, &'a KeptAnswer)>;

type Changed<'a> = (DeliveryId, &'a Delivery);

fn bodies(bodies: &[(i64, Body)]) -> Table<'_> {
    Table::new(BODIES)
        .with(bodies.iter().map(|(number, _)| *number))
        .with(bodies.iter().map(|(_, body)| &*body.bytes))
}

fn answers<'a>(answers: &'a Answers<'a>) -> Table<'a> {
    let new = || answers.values();
    Table::new(ANSWERS)
        .with(answers.keys().map(|(lane, _)| *lane))
        .with(answers.keys().map(|(_, slot)| *slot))
        .with(new().map(|(attempt, _)| attempt.at))
        .with(new().map(|(attempt, _)| attempt.delivery))
        .with(new().map(|(_, answer)| storable(&answer.head)))
        .with(new().map(|(_, answer)| &*answer.body))
        .with(new().map(|(_, answer)| answer.cut))
}

fn event((event, rows): &(&NewEvent, &Rows), to: &mut Record<'_>) -> Put {
    let deliveries: Vec<DeliveryId> = event.deliveries.iter().map(|one| rows.real(*one)).collect();
    let body = event.body.as_ref();
    to.put(&event.number)?;
    to.put(&&*event.id)?;
    to.put(&&*event.kind)?;
    to.put(&event.key.as_deref())?;
    to.put(&event.received)?;
    to.put(&event.in_part)?;
    to.put(&deliveries)?;
    to.put(&event.bodies)?;
    to.put(&body.map(|body| &*body.bytes))
}

fn fresh((one, number): &(&NewDelivery, &DeliveryId), to: &mut Record<'_>) -> Put {
    to.put(*number)?;
    to.put(&one.lane)?;
    to.put(&one.event)?;
    to.put(&one.body)?;
    to.put(&int(one.bytes))?;
    to.put(&one.place)?;
    to.put(&one.at)?;
    to.put(&one.expires)?;
    to.put(&one.ttl)?;
    to.put(&one.reason)?;
    to.put(&one.coalesce.as_deref())?;
    to.put(&one.signature.as_deref())
}

fn attempt(attempt: &&NewAttempt, to: &mut Record<'_>) -> Put {
    to.put(&attempt.at)?;
    to.put(&attempt.delivery)?;
    to.put(&attempt.lane)?;
    to.put(&i64::from(attempt.number))?;
    to.put(&attempt.latency)?;
    to.put(&attempt.outcome)?;
    to.put(&attempt.status)?;
    to.put(&attempt.error.as_deref())?;
    to.put(&Bits(attempt.body_hash))?;
    to.put(&attempt.before)?;
    to.put(&attempt.capped)?;
    to.put(&attempt.details.connect)?;
    to.put(&attempt.details.first_byte)?;
    to.put(&attempt.details.asked)
}

fn settled((delivery, row): &Changed<'_>, to: &mut Record<'_>) -> Put {
    to.put(delivery)?;
    to.put(&row.place)?;
    to.put(&row.at)?;
    to.put(&i64::from(row.attempts))?;
    to.put(&row.last_attempt)?;
    to.put(&row.status)?;
    to.put(&row.error.as_deref())?;
    to.put(&row.reason)
}
