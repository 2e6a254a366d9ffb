//! The rows that a commit has read or must write. Reading and writing take one round trip each, for any number of
//! deliveries.
//!
//! A recorded delivery gets its number when it is written. Until then it has a provisional one.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio_postgres::Row;

use super::failure::{Result, Stop};
use super::link::Link;
use super::oldest::Oldest;
use super::values::size;
use crate::command::{AttemptOutcome, Body, Details, Reason};
use crate::commit::emit::Newer;
use crate::commit::room::Replaced;
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use crate::queue_cache::Waiting;
use crate::read::Place;
use crate::reply::{Emitted, Placed, Reply};
use crate::seal::{Field, Seal};

const PROVISIONAL: u64 = 1 << 62;

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
    pub(super) is_done: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) lane: LaneId,
    pub(super) delivery: DeliveryId,
    pub(super) received: StoreTime,
    pub(super) in_part: bool,
}

macro_rules! delivery_columns {
    () => {
        "delivery, lane, state, attempts, bytes, at, last_attempt, status, error, reason"
    };
}
pub(super) use delivery_columns;

pub(super) const DELIVERIES: &str =
    concat!("SELECT ", delivery_columns!(), ", is_done FROM all_deliveries WHERE delivery = ANY($1)");
pub(super) const NAMED: &str = "SELECT e.id, d.lane, e.received, e.in_part, d.delivery FROM events e
    CROSS JOIN LATERAL unnest(e.deliveries) n JOIN all_deliveries d ON d.delivery = n WHERE e.id = ANY($1)";
pub(super) const ALIKE: &str = concat!(
    "SELECT ",
    delivery_columns!(),
    ", false, key FROM unnest($1::int8[], $2::text[]) u (in_lane, key) CROSS JOIN LATERAL (
        SELECT * FROM deliveries d WHERE d.lane = u.in_lane AND d.coalesce = u.key COLLATE \"C\"
        AND 0 + d.state = 0 AND d.at > $3 AND d.attempts = 0 ORDER BY d.at, d.delivery LIMIT 1) d"
);

/// The next numbers of a sequence as one array, which is cheaper to read than rows.
macro_rules! next_numbers {
    ($sequence:literal) => {
        concat!("SELECT array_agg(nextval('", $sequence, "')) FROM generate_series(1, $1::int8)")
    };
}
pub(super) use next_numbers;

pub(super) fn numbers(rows: &[Row]) -> Result<Vec<i64>> {
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or_default())
}

#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) deliveries: BTreeMap<DeliveryId, Option<Delivery>>,
    pub(super) changed: BTreeSet<DeliveryId>,
    pub(super) named: BTreeMap<Arc<str>, Vec<Known>>,
    pub(super) alike: BTreeMap<LaneId, BTreeMap<Arc<str>, Option<Replaced>>>,
    pub(super) attempts: Vec<NewAttempt>,
    pub(super) events: Vec<NewEvent>,
    pub(super) bodies: Vec<(i64, Body)>,
    pub(super) spare: (std::vec::IntoIter<i64>, std::vec::IntoIter<i64>),
    pub(super) fresh: Vec<NewDelivery>,
    pub(super) numbers: Vec<DeliveryId>,
    pub(super) newer: Newer,
    pub(super) oldest: Oldest,
    pub(super) forgotten: BTreeSet<DeliveryId>,
    pub(super) deleted: Vec<DeliveryId>,
}

impl Delivery {
    pub(super) fn waiting(lane: LaneId, known: Waiting) -> Self {
        let Waiting { attempts, bytes, due, last_attempt, status, error } = known;
        Self {
            lane,
            place: Place::Waiting,
            attempts,
            bytes,
            at: due,
            last_attempt,
            status,
            error,
            reason: None,
            is_done: false,
        }
    }

    /// Reads the first eleven columns of a row. Invalid numbers become the smallest valid ones, so that a damaged
    /// delivery can still be given up.
    pub(super) fn read(row: &Row) -> Result<(DeliveryId, Self)> {
        let delivery = Self {
            lane: row.try_get(1)?,
            place: row.try_get(2)?,
            attempts: u32::try_from(row.try_get::<_, i64>(3)?.max(0)).unwrap_or(u32::MAX),
            bytes: row.try_get::<_, i64>(4)?.max(0).cast_unsigned(),
            at: row.try_get(5)?,
            last_attempt: row.try_get(6)?,
            status: row.try_get(7)?,
            error: row.try_get(8)?,
            reason: row.try_get(9)?,
            is_done: row.try_get(10)?,
        };
        Ok((row.try_get(0)?, delivery))
    }
}

impl Rows {
    pub(super) fn add_deliveries(&mut self, rows: &[Row]) -> Result<()> {
        for row in rows {
            let (delivery, found) = Delivery::read(row)?;
            self.deliveries.insert(delivery, Some(found));
        }
        Ok(())
    }

    pub(super) fn add_named(&mut self, rows: &[Row]) -> Result<()> {
        for row in rows {
            let (lane, received, in_part, delivery) =
                (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?, row.try_get(4)?);
            let known = Known { lane, delivery, received, in_part };
            self.named.entry(row.try_get::<_, &str>(0)?.into()).or_default().push(known);
        }
        Ok(())
    }

