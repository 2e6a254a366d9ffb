//! `order.per-key`: an event comes first only if it was acknowledged before the other was offered. A delivery that
//! waited during a redrive may have been a dead letter, and has no place in the order.
//!
//! The pass goes from the last arrival to the first, and keeps the earliest acknowledgement. An event that was offered
//! after that acknowledgement is an inversion.

use std::collections::BTreeMap;

use super::evidence::Evidence;
use super::verdict::{Finding, Tally};
use crate::check::{Check, Stall};
use crate::entry::Severity;
use crate::trace::Lack;

/// First attempt, offer, acknowledgement, arrival.
type Place = (u64, u64, u64, u32);

/// The arrival that came too soon, and the one that it overtook.
#[must_use]
pub fn inversion(places: &mut [Place]) -> Option<(u32, u32)> {
    places.sort_unstable();
    let mut earliest: Option<(u64, u32)> = None;
    for (_, offered, acknowledged, n) in places.iter().rev() {
        if let Some((_, overtaken)) = earliest.filter(|(t, _)| t < offered) {
            return Some((*n, overtaken));
        }
        if earliest.is_none_or(|(t, _)| acknowledged < &t) {
            earliest = Some((*acknowledged, *n));
        }
    }
    None
}

pub(super) const CHECK: Check = Check {
    id: "order.per-key",
    severity: Severity::May,
    source: "the declared order",
    requirement: "if declared, the first attempts of one key arrive in the order of their events",
    why: "at the subscriber the last state of a key wins, so an older event that arrives later undoes a \
        newer one",
    remedy: "send one delivery per key at a time",
    needs: &[Lack::Order],
    stall: Stall::Reorders,
    find: judge,
    ..Check::PLAIN
};

pub(super) fn judge(evidence: &Evidence<'_>) -> Finding {
    if !evidence.scenario.subscribers.iter().any(|subscriber| subscriber.handling.ordered) {
        return Finding::unasked("no subscriber is `ordered`");
    }
    let mut tally = Tally::default();
    for (at, lane) in (0..).zip(&evidence.lanes).filter(|(_, lane)| lane.subscriber.handling.ordered) {
        let mut keys: BTreeMap<&str, Vec<Place>> = BTreeMap::new();
        for delivery in evidence.deliveries_of(at) {
            let (Some(event), Some(first)) = (evidence.event(delivery), evidence.attempts(delivery).first())
            else {
                continue;
            };
            let offer = &evidence.trace.offers[event.offer as usize];
            // A delivery that may have been shed and redriven has lost its place.
            let first_came = evidence.exchange(*first).t;
            if evidence.redrives(delivery).any(|t| (offer.t..=first_came).contains(&t)) {
                continue;
            }
            let place = (first_came, offer.t, event.accepted.unwrap_or(u64::MAX), *first);
            keys.entry(offer.key.as_str()).or_default().push(place);
        }
        for (key, places) in &mut keys {
            tally.see();
            if let Some((soon, overtaken)) = inversion(places) {
                let (name, what) =
                    (&lane.subscriber.name, format!("an event of {key:?} overtook an earlier one"));
                tally.broke(|| evidence.witness(at, &[soon, overtaken], format!("{name}: {what}")));
            }
        }
    }
    tally.finding("keys", "first attempts arrived in order", "out of order")
}
