//! What became of what is owed: delivered, given up, replaced by a newer one, or none of these. Several checks ask.

use std::collections::BTreeMap;

use super::evidence::{Delivery, Evidence, Outcome};
use crate::scenario::Answer;

/// What became of a delivery that is owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Delivered,
    Dead,
    /// A newer event of its key stands for it.
    Coalesced,
    Unsettled,
}

/// The fates of all deliveries that are owed for an event that was surely taken, in the deliveries' order. What came for an
/// endpoint that was gone need not be settled.
pub(super) fn fates<'e>(evidence: &'e Evidence<'_>) -> Vec<(&'e Delivery, Fate)> {
    let newest = newest(evidence);
    let owed = evidence.deliveries.iter().filter(|one| one.owed && evidence.accepted(one).is_some());
    owed.map(|delivery| (delivery, fate(evidence, delivery, &newest)))
        .filter(|(delivery, fate)| *fate != Fate::Unsettled || !is_let_go(evidence, delivery))
        .collect()
}

fn fate(evidence: &Evidence<'_>, delivery: &Delivery, newest: &Newest<'_>) -> Fate {
    if evidence.is_delivered(delivery) {
        return Fate::Delivered;
    }
    if delivery.dead.is_some() {
        return Fate::Dead;
    }
    if is_taken_at_length(evidence, delivery) {
        return Fate::Delivered;
    }
    let replaced = key(evidence, delivery).and_then(|(key, t)| newest.get(&key).map(|latest| t < *latest));
    if replaced == Some(true) { Fate::Coalesced } else { Fate::Unsettled }
}

/// Whether an endpoint said 2xx to one of a delivery's attempts, and then so much that nobody need read it to the end.
/// A sender may take that for success, or try again.
fn is_taken_at_length(evidence: &Evidence<'_>, delivery: &Delivery) -> bool {
    let behaviours = &evidence.subscriber(delivery).behaviours;
    let at_length = |t: u64| {
        let mut huge = behaviours.iter().filter(|one| matches!(one.answer, Answer::HugeAnswer { .. }));
        huge.any(|behaviour| behaviour.covers(t))
    };
    evidence.attempts(delivery).iter().map(|n| evidence.exchange(*n)).any(|exchange| {
        matches!(exchange.outcome, Outcome::Answered { status: 200..=299, .. }) && at_length(exchange.t)
    })
}

/// Whether an endpoint had said that it is gone by the time the event was taken: nothing is owed to it any more, though
/// a sender may well keep it as a dead letter.
fn is_let_go(evidence: &Evidence<'_>, delivery: &Delivery) -> bool {
    let gone = evidence.lanes[delivery.lane as usize].gone;
    gone.zip(evidence.accepted(delivery)).is_some_and(|(gone, accepted)| gone <= accepted)
}

/// By lane, type and key of what a lane coalesces: when the latest event was offered that did arrive.
type Newest<'e> = BTreeMap<(u32, &'e str, &'e str), u64>;

fn newest<'e>(evidence: &'e Evidence<'_>) -> Newest<'e> {
    let mut newest = Newest::new();
    for delivery in &evidence.deliveries {
        let settled = !evidence.attempts(delivery).is_empty() || delivery.dead.is_some();
        let Some((key, t)) = key(evidence, delivery).filter(|_| settled) else { continue };
        let latest = newest.entry(key).or_default();
        *latest = t.max(*latest);
    }
    newest
}

/// What a delivery may be coalesced by, and when it was offered; none where its lane doesn't.
fn key<'e>(evidence: &'e Evidence<'_>, delivery: &Delivery) -> Option<((u32, &'e str, &'e str), u64)> {
    let rules = &evidence.subscriber(delivery).handling.coalesce;
    if rules.is_empty() {
        return None;
    }
    let offer = &evidence.trace.offers[evidence.event(delivery)?.offer as usize];
    let kind = offer.kind.as_str();
    rules.iter().any(|rule| rule.kind == kind).then_some(((delivery.lane, kind, offer.key.as_str()), offer.t))
}

/// How many deliveries the sender last said are waiting in all; none if it never did.
pub(super) fn waiting_at_end(evidence: &Evidence<'_>) -> Option<u64> {
    let whole =
        evidence.trace.depths.iter().filter(|depth| depth.subscriber.is_none() && depth.waiting.is_some());
    whole.max_by_key(|depth| depth.t).and_then(|depth| depth.waiting)
}

/// How many dead letters the sender counts that it doesn't list.
pub(super) fn unlisted_dead(evidence: &Evidence<'_>) -> u64 {
    if evidence.trace.trailer.as_ref().is_some_and(|trailer| trailer.dead_listed) {
        return 0;
    }
    let whole =
        evidence.trace.depths.iter().filter(|depth| depth.subscriber.is_none() && depth.dead.is_some());
    let counted = whole.max_by_key(|depth| depth.t).and_then(|depth| depth.dead).unwrap_or(0);
    counted.saturating_sub(evidence.trace.dead.len() as u64)
}
