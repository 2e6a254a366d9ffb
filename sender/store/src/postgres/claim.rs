//! Claims: the front of a lane's queue, after the deliveries that are handed out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio_postgres::Row;

use super::ledger::read_version;
use super::link::Link;
use super::rows::delivery_columns;
use super::values::{Count, int, size};
use super::{Result, Stop, Work};
use crate::command::{Body, Claim, Reason};
use crate::commit::dead::DeadRows;
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime, Term};
use crate::lane::{LaneState, OwnerId};
use crate::queue_cache::{Answer, Place, QueueVersion, Search, Standing, Waiting as Known};
use crate::reply::{Claimed, ClaimedRow};
use crate::seal::{Field, Seal};

const ROWS_MAX: u32 = 10_000;

const FRONT: &str = "SELECT delivery, at, bytes, attempts, expires, signature, event, body, last_attempt, status, error
    FROM deliveries WHERE lane = $1 AND state = 0 AND (at, delivery) > ($2, $3) ORDER BY at, delivery LIMIT $4";

macro_rules! events {
    ($which:literal) => {
        concat!(
            "SELECT event, id, kind, received, CASE WHEN octet_length(bytes) <= 4096 THEN bytes END FROM events WHERE ",
            $which
        )
    };
}
const EVENTS: &str = events!("event = ANY($1)");
const EVENTS_BETWEEN: &str = events!("event BETWEEN $1 AND $2");

const BODIES: &str = "SELECT body, bytes FROM bodies WHERE body = ANY($1)
    UNION ALL SELECT -event, bytes FROM events WHERE event = ANY($2) AND bytes IS NOT NULL";

const SET_ASIDE: &str = concat!(
    "UPDATE deliveries SET status = NULL, error = 'its event or its body is missing or unreadable' WHERE delivery = ANY($1) RETURNING ",
    delivery_columns!(),
    ", false"
);

/// Bodies read so far, shared by the deliveries of an event. The key is the body's number, or the event's negative
/// number for a body in the event's row.
pub(super) struct Bodies<'a> {
    seal: &'a Seal,
    read: BTreeMap<i64, Arc<[u8]>>,
}

impl<'a> Bodies<'a> {
    pub(super) const fn new(seal: &'a Seal) -> Self {
        Self { seal, read: BTreeMap::new() }
    }

    /// Leaves out a body that does not open, so that its deliveries are unreadable.
    fn add(&mut self, body: i64, bytes: &[u8]) -> Result<()> {
        if self.read.contains_key(&body) {
            return Ok(());
        }
        let number = body.unsigned_abs();
        let field = if body < 0 { Field::EventBody(number) } else { Field::FurtherBody(number) };
        match self.seal.open_body(field, Body { bytes: bytes.into() }) {
            Ok(Body { bytes }) => drop(self.read.insert(body, bytes)),
            Err(error) if error.is_about_the_row() => tracing::error!(%error, "a body cannot be read"),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

pub(super) struct Ahead {
    from: Search,
    /// Whether more may wait after these rows.
    is_cut: bool,
    rows: Vec<Waiting>,
}

struct Waiting {
    delivery: DeliveryId,
    at: StoreTime,
    bytes: u64,
    row: Row,
}

pub(super) struct Front<'a> {
    due: Vec<&'a Waiting>,
    next: Option<StoreTime>,
    too_long: Option<u64>,
    /// Everything that waits up to here is in `due` or claimed.
    cursor: Place,
    skipped_after: Option<Place>,
}

fn rows_max(claim: &Claim) -> usize {
    usize::try_from(claim.max.min(ROWS_MAX)).unwrap_or(usize::MAX)
}

impl Ahead {
    pub(super) fn read(sql: &Link, claim: &Claim, from: Search) -> Result<Self> {
        // The extra row tells when the next delivery is due.
        let limit = rows_max(claim).saturating_add(1).saturating_add(from.claimed_after);
        let found = sql.query(FRONT, &[&claim.lane, &from.place.0, &from.place.1, &int(size(limit))])?;
        let mut rows = Vec::with_capacity(found.len());
        for row in found {
            let bytes = row.try_get::<_, Count>(2)?.0;
            rows.push(Waiting { delivery: row.try_get(0)?, at: row.try_get(1)?, bytes, row });
        }
        Ok(Self { from, is_cut: rows.len() >= limit, rows })
    }

    /// Chooses deliveries that are not claimed. Does not mark them.
    pub(super) fn choose(
        &self,
        claim: &Claim,
        standing: impl Fn(DeliveryId) -> Standing,
        now: StoreTime,
    ) -> Front<'_> {
        let max = rows_max(claim);
        let cursor = self.from.place;
        let mut front = Front { due: Vec::new(), next: None, too_long: None, cursor, skipped_after: None };
        let mut bytes = 0_u64;
        for row in &self.rows {
            let standing = standing(row.delivery);
            if standing == Standing::Free {
                bytes = bytes.saturating_add(row.bytes);
                let is_wanted = row.at <= now && front.due.len() < max;
                if !is_wanted || bytes > claim.bytes_max {
                    front.too_long = (is_wanted && front.due.is_empty()).then_some(bytes);
                    front.next = Some(row.at);
                    return front;
                }
                front.due.push(row);
            }
            if standing == Standing::Moving {
                front.skipped_after.get_or_insert(front.cursor);
            }
            front.cursor = (row.at, row.delivery);
        }
        // Deliveries that the commit under way changes are skipped too, so more may wait than was read.
        front.next = self.is_cut.then_some(front.cursor.0);
        front
    }
}

impl Front<'_> {
    /// Also returns deliveries without their event or body.
    pub(super) fn answer(
        self,
        sql: &Link,
        bodies: &mut Bodies<'_>,
        claim: &Claim,
    ) -> Result<(Answer, Vec<DeliveryId>)> {
        let Self { due, next, too_long, cursor, skipped_after } = self;
        let Parts { known, claimed, unreadable } =
            if due.is_empty() { Parts::default() } else { parts(sql, bodies, &due)? };
        let claimed = Claimed { lane: claim.lane, term: claim.term, rows: claimed, next, too_long };
        Ok((Answer { claimed, known, cursor: Some(cursor), skipped_after }, unreadable))
    }
}

