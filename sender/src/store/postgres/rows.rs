//! The rows that a commit has read, and those that it has yet to write: each way takes one journey to the database,
//! however many deliveries a commit moves.
//!
//! A delivery that is recorded gets its number when its row is written. Until then it goes by a provisional one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio_postgres::Row;

use super::ledger::{Changes, Ledger};
use super::link::{Ask, Link};
use super::values::{Bits, Count, int, size};
use super::{Result, Stop};
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use crate::store::Command;
use crate::store::command::{Body, Outcome, Reason};
use crate::store::read::Place;

/// Provisional numbers begin here.
const PROVISIONAL: u64 = 1 << 62;

/// A delivery as it stands.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    pub(super) lane: LaneId,
    pub(super) place: Place,
    pub(super) attempts: u32,
    pub(super) bytes: u64,
    pub(super) at: StoreTime,
    pub(super) last_attempt: Option<StoreTime>,
    pub(super) status: Option<i32>,
    pub(super) error: Option<Box<str>>,
    pub(super) reason: Option<Reason>,
}

/// Who has an event of some id.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) lane: LaneId,
    pub(super) received: StoreTime,
    pub(super) in_part: bool,
}

/// A delivery that a newer one takes the place of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replaced {
    pub(super) delivery: DeliveryId,
    pub(super) bytes: u64,
    pub(super) due: StoreTime,
}

/// An event to be recorded.
#[derive(Debug)]
pub(super) struct NewEvent {
    pub(super) number: i64,
    pub(super) id: Arc<str>,
    pub(super) kind: Arc<str>,
    pub(super) key: Option<Arc<str>>,
    pub(super) received: StoreTime,
    pub(super) in_part: bool,
    pub(super) bodies: Vec<i64>,
    pub(super) deliveries: Vec<DeliveryId>,
}

/// A delivery to be recorded.
#[derive(Debug)]
pub(super) struct NewDelivery {
    pub(super) lane: LaneId,
    pub(super) event: i64,
    pub(super) body: i64,
    pub(super) bytes: u64,
    pub(super) place: Place,
    pub(super) at: StoreTime,
    pub(super) expires: StoreTime,
    pub(super) ttl: Nanos,
    pub(super) reason: Option<Reason>,
    pub(super) coalesce: Option<Arc<str>>,
    pub(super) signature: Option<Arc<str>>,
}

/// An attempt to be recorded.
#[derive(Debug)]
pub(super) struct NewAttempt {
    pub(super) at: StoreTime,
    pub(super) delivery: DeliveryId,
    pub(super) lane: LaneId,
    pub(super) number: u32,
    pub(super) latency: Nanos,
    pub(super) outcome: Outcome,
    pub(super) status: Option<i32>,
    pub(super) error: Option<Box<str>>,
    pub(super) body_hash: u64,
    pub(super) before: Option<StoreTime>,
    pub(super) capped: bool,
}

/// What was read, and what is to be written.
#[derive(Debug, Default)]
pub(super) struct Rows {
    deliveries: BTreeMap<DeliveryId, Option<Delivery>>,
    changed: BTreeSet<DeliveryId>,
    named: BTreeMap<Arc<str>, Vec<Known>>,
    /// The oldest of those alike, by lane and key.
    alike: BTreeMap<LaneId, BTreeMap<Arc<str>, Option<Replaced>>>,
    pub(super) attempts: Vec<NewAttempt>,
    pub(super) events: Vec<NewEvent>,
    bodies: Vec<(i64, Body)>,
    /// Numbers for events and for bodies that the commit may record.
    spare: (std::vec::IntoIter<i64>, std::vec::IntoIter<i64>),
    fresh: Vec<NewDelivery>,
    /// The numbers that those recorded by this commit got.
    numbers: Vec<DeliveryId>,
}

const DELIVERIES: &str = "SELECT delivery, lane, state, attempts, bytes, at, last_attempt, status, error, reason
    FROM deliveries WHERE delivery = ANY($1)";
const NAMED: &str = "SELECT e.id, d.lane, e.received, e.in_part FROM events e CROSS JOIN LATERAL unnest(e.deliveries) n
    JOIN deliveries d ON d.delivery = n WHERE e.id = ANY($1)";
const ALIKE: &str = "SELECT u.lane, u.key, d.delivery, d.bytes, d.at
    FROM unnest($1::int8[], $2::text[]) u (lane, key) CROSS JOIN LATERAL (
        SELECT delivery, bytes, at FROM deliveries d WHERE d.lane = u.lane AND d.coalesce = u.key COLLATE \"C\"
        AND d.state = 0 AND d.at > $3 AND d.attempts = 0 ORDER BY d.at, d.delivery LIMIT 1) d";