    pub(super) fn add_alike(&mut self, rows: &[Row]) -> Result<()> {
        for row in rows {
            let (delivery, found) = Delivery::read(row)?;
            let oldest = Replaced { delivery, bytes: found.bytes, due: found.at };
            let of_lane = self.alike.entry(found.lane).or_default();
            of_lane.insert(row.try_get::<_, &str>(11)?.into(), Some(oldest));
            self.deliveries.entry(delivery).or_insert(Some(found));
        }
        Ok(())
    }

    pub(super) fn delivery(
        &mut self,
        sql: &Link,
        lane: LaneId,
        delivery: DeliveryId,
    ) -> Result<Option<&mut Delivery>> {
        if let Entry::Vacant(unknown) = self.deliveries.entry(delivery) {
            unknown.insert(None);
            let found = sql.query(DELIVERIES, &[&vec![delivery]])?;
            self.add_deliveries(&found)?;
        }
        let found = self.deliveries.get_mut(&delivery).and_then(Option::as_mut);
        Ok(found.filter(|found| found.lane == lane))
    }

    /// Whether this commit may have recorded a delivery that was missing before.
    pub(super) fn may_record(&self, delivery: DeliveryId) -> bool {
        let records = !self.fresh.is_empty() || !self.numbers.is_empty();
        records && self.deliveries.get(&delivery).is_none_or(Option::is_none)
    }

    pub(super) fn forget_delivery(&mut self, delivery: DeliveryId) {
        self.deliveries.remove(&delivery);
    }

    pub(super) fn change(&mut self, delivery: DeliveryId, change: impl FnOnce(&mut Delivery)) {
        if let Some(lane) = self.alter(delivery, change) {
            // It may have been, or may become, a delivery to coalesce with.
            self.alike.remove(&lane);
        }
    }

    /// Changes a row without touching the coalescing state. Returns its lane.
    pub(super) fn alter(
        &mut self,
        delivery: DeliveryId,
        change: impl FnOnce(&mut Delivery),
    ) -> Option<LaneId> {
        let found = self.deliveries.get_mut(&delivery)?.as_mut()?;
        change(found);
        self.changed.insert(delivery);
        self.oldest.insert(found.lane, found.place, (found.at, delivery));
        Some(found.lane)
    }

    pub(super) fn knows_named(&self, id: &Arc<str>) -> bool {
        self.named.contains_key(id)
    }

    pub(super) fn add_known(&mut self, id: &Arc<str>, known: Vec<Known>) {
        if let Some(named) = self.named.get_mut(id) {
            named.extend(known);
        }
    }

    /// The deliveries with this event id. Pending rows must be written before a query.
    pub(super) fn named(&mut self, sql: &Link, id: &Arc<str>) -> Result<&mut Vec<Known>> {
        if !self.named.contains_key(id) {
            let found = sql.query(NAMED, &[&vec![&**id]])?;
            self.add_named(&found)?;
        }
        let Self { named, forgotten, numbers, .. } = self;
        let named = named.entry(id.clone()).or_default();
        // A recorded delivery may be known by either of its numbers.
        let is_forgotten =
            |one| forgotten.contains(&one) || real(numbers, one).is_some_and(|one| forgotten.contains(&one));
        if !forgotten.is_empty() {
            named.retain(|known| !is_forgotten(known.delivery));
        }
        Ok(named)
    }

    pub(super) fn knows_alike(&self, lane: LaneId, key: &Arc<str>) -> bool {
        self.alike.get(&lane).is_some_and(|keys| keys.contains_key(key))
    }

    /// The oldest delivery with this key and an open window. Pending rows must be written before a query.
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

    pub(super) fn event_number(&mut self) -> Result<i64> {
        self.spare.0.next().ok_or(Stop::Broken("there are more events than numbers for them"))
    }

    pub(super) fn record_body(&mut self, seal: &Seal, body: &Body) -> Result<i64> {
        let number =
            self.spare.1.next().ok_or(Stop::Broken("there are more bodies than numbers for them"))?;
        let sealed = seal.close_body(Field::FurtherBody(number.unsigned_abs()), body)?;
        self.bodies.push((number, sealed));
        Ok(number)
    }

    pub(super) fn close_window(&mut self, lane: LaneId, delivery: DeliveryId) {
        for oldest in self.alike.entry(lane).or_default().values_mut() {
            if oldest.is_some_and(|oldest| oldest.delivery == delivery) {
                *oldest = None;
            }
        }
    }

    /// Forgets cached windows of a delivery that no longer waits. Another one may be the oldest.
    pub(super) fn forget_window(&mut self, lane: LaneId, delivery: DeliveryId) {
        if let Some(keys) = self.alike.get_mut(&lane) {
            keys.retain(|_, oldest| oldest.is_none_or(|oldest| oldest.delivery != delivery));
        }
    }