#[derive(Default)]
struct Parts {
    known: Vec<Option<Known>>,
    claimed: Vec<ClaimedRow>,
    unreadable: Vec<DeliveryId>,
}

fn parts(sql: &Link, bodies: &mut Bodies<'_>, due: &[&Waiting]) -> Result<Parts> {
    let events = events(sql, due)?;
    read_bodies(sql, bodies, due, &events)?;
    let mut parts = Parts::default();
    for one in due {
        match claimed(one, &events, bodies)? {
            Some(claimed) => {
                parts.claimed.push(claimed);
                parts.known.push(Some(known(one)?));
            }
            None => parts.unreadable.push(one.delivery),
        }
    }
    Ok(parts)
}

/// In one queue the numbers of events are mostly dense, so one index range finds them with few others.
fn events(sql: &Link, due: &[&Waiting]) -> Result<BTreeMap<i64, Row>> {
    let wanted =
        due.iter().map(|one| one.row.try_get(6)).collect::<std::result::Result<BTreeSet<i64>, _>>()?;
    let (Some(first), Some(last)) = (wanted.first(), wanted.last()) else { return Ok(BTreeMap::new()) };
    let is_dense = last.abs_diff(*first) < 2 * size(wanted.len());
    let found = if is_dense {
        sql.query(EVENTS_BETWEEN, &[first, last])?
    } else {
        sql.query(EVENTS, &[&wanted.into_iter().collect::<Vec<_>>()])?
    };
    found.into_iter().map(|row| Ok((row.try_get(0)?, row))).collect()
}

/// The body's key in [`Bodies`].
fn body_of(one: &Waiting) -> Result<i64> {
    Ok(match one.row.try_get(7)? {
        Some(body) => body,
        None => -one.row.try_get::<_, i64>(6)?,
    })
}

fn read_bodies(
    sql: &Link,
    bodies: &mut Bodies<'_>,
    due: &[&Waiting],
    events: &BTreeMap<i64, Row>,
) -> Result<()> {
    let mut missing = BTreeSet::new();
    for one in due {
        let body = body_of(one)?;
        let with_event =
            events.get(&-body).map(|event| event.try_get::<_, Option<&[u8]>>(4)).transpose()?.flatten();
        match with_event {
            Some(bytes) => bodies.add(body, bytes)?,
            None => drop(missing.insert(body)),
        }
    }
    missing.retain(|body| !bodies.read.contains_key(body));
    if missing.is_empty() {
        return Ok(());
    }
    let (of_events, others): (Vec<i64>, Vec<i64>) = missing.into_iter().partition(|body| *body < 0);
    let events: Vec<i64> = of_events.into_iter().map(|body| -body).collect();
    for row in sql.query(BODIES, &[&others, &events])? {
        bodies.add(row.try_get(0)?, row.try_get(1)?)?;
    }
    Ok(())
}