/// What a commit reads beforehand, as its commands name it.
#[derive(Debug, Default)]
pub(super) struct Named<'a> {
    deliveries: Vec<DeliveryId>,
    ids: Vec<&'a str>,
    lanes: Vec<LaneId>,
    keys: Vec<&'a str>,
    /// Events and bodies that may be recorded.
    events: i64,
    bodies: i64,
    now: StoreTime,
}

impl<'a> Named<'a> {
    pub(super) fn by(commands: &'a [Command], now: StoreTime) -> Self {
        let mut named = Self { now, ..Self::default() };
        for command in commands {
            match command {
                Command::Emit(emit) => {
                    named.ids.push(&emit.id);
                    named.events += 1;
                    named.bodies += int(size(emit.bodies.len()));
                    for target in &emit.targets {
                        if let Some(coalesce) = &target.coalesce {
                            named.lanes.push(target.lane);
                            named.keys.push(&coalesce.key);
                        }
                    }
                }
                Command::Settle(settlements) => {
                    named.deliveries.extend(settlements.iter().map(|settlement| settlement.delivery));
                }
                _ => {}
            }
        }
        named
    }

    pub(super) fn asks(&self) -> Vec<Ask<'_>> {
        let mut asks = Vec::new();
        if !self.deliveries.is_empty() {
            asks.push(Ask { text: DELIVERIES, values: vec![&self.deliveries] });
        }
        if !self.ids.is_empty() {
            asks.push(Ask { text: EVENT_NUMBERS, values: vec![&self.events] });
            asks.push(Ask { text: BODY_NUMBERS, values: vec![&self.bodies] });
            asks.push(Ask { text: NAMED, values: vec![&self.ids] });
        }
        if !self.keys.is_empty() {
            asks.push(Ask { text: ALIKE, values: vec![&self.lanes, &self.keys, &self.now] });
        }
        asks
    }

    /// Reads the answers to [`Self::asks`].
    pub(super) fn read(&self, answers: &mut impl Iterator<Item = Vec<Row>>) -> Result<Rows> {
        let mut rows = Rows::default();
        let mut next = || answers.next().unwrap_or_default();
        if !self.deliveries.is_empty() {
            rows.deliveries.extend(self.deliveries.iter().map(|delivery| (*delivery, None)));
            rows.add_deliveries(&next())?;
        }
        if !self.ids.is_empty() {
            rows.spare = (numbers(&next())?.into_iter(), numbers(&next())?.into_iter());
            rows.named.extend(self.ids.iter().map(|id| ((*id).into(), Vec::new())));
            rows.add_named(&next())?;
        }
        if !self.keys.is_empty() {
            for (lane, key) in self.lanes.iter().zip(&self.keys) {
                rows.alike.entry(*lane).or_default().insert((*key).into(), None);
            }
            rows.add_alike(&next())?;
        }
        Ok(rows)
    }
}

impl Rows {
    fn add_deliveries(&mut self, rows: &[Row]) -> Result<()> {
        for row in rows {
            let delivery = Delivery {
                lane: row.try_get(1)?,
                place: row.try_get(2)?,
                attempts: u32::try_from(row.try_get::<_, i64>(3)?).unwrap_or(u32::MAX),
                bytes: row.try_get::<_, Count>(4)?.0,
                at: row.try_get(5)?,
                last_attempt: row.try_get(6)?,
                status: row.try_get(7)?,
                error: row.try_get(8)?,
                reason: row.try_get(9)?,
            };
            self.deliveries.insert(row.try_get(0)?, Some(delivery));
        }
        Ok(())
    }

    fn add_named(&mut self, rows: &[Row]) -> Result<()> {
        for row in rows {
            let known = Known { lane: row.try_get(1)?, received: row.try_get(2)?, in_part: row.try_get(3)? };
            self.named.entry(row.try_get::<_, &str>(0)?.into()).or_default().push(known);
        }
        Ok(())
    }

    fn add_alike(&mut self, rows: &[Row]) -> Result<()> {
        for row in rows {
            let found = Replaced {
                delivery: row.try_get(2)?,
                bytes: row.try_get::<_, Count>(3)?.0,
                due: row.try_get(4)?,
            };
            let of_lane = self.alike.entry(row.try_get(0)?).or_default();
            of_lane.insert(row.try_get::<_, &str>(1)?.into(), Some(found));
        }
        Ok(())
    }