    pub(super) fn record(&mut self, new: NewDelivery) -> DeliveryId {
        let delivery = DeliveryId(PROVISIONAL + size(self.numbers.len() + self.fresh.len()));
        self.oldest.insert(new.lane, new.place, (new.at, delivery));
        self.fresh.push(new);
        delivery
    }

    /// A delivery that this commit records and has not written.
    pub(super) fn recorded(&mut self, delivery: DeliveryId) -> Option<&mut NewDelivery> {
        let place = usize::try_from(delivery.0.checked_sub(PROVISIONAL)?).ok()?;
        self.fresh.get_mut(place.checked_sub(self.numbers.len())?)
    }

    pub(super) fn real(&self, delivery: DeliveryId) -> DeliveryId {
        real(&self.numbers, delivery).unwrap_or(delivery)
    }

    pub(super) fn number(&self, reply: &mut Reply) {
        let Reply::Emitted(Emitted { targets, .. }) = reply else { return };
        for placed in targets {
            match placed {
                Placed::Waiting { delivery, replaced, .. } => {
                    *delivery = self.real(*delivery);
                    *replaced = replaced.map(|replaced| self.real(replaced));
                }
                Placed::Overflowed { delivery } => *delivery = self.real(*delivery),
                Placed::Duplicate | Placed::Absent | Placed::Refused(_) => {}
            }
        }
    }

    pub(super) fn forget(&mut self) {
        debug_assert!(self.is_written());
        self.deliveries.clear();
        self.named.clear();
        self.alike.clear();
        self.oldest = Oldest::default();
        self.forgotten.clear();
    }

    fn is_written(&self) -> bool {
        let nothing_new = self.attempts.is_empty() && self.fresh.is_empty();
        nothing_new && self.changed.is_empty() && self.deleted.is_empty()
    }
}

impl Rows {
    pub(super) fn changed(&self) -> impl Iterator<Item = (DeliveryId, &Delivery)> {
        let row = |delivery| self.deliveries.get(delivery)?.as_ref().map(|row| (*delivery, row));
        self.changed.iter().filter_map(row)
    }

    /// Unwritten deliveries with provisional numbers, after `before` written ones.
    pub(super) fn unwritten(&self, before: usize) -> impl Iterator<Item = (DeliveryId, &NewDelivery)> {
        let first = PROVISIONAL + size(before);
        (first..).map(DeliveryId).zip(&self.fresh)
    }

    /// Notes that everything is written, under its final numbers.
    pub(super) fn are_written(&mut self) {
        let Self { alike, numbers, .. } = self;
        for replaced in alike.values_mut().flat_map(BTreeMap::values_mut).flatten() {
            if let Some(number) = real(numbers, replaced.delivery) {
                replaced.delivery = number;
            }
        }
        for delivery in std::mem::take(&mut self.changed) {
            if let Some(Some(row)) = self.deliveries.get_mut(&delivery) {
                row.is_done = row.place == Place::Delivered;
            }
        }
        self.events.clear();
        self.bodies.clear();
        self.fresh.clear();
        self.attempts.clear();
        self.deleted.clear();
        // It holds provisional numbers.
        self.oldest = Oldest::default();
    }
}

fn real(numbers: &[DeliveryId], delivery: DeliveryId) -> Option<DeliveryId> {
    let place = delivery.0.checked_sub(PROVISIONAL).and_then(|place| usize::try_from(place).ok());
    place.and_then(|place| numbers.get(place)).copied()
}

#[derive(Debug)]
pub(super) struct NewEvent {
    pub(super) number: i64,
    pub(super) id: Arc<str>,
    pub(super) kind: Arc<str>,
    pub(super) key: Option<Arc<str>>,
    pub(super) received: StoreTime,
    pub(super) in_part: bool,
    pub(super) body: Option<Body>,
    pub(super) bodies: Vec<i64>,
    pub(super) deliveries: Vec<DeliveryId>,
}

#[derive(Debug)]
pub(super) struct NewDelivery {
    pub(super) lane: LaneId,
    pub(super) event: i64,
    /// `None` for the body in the event's row.
    pub(super) body: Option<i64>,
    pub(super) bytes: u64,
    pub(super) place: Place,
    pub(super) at: StoreTime,
    pub(super) expires: StoreTime,
    pub(super) ttl: Nanos,
    pub(super) reason: Option<Reason>,
    pub(super) coalesce: Option<Arc<str>>,
    pub(super) signature: Option<Arc<str>>,
}

#[derive(Debug)]
pub(super) struct NewAttempt {
    pub(super) at: StoreTime,
    pub(super) delivery: DeliveryId,
    pub(super) lane: LaneId,
    pub(super) number: u32,
    pub(super) latency: Nanos,
    pub(super) outcome: AttemptOutcome,
    pub(super) status: Option<i32>,
    pub(super) error: Option<Box<str>>,
    pub(super) body_hash: u64,
    pub(super) before: Option<StoreTime>,
    pub(super) capped: bool,
    pub(super) details: Details,
    /// The place of its answer among those of its lane.
    pub(super) slot: Option<i16>,
    /// Whether the delivery has no attempt yet, so that this one cannot exist.
    pub(super) is_first: bool,
}