fn known(one: &Waiting) -> Result<Known> {
    let row = &one.row;
    Ok(Known {
        attempts: u32::try_from(row.try_get::<_, i64>(3)?).unwrap_or(u32::MAX),
        bytes: one.bytes,
        due: one.at,
        last_attempt: row.try_get(8)?,
        status: row.try_get(9)?,
        error: row.try_get(10)?,
    })
}

/// `None` if the event or the body is missing.
fn claimed(one: &Waiting, events: &BTreeMap<i64, Row>, bodies: &Bodies<'_>) -> Result<Option<ClaimedRow>> {
    let row = &one.row;
    let (Some(event), Some(bytes)) = (events.get(&row.try_get(6)?), bodies.read.get(&body_of(one)?)) else {
        return Ok(None);
    };
    Ok(Some(ClaimedRow {
        delivery: one.delivery,
        attempts: u32::try_from(row.try_get::<_, i64>(3)?).unwrap_or(u32::MAX),
        expires: row.try_get(4)?,
        event: event.try_get::<_, &str>(1)?.into(),
        kind: event.try_get::<_, &str>(2)?.into(),
        received: event.try_get(3)?,
        body: Body { bytes: bytes.clone() },
        signature: row.try_get::<_, Option<&str>>(5)?.map(Into::into),
    }))
}

impl Work<'_> {
    pub(super) fn claim_rows(&mut self, claim: &Claim) -> Result<Claimed> {
        let lane = claim.lane;
        // Includes this commit's changes to the queue.
        let version = self.ledger.version(lane)?;
        let from = self.cache.search(lane, claim.term, &version);
        let ahead = Ahead::read(self.sql, claim, from)?;
        let front = ahead.choose(claim, |one| self.cache.standing(lane, one, self.now), self.now);
        let (mut answer, unreadable) = front.answer(self.sql, &mut self.bodies, claim)?;
        lengthen(&mut answer.claimed, self.ledger.grace(self.now));
        self.set_aside(lane, &unreadable)?;
        Ok(self.cache.claim(answer, Some(&version)))
    }

    /// Turns unreadable deliveries into dead letters, so that their lane can go on.
    fn set_aside(&mut self, lane: LaneId, unreadable: &[DeliveryId]) -> Result<()> {
        let Some(first) = unreadable.first() else { return Ok(()) };
        tracing::error!(
            lane = lane.0,
            first = first.0,
            deliveries = unreadable.len(),
            "deliveries without their event or body became dead letters (unreadable)"
        );
        let found = self.sql.query(SET_ASIDE, &[&unreadable])?;
        debug_assert!(found.len() == unreadable.len());
        self.rows.add_deliveries(&found)?;
        for row in found {
            self.bury(lane, row.try_get(0)?, Reason::Unreadable)?;
        }
        Ok(())
    }
}

pub(super) fn lengthen(claimed: &mut Claimed, grace: Nanos) {
    for row in &mut claimed.rows {
        row.expires = StoreTime(row.expires.0.saturating_add(grace.0));
    }
}

pub(super) fn plain(sql: &Link, claims: &[Claim]) -> Result<Option<BTreeMap<LaneId, QueueVersion>>> {
    let lanes: Vec<LaneId> = claims.iter().map(|claim| claim.lane).collect();
    let query = "SELECT l.* FROM unnest($1::int8[]) u (lane) CROSS JOIN LATERAL (
        SELECT lane, state, owner, term, arrivals, earliest, disturbed, head FROM lanes l WHERE l.lane = u.lane
        ORDER BY l.era DESC LIMIT 1) l";
    let terms: BTreeMap<LaneId, Term> = claims.iter().map(|claim| (claim.lane, claim.term)).collect();
    let mut plain = BTreeMap::new();
    for row in sql.query(query, &[&lanes])? {
        let (lane, state, owner): (LaneId, LaneState, Option<OwnerId>) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let term: Term = row.try_get(3)?;
        if terms.get(&lane) == Some(&term) && owner.is_some() && state != LaneState::Removed {
            plain.insert(lane, read_version(&row, 4)?);
        }
    }
    Ok((plain.len() == claims.len()).then_some(plain))
}

impl From<Stop> for crate::StoreError {
    fn from(stop: Stop) -> Self {
        let doing = "claim deliveries";
        match stop {
            Stop::Database(error) => super::failure(doing, &error),
            Stop::Unlocked(_) => Self::Broken { doing, detail: "nothing is locked here".to_owned() },
            Stop::Broken(detail) => Self::Broken { doing, detail: detail.to_owned() },
        }
    }
}