    /// The delivery of a lane.
    pub(super) fn delivery(&mut self, sql: &Link, lane: LaneId, delivery: DeliveryId) -> Result<Option<&mut Delivery>> {
        if !self.deliveries.contains_key(&delivery) {
            self.deliveries.insert(delivery, None);
            let found = sql.query(DELIVERIES, &[&vec![delivery]])?;
            self.add_deliveries(&found)?;
        }
        let found = self.deliveries.get_mut(&delivery).and_then(Option::as_mut);
        Ok(found.filter(|found| found.lane == lane))
    }

    /// Whether a delivery that was not there before may be one that this commit records.
    pub(super) fn may_record(&self, delivery: DeliveryId) -> bool {
        let records = !self.fresh.is_empty() || !self.numbers.is_empty();
        records && self.deliveries.get(&delivery).is_some_and(Option::is_none)
    }

    /// What was not there before is looked for again.
    pub(super) fn look_again(&mut self, delivery: DeliveryId) {
        self.deliveries.remove(&delivery);
    }

    /// The same, to be changed.
    pub(super) fn change(&mut self, delivery: DeliveryId, change: impl FnOnce(&mut Delivery)) {
        if let Some(Some(found)) = self.deliveries.get_mut(&delivery) {
            change(found);
            self.changed.insert(delivery);
            // It may have been, or may now be, among those alike.
            self.alike.remove(&found.lane);
        }
    }

    /// Whether who has an event of this id was looked up.
    pub(super) fn knows_named(&self, id: &Arc<str>) -> bool {
        self.named.contains_key(id)
    }

    /// Who got an event of this id by now, unless that has to be looked up anyway.
    pub(super) fn add_known(&mut self, id: &Arc<str>, known: Vec<Known>) {
        if let Some(named) = self.named.get_mut(id) {
            named.extend(known);
        }
    }

    /// Who has an event of this id. What is to be written must be written before it is looked up.
    pub(super) fn named(&mut self, sql: &Link, id: &Arc<str>) -> Result<&mut Vec<Known>> {
        if !self.named.contains_key(id) {
            let found = sql.query(NAMED, &[&vec![&**id]])?;
            self.add_named(&found)?;
        }
        Ok(self.named.entry(id.clone()).or_default())
    }

    /// Whether those alike were looked up.
    pub(super) fn knows_alike(&self, lane: LaneId, key: &Arc<str>) -> bool {
        self.alike.get(&lane).is_some_and(|keys| keys.contains_key(key))
    }

    /// The oldest of those alike, whose window is still open. What is to be written must be written before it is looked up.
    pub(super) fn alike(
        &mut self,
        sql: &Link,
        (lane, key): (LaneId, &Arc<str>),
        now: StoreTime,
    ) -> Result<&mut Option<Replaced>> {
        if !self.knows_alike(lane, key) {
            let found = sql.query(ALIKE, &[&vec![lane], &vec![&**key], &now])?;
            self.alike.entry(lane).or_default().insert(key.clone(), None);
            self.add_alike(&found)?;
        }
        Ok(self.alike.entry(lane).or_default().entry(key.clone()).or_default())
    }

    /// A number for an event.
    pub(super) fn event_number(&mut self) -> Result<i64> {
        self.spare.0.next().ok_or(Stop::Broken("there are more events than numbers for them"))
    }

    /// Records a body; its number.
    pub(super) fn record_body(&mut self, body: &Body) -> Result<i64> {
        let number = self.spare.1.next().ok_or(Stop::Broken("there are more bodies than numbers for them"))?;
        self.bodies.push((number, body.clone()));
        Ok(number)
    }

    /// A delivery was changed where it is written.
    pub(super) fn forget_delivery(&mut self, delivery: DeliveryId) {
        debug_assert!(!self.changed.contains(&delivery));
        self.deliveries.remove(&delivery);
    }

    /// A delivery is not among those alike any more.
    pub(super) fn close_window(&mut self, lane: LaneId, delivery: DeliveryId) {
        for oldest in self.alike.entry(lane).or_default().values_mut() {
            if oldest.is_some_and(|oldest| oldest.delivery == delivery) {
                *oldest = None;
            }
        }
    }

    /// Records a delivery; its provisional number.
    pub(super) fn record(&mut self, delivery: NewDelivery) -> DeliveryId {
        self.fresh.push(delivery);
        DeliveryId(PROVISIONAL + size(self.numbers.len() + self.fresh.len() - 1))
    }

