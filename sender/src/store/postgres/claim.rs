//! Claims: the front of a lane's queue, past what is handed out.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio_postgres::Row;

use super::link::Link;
use super::values::{Bits, size};
use super::{Result, Stop, Work};
use crate::engine::{DeliveryId, LaneId, StoreTime, Term};
use crate::store::command::{Body, Claim, Reason};
use crate::store::lane::{LaneState, OwnerId};
use crate::store::reply::{Claimed, ClaimedRow, Refusal, Reply};

/// No claim hands out more.
const ROWS_MAX: u32 = 10_000;

/// What waits on each lane, the longest due first, except what is held; one more than may be handed out, which tells when
/// the next one is due. Without its parts, since a claim may end before it needs them.
const FRONT: &str =
    "SELECT delivery, at, bytes FROM deliveries WHERE lane = $1 AND state = 0 AND delivery <> ALL($2)
    ORDER BY at, delivery LIMIT $3";

const PARTS: &str =
    "SELECT d.delivery, d.attempts, d.expires, d.signature, e.id, e.kind, e.received, d.body, b.hash
    FROM deliveries d LEFT JOIN events e ON e.event = d.event LEFT JOIN bodies b ON b.body = d.body
    WHERE d.delivery = ANY($1)";

const BODIES: &str = "SELECT body, bytes FROM bodies WHERE body = ANY($1)";

/// Bodies read so far: many deliveries of one event share one.
pub(super) type Bodies = BTreeMap<i64, Arc<[u8]>>;

/// What a claim is answered, and the deliveries that are due and cannot be handed out.
pub(super) struct Answer {
    pub(super) claimed: Claimed,
    pub(super) unreadable: Vec<DeliveryId>,
}

/// What a claim is answered, given what may not be handed out. Nothing is handed out by that alone.
pub(super) fn answer(
    sql: &Link,
    bodies: &mut Bodies,
    claim: &Claim,
    held: &[DeliveryId],
    now: StoreTime,
) -> Result<Answer> {
    let max = usize::try_from(claim.max.min(ROWS_MAX)).unwrap_or(usize::MAX);
    let limit = i64::from(claim.max.min(ROWS_MAX)) + 1;
    let (mut due, mut next, mut bytes) = (Vec::new(), None, 0_u64);
    for row in sql.query(FRONT, &[&claim.lane, &held, &limit])? {
        let (delivery, at): (DeliveryId, StoreTime) = (row.try_get(0)?, row.try_get(1)?);
        bytes = bytes.saturating_add(row.try_get::<_, i64>(2)?.max(0).cast_unsigned());
        if at > now || due.len() >= max || (bytes > claim.bytes_max && !due.is_empty()) {
            next = Some(at);
            break;
        }
        due.push(delivery);
    }
    let (rows, unreadable) = if due.is_empty() { Default::default() } else { parts(sql, bodies, &due)? };
    Ok(Answer { claimed: Claimed { lane: claim.lane, term: claim.term, rows, next }, unreadable })
}

/// All that an attempt needs of these deliveries, in their order; and those of which a part is missing.
fn parts(sql: &Link, bodies: &mut Bodies, due: &[DeliveryId]) -> Result<(Vec<ClaimedRow>, Vec<DeliveryId>)> {
    let mut found: BTreeMap<DeliveryId, Row> = BTreeMap::new();
    for row in sql.query(PARTS, &[&due])? {
        found.insert(row.try_get(0)?, row);
    }
    let of_row = |row: &Row| row.try_get::<_, i64>(7);
    let mut missing = found.values().map(of_row).collect::<std::result::Result<Vec<_>, _>>()?;
    missing.retain(|body| !bodies.contains_key(body));
    missing.dedup();
    if !missing.is_empty() {
        for row in sql.query(BODIES, &[&missing])? {
            bodies.insert(row.try_get(0)?, row.try_get::<_, &[u8]>(1)?.into());
        }
    }
    let (mut rows, mut unreadable) = (Vec::with_capacity(due.len()), Vec::new());
    for delivery in due {
        match found.get(delivery).map(|row| claimed(*delivery, row, bodies)).transpose()?.flatten() {
            Some(row) => rows.push(row),
            None => unreadable.push(*delivery),
        }
    }
    Ok((rows, unreadable))
}

