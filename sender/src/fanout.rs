//! Subscribers with the same shape share one body.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::engine::{LaneId, StoreTime};
use crate::event::{self, EventType, EventTypeError, Limits, Offer, PublicId, ShapeId, Shaping};
use crate::roster::{Ready, Roster};
use crate::sign::{Attempt, Headers, Tag};
use crate::store::command::{Body, Coalesce, Emit, Target};
use crate::store::reply::ClaimedRow;

/// As much as two commits take. An event of 20 kB, which receivers must accept, fits for a thousand subscribers with
/// pseudonyms of their own.
pub(crate) const SHAPED_BYTES_MAX: usize = 32 << 20;

/// A delivery for each subscriber that wants the event's type.
///
/// Shapes that make the data too long leave their lanes out; [`left_out`] lists them. All shaped bodies share
/// `SHAPED_BYTES_MAX`, of which each is guaranteed an equal part.
///
/// `id` is the event's own, or a new one. `now` is the steady time, for order and expiry. `wall` is the real time,
/// for the body and for the retirement of secrets. The store delays coalesced deliveries.
#[must_use]
pub fn fan_out(roster: &Roster, offer: &Offer<'_>, id: &PublicId, now: StoreTime, wall: StoreTime) -> Emit {
    debug_assert!(offer.id.as_ref().is_none_or(|own| own == id), "an event that has an id keeps it");
    let matching = roster.matching(&offer.event_type, offer.within.as_ref());
    let bodies = Bodies::of(offer, id, wall, matching.iter().map(|(_, ready)| &ready.agreement().shaping));
    let (mut slot_name, mut withheld) = (None, false);
    let mut targets = Vec::with_capacity(matching.len());
    for (lane, ready) in matching {
        let agreement = ready.agreement();
        let Some(&body) = bodies.places.get(&agreement.shaping.id()) else {
            withheld = true;
            continue;
        };
        let slot = agreement.coalescing.slot(&offer.event_type, offer.key.as_ref());
        let coalesce = slot.map(|(key, window)| {
            let name = slot_name.get_or_insert_with(|| Arc::from(hex(&key.0)));
            Coalesce { key: Arc::clone(name), window }
        });
        let signature = ready.signer().freeze(wall, &bodies.made[body].bytes);
        let signature = signature.map(|tag| tag.hex().collect::<String>().into());
        let expires = StoreTime(now.0.saturating_add(agreement.ttl().0));
        targets.push(Target { lane, body, due: now, expires, dedupe: agreement.dedupe, coalesce, signature });
    }
    Emit {
        roster: roster.version(),
        id: id.as_str().into(),
        id_is_new: offer.id.is_none(),
        kind: offer.event_type.as_str().into(),
        key: offer.key.as_ref().map(|key| key.as_str().into()),
        received: now,
        bodies: bodies.made,
        targets,
        atomic: offer.atomic,
        withheld,
        outbox: None,
        notifies: None,
    }
}

/// Ordered by lane. The roster and the offer must be those of [`fan_out`].
#[must_use]
pub fn left_out(roster: &Roster, offer: &Offer<'_>, emit: &Emit) -> Vec<LaneId> {
    if !emit.withheld {
        return Vec::new();
    }
    let mut targets = emit.targets.iter().map(|target| target.lane).peekable();
    let lanes = roster.matching(&offer.event_type, offer.within.as_ref()).into_iter().map(|(lane, _)| lane);
    lanes.filter(|lane| targets.next_if_eq(lane).is_none()).collect()
}

struct Bodies<'a> {
    offer: &'a Offer<'a>,
    id: &'a PublicId,
    wall: StoreTime,
    places: BTreeMap<ShapeId, usize>,
    made: Vec<Body>,
    left: usize,
}

impl<'a> Bodies<'a> {
    fn of<'s>(
        offer: &'a Offer<'a>,
        id: &'a PublicId,
        wall: StoreTime,
        shapings: impl Iterator<Item = &'s Shaping>,
    ) -> Self {
        let (places, made, left) = (BTreeMap::new(), Vec::new(), SHAPED_BYTES_MAX);
        let mut bodies = Self { offer, id, wall, places, made, left };
        let mut seen = BTreeSet::new();
        let distinct: Vec<_> = shapings.filter(|shaping| seen.insert(shaping.id())).collect();
        let longest = offer.data.text().len().max(Limits::EVENT_BYTES);
        let data_bytes_max = longest.saturating_add(Shaping::GROWTH_BYTES_MAX);
        let part = data_bytes_max.min(SHAPED_BYTES_MAX / distinct.len().max(1));
        let larger: Vec<_> = distinct.into_iter().filter(|shaping| !bodies.make(shaping, part)).collect();
        // The rest goes to larger shapes, in the order of lanes. `in_vain` bounds the work on shapes that turn out
        // too long.
        let mut in_vain = SHAPED_BYTES_MAX;
        for shaping in larger {
            let bytes_max = data_bytes_max.min(bodies.left).min(in_vain);
            if bytes_max <= part {
                break;
            }
            if !bodies.make(shaping, bytes_max) {
                in_vain -= bytes_max;
            }
        }
        bodies
    }

    /// False if the data would exceed `bytes_max`.
    fn make(&mut self, shaping: &Shaping, bytes_max: usize) -> bool {
        let Some(shaped) = shaping.apply(self.offer.data, bytes_max) else { return false };
        if shaping.id() != ShapeId::VERBATIM {
            self.left = self.left.saturating_sub(shaped.json().text().len());
        }
        let body = event::Body::build(self.id, &self.offer.event_type, self.wall, shaped.json());
        self.places.insert(shaping.id(), self.made.len());
        self.made.push(Body { bytes: body.into_bytes().into() });
        true
    }
}

/// `id` is the delivery's public id; `now` is the wall clock's time.
pub fn sign_attempt(
    subscriber: &Ready,
    id: &PublicId,
    row: &ClaimedRow,
    number: u32,
    now: StoreTime,
) -> Result<Headers, UnusableRow> {
    let event_type: EventType = row.kind.parse()?;
    let read = |text| Tag::from_hex(text).ok_or(UnusableRow::Signature);
    let frozen = row.signature.as_deref().map(read).transpose()?;
    let (subscriber, signer) = (subscriber.id(), subscriber.signer());
    let attempt = Attempt { id, event_type: &event_type, subscriber, number, frozen, body: &row.body.bytes };
    let mut headers = Headers::new();
    signer.sign(now, &attempt, &mut headers);
    Ok(headers)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnusableRow {
    #[error("the delivery's row is damaged: {0}")]
    EventType(#[from] EventTypeError),
    #[error("the delivery's row is damaged: its signature is not 64 hexadecimal digits")]
    Signature,
}

fn hex(bytes: &[u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests;