    /// A delivery that this commit records, unless it is written already.
    pub(super) fn recorded(&mut self, delivery: DeliveryId) -> Option<&mut NewDelivery> {
        let place = usize::try_from(delivery.0.checked_sub(PROVISIONAL)?).ok()?;
        self.fresh.get_mut(place.checked_sub(self.numbers.len())?)
    }

    /// The number that a delivery has got, if it had a provisional one.
    pub(super) fn real(&self, delivery: DeliveryId) -> DeliveryId {
        real(&self.numbers, delivery).unwrap_or(delivery)
    }

    /// Whatever was read may have changed.
    pub(super) fn forget(&mut self) {
        debug_assert!(self.is_written());
        self.deliveries.clear();
        self.named.clear();
        self.alike.clear();
    }

    fn is_written(&self) -> bool {
        self.changed.is_empty() && self.attempts.is_empty() && self.fresh.is_empty()
    }
}

const EVENT_NUMBERS: &str = "SELECT nextval('event_numbers') FROM generate_series(1, $1::int8)";
const BODY_NUMBERS: &str = "SELECT nextval('body_numbers') FROM generate_series(1, $1::int8)";
const DELIVERY_NUMBERS: &str = "SELECT nextval('delivery_numbers') FROM generate_series(1, $1::int8)";

fn numbers(rows: &[Row]) -> Result<Vec<i64>> {
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<std::result::Result<_, _>>()?)
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

impl Rows {
    /// All that was to be written is, under its numbers.
    fn are_written(&mut self) {
        let Self { alike, numbers, .. } = self;
        for replaced in alike.values_mut().flat_map(BTreeMap::values_mut).flatten() {
            if let Some(number) = real(numbers, replaced.delivery) {
                replaced.delivery = number;
            }
        }
        self.events.clear();
        self.bodies.clear();
        self.fresh.clear();
        self.changed.clear();
        self.attempts.clear();
    }
}

fn real(numbers: &[DeliveryId], delivery: DeliveryId) -> Option<DeliveryId> {
    let place = delivery.0.checked_sub(PROVISIONAL).and_then(|place| usize::try_from(place).ok());
    place.and_then(|place| numbers.get(place)).copied()
}

/// What a commit seldom changes, by columns.
struct Rest<'a> {
    records: (Vec<LaneId>, Vec<StoreTime>, Vec<&'a [u8]>),
    owners: (Vec<crate::store::lane::OwnerId>, Vec<StoreTime>, Vec<bool>, Vec<i64>),
    state: Option<[i64; 3]>,
}

impl<'a> Rest<'a> {
    fn of(changes: &'a Changes) -> Self {
        let mut rest = Self {
            records: Default::default(),
            owners: Default::default(),
            state: changes.state.map(|state| state.numbers()),
        };
        for (lane, record) in &changes.records {
            rest.records.0.push(*lane);
            rest.records.1.push(record.at);
            rest.records.2.push(&record.bytes);
        }
        for (owner, lease) in &changes.owners {
            rest.owners.0.push(*owner);
            rest.owners.1.push(lease.until);
            rest.owners.2.push(lease.evicted);
            rest.owners.3.push(int(lease.taken));
        }
        rest
    }

    fn asks(&self, changes: &Changes) -> Vec<Ask<'_>> {
        let mut asks = Vec::new();
        if !changes.records.is_empty() {
            asks.push(Ask {
                text: "UPDATE lanes l SET record_at = u.at, record = u.record
                    FROM unnest($1::int8[], $2::int8[], $3::bytea[]) u (lane, at, record) WHERE l.lane = u.lane",
                values: vec![&self.records.0, &self.records.1, &self.records.2],
            });
        }
        if !changes.owners.is_empty() {
            asks.push(Ask {
                text: "INSERT INTO owners SELECT * FROM unnest($1::int8[], $2::int8[], $3::bool[], $4::int8[])
                    ON CONFLICT (owner) DO UPDATE SET until = excluded.until, evicted = excluded.evicted,
                    taken = excluded.taken",
                values: vec![&self.owners.0, &self.owners.1, &self.owners.2, &self.owners.3],
            });
        }
        if let Some([roster, stirred, next_lane]) = &self.state {
            asks.push(Ask {
                text: "UPDATE state SET roster = $1, stirred = $2, next_lane = $3",
                values: vec![roster, stirred, next_lane],
            });
        }
        asks
    }
}