/// What is handed out; nothing, if a part is missing.
fn claimed(delivery: DeliveryId, row: &Row, bodies: &Bodies) -> Result<Option<ClaimedRow>> {
    let (event, hash): (Option<&str>, Option<Bits>) = (row.try_get(4)?, row.try_get(8)?);
    let bytes = bodies.get(&row.try_get(7)?);
    let (Some(event), Some(hash), Some(bytes)) = (event, hash, bytes) else { return Ok(None) };
    Ok(Some(ClaimedRow {
        delivery,
        attempts: u32::try_from(row.try_get::<_, i64>(1)?).unwrap_or(u32::MAX),
        expires: row.try_get(2)?,
        event: event.into(),
        kind: row.try_get::<_, &str>(5)?.into(),
        received: row.try_get(6)?,
        body: Body { bytes: bytes.clone(), hash: hash.0 },
        signature: row.try_get::<_, Option<&str>>(3)?.map(Into::into),
    }))
}

impl Work<'_> {
    pub(super) fn claim(&mut self, claim: &Claim) -> Result<Reply> {
        let owner = match self.fence(claim.lane, claim.term)? {
            Ok(owner) => owner,
            Err(refusal) => return Ok(Reply::Refused(refusal)),
        };
        self.held.begin(claim.lane, owner, claim.term);
        let held = self.held.rows(claim.lane);
        let Answer { claimed, unreadable } = answer(self.sql, &mut self.bodies, claim, &held, self.now)?;
        self.set_aside(claim.lane, &unreadable)?;
        for row in &claimed.rows {
            self.held.take(claim.lane, row.delivery);
        }
        Ok(Reply::Claimed(claimed))
    }

    /// Makes dead letters of deliveries of which a part is missing, so that their lane goes on without them.
    fn set_aside(&mut self, lane: LaneId, unreadable: &[DeliveryId]) -> Result<()> {
        let Some(first) = unreadable.first() else { return Ok(()) };
        tracing::error!(
            lane = lane.0,
            first = first.0,
            deliveries = unreadable.len(),
            "deliveries lack their event or body, and are set aside as dead letters (unreadable)"
        );
        let update = "UPDATE deliveries SET status = NULL, error = 'its event or its body is missing'
            WHERE delivery = ANY($1) RETURNING delivery, bytes, attempts";
        let mut victims = Vec::with_capacity(unreadable.len());
        for row in self.sql.query(update, &[&unreadable])? {
            victims.push(super::room::Victim {
                delivery: row.try_get(0)?,
                bytes: row.try_get::<_, i64>(1)?.max(0).cast_unsigned(),
                tried: row.try_get::<_, i64>(2)? > 0,
            });
        }
        debug_assert!(size(victims.len()) == size(unreadable.len()));
        self.bury(lane, &victims, Reason::Unreadable)
    }

    /// Whose lane it is, if this ownership is the present one.
    fn fence(&mut self, lane: LaneId, term: Term) -> Result<std::result::Result<OwnerId, Refusal>> {
        let Some(found) = self.ledger.lane(lane)?.filter(|found| found.state != LaneState::Removed) else {
            self.held.end(lane, term);
            return Ok(Err(Refusal::UnknownLane(lane)));
        };
        let current = found.term;
        match found.owner.filter(|_| current == term) {
            Some(owner) => Ok(Ok(owner)),
            None => {
                self.held.end(lane, term);
                Ok(Err(Refusal::StaleTerm { lane, term, current }))
            }
        }
    }
}

/// When the first waiting delivery of a lane is due, handed out or not.
pub(super) fn head(
    sql: &Link,
    lane: LaneId,
) -> std::result::Result<Option<StoreTime>, tokio_postgres::Error> {
    let query = "SELECT at FROM deliveries WHERE lane = $1 AND state = 0 ORDER BY at, delivery LIMIT 1";
    sql.first(query, &[&lane])?.map(|row| row.try_get(0)).transpose()
}

/// Whether all these lanes are owned under these terms, and none is removed.
pub(super) fn are_plain(sql: &Link, claims: &[Claim]) -> Result<bool> {
    let lanes: Vec<LaneId> = claims.iter().map(|claim| claim.lane).collect();
    let query = "SELECT lane, state, owner, term FROM lanes WHERE lane = ANY($1)";
    let mut plain = 0;
    for row in sql.query(query, &[&lanes])? {
        let (lane, state, owner): (LaneId, LaneState, Option<OwnerId>) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let term: Term = row.try_get(3)?;
        let is_claimed = claims.iter().any(|claim| claim.lane == lane && claim.term == term);
        plain += usize::from(is_claimed && owner.is_some() && state != LaneState::Removed);
    }
    Ok(plain == claims.len())
}

impl From<Stop> for crate::store::StoreError {
    fn from(stop: Stop) -> Self {
        let doing = "claim deliveries";
        match stop {
            Stop::Database(error) => super::failure(doing, &error),
            Stop::Unlocked(_) => Self::Broken { doing, detail: "nothing is locked here".to_owned() },
            Stop::Broken(detail) => Self::Broken { doing, detail: detail.to_owned() },
        }
    }
}
