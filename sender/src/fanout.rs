//! From one event to what each subscriber is owed, and from what is owed to the headers of an attempt.
//!
//! Here a delivery gets all that it will ever have: its bytes, its time to live, and, where the profile has one, its
//! signature. From then on nobody looks at the event again. Subscribers that may see the same share one body.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::engine::{LaneId, StoreTime};
use crate::event::{self, EventType, EventTypeError, Limits, Offer, PublicId, ShapeId, Shaping};
use crate::roster::{Ready, Roster};
use crate::sign::{Attempt, Headers, Tag};
use crate::store::command::{Body, Coalesce, Emit, Target};
use crate::store::reply::ClaimedRow;

/// Bytes of data in all bodies that are shaped of one event, at most: what two commits take. A thousand subscribers that each have
/// pseudonyms of their own are sent an event of the 20 kB that receivers must take.
pub(crate) const SHAPED_BYTES_MAX: usize = 32 << 20;

/// What an event becomes: a delivery for each subscriber that wants its type.
///
/// Whoever's shape makes it too long is left out, and the event is taken in part; [`left_out`] tells. That is a bound on memory and
/// on work: nothing is shaped any further once it is too long, and all bodies that are shaped have `SHAPED_BYTES_MAX` together. Each
/// has an equal part of these for sure.
///
/// `id` is the event's own, or one made for it, that no store has ever recorded. It is due at once; coalescing holds it back in the store. `now` is the
/// steady time, by which everything is ordered and expires; `wall` is the real time, which the body tells and by which old
/// secrets retire.
#[must_use]
pub fn fan_out(roster: &Roster, offer: &Offer<'_>, id: &PublicId, now: StoreTime, wall: StoreTime) -> Emit {
    debug_assert!(offer.id.as_ref().is_none_or(|own| own == id), "an event that has an id keeps it");
    let matching = roster.matching(&offer.event_type);
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
            // One event has the same slot with everybody.
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
    }
}

/// Who wants the event and is left out, in the order of their lanes: by their shape it is too long, or too much was shaped already.
/// The roster and the offer are those that the event was made of.
#[must_use]
pub fn left_out(roster: &Roster, offer: &Offer<'_>, emit: &Emit) -> Vec<LaneId> {
    if !emit.withheld {
        return Vec::new();
    }
    // Both are in the order of the lanes.
    let mut targets = emit.targets.iter().map(|target| target.lane).peekable();
    let lanes = roster.matching(&offer.event_type).into_iter().map(|(lane, _)| lane);
    lanes.filter(|lane| targets.next_if_eq(lane).is_none()).collect()
}

/// The distinct bodies of one event.
struct Bodies<'a> {
    offer: &'a Offer<'a>,
    id: &'a PublicId,
    wall: StoreTime,
    /// Where the body of each shape is, if it has one.
    places: BTreeMap<ShapeId, usize>,
    made: Vec<Body>,
    /// Bytes that may still be shaped.
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
        // What is left of the parts goes to those who need more, in the order of their lanes. What turns out too long was work as
        // well, which has a bound of its own.
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

    /// Makes the body of a shape, unless its data would be longer than that.
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

/// The signed headers of the `number`th attempt of a delivery. `id` is the delivery's, and `now` the time by the wall
/// clock, which the endpoint compares with its own.
pub fn sign_attempt(
    subscriber: &Ready,
    id: &PublicId,
    row: &ClaimedRow,
    number: u32,
    now: StoreTime,
) -> Result<Headers, UnusableRow> {
    let event_type: EventType = row.kind.parse()?;
    let frozen = row.signature.as_deref().map(tag).transpose()?;
    let (subscriber, signer) = (subscriber.id(), subscriber.signer());
    let attempt = Attempt { id, event_type: &event_type, subscriber, number, frozen, body: &row.body.bytes };
    let mut headers = Headers::new();
    signer.sign(now, &attempt, &mut headers);
    Ok(headers)
}

/// A delivery as no version of this program has recorded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnusableRow {
    /// The type of its event.
    #[error("the delivery's row is damaged: {0}")]
    EventType(#[from] EventTypeError),
    /// The signature that was kept with it.
    #[error("the delivery's row is damaged: its signature is not 64 hexadecimal digits")]
    Signature,
}

fn hex(bytes: &[u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(*bytes))
}

/// Reads what [`fan_out`] wrote.
fn tag(text: &str) -> Result<Tag, UnusableRow> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; 32];
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != bytes.len() || !rest.is_empty() {
        return Err(UnusableRow::Signature);
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        let (Some(high), Some(low)) = (digit(*high), digit(*low)) else { return Err(UnusableRow::Signature) };
        *byte = high << 4 | low;
    }
    Ok(Tag(bytes))
}

#[cfg(test)]
mod tests;
