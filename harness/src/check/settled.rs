//! What became of what is owed: delivered, given up, replaced by a newer one, or none of these. Several checks ask.

use std::collections::BTreeMap;

use super::evidence::{Delivery, Evidence, Outcome};
use crate::scenario::Answer;
use crate::trace::Lack;

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
    let settled = settled(evidence);
    let owed = evidence.deliveries.iter().filter(|one| one.owed && evidence.accepted(one).is_some());
    owed.map(|delivery| (delivery, fate(evidence, delivery, &settled)))
        .filter(|(delivery, fate)| *fate != Fate::Unsettled || !is_let_go(evidence, delivery))
        .collect()
}

fn fate(evidence: &Evidence<'_>, delivery: &Delivery, settled: &Settled<'_>) -> Fate {
    if evidence.is_delivered(delivery) {
        return Fate::Delivered;
    }
    if delivery.dead.is_some() || is_given_up_in_silence(evidence, delivery) {
        return Fate::Dead;
    }
    if is_taken_at_length(evidence, delivery) {
        return Fate::Delivered;
    }
    if is_replaced(evidence, delivery, settled) { Fate::Coalesced } else { Fate::Unsettled }
}

/// Whether a sender that keeps no dead letters, or whose driver can't list them, has done all that it had to: it tried as
/// often as declared, or the delivery outlived its `ttl`.
fn is_given_up_in_silence(evidence: &Evidence<'_>, delivery: &Delivery) -> bool {
    let counted = evidence.trace.depths.iter().any(|depth| depth.dead.is_some());
    if counted || !evidence.trace.declared.lacks(Lack::DeadLetters) {
        return false;
    }
    let retry = &evidence.subscriber(delivery).retry;
    let old = evidence.accepted(delivery).is_some_and(|t| t.saturating_add(retry.ttl.0) <= evidence.end);
    old || evidence.attempts(delivery).len() >= retry.attempts as usize
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

/// By lane, type and key of what a lane coalesces: when the events were offered that did arrive, or were given up, in order.
type Settled<'e> = BTreeMap<(u32, &'e str, &'e str), Vec<u64>>;

fn settled<'e>(evidence: &'e Evidence<'_>) -> Settled<'e> {
    let mut settled = Settled::new();
    for delivery in evidence.deliveries.iter().filter(|one| is_settled(evidence, one)) {
        if let Some((key, t, _)) = key(evidence, delivery) {
            settled.entry(key).or_default().push(t);
        }
    }
    settled.values_mut().for_each(|times| times.sort_unstable());
    settled
}

fn is_settled(evidence: &Evidence<'_>, delivery: &Delivery) -> bool {
    !evidence.attempts(delivery).is_empty() || delivery.dead.is_some()
}

/// Whether an event of a delivery's key that was offered inside its window stands for it. A replacement keeps the time at
/// which the first of them is due, so that what was offered later stands for none of them. The window begins once the event
/// was taken, at the latest; a clock that steps makes it as long as it likes.
fn is_replaced(evidence: &Evidence<'_>, delivery: &Delivery, settled: &Settled<'_>) -> bool {
    let Some((key, t, window)) = key(evidence, delivery) else { return false };
    let steps = evidence.scenario.faults.iter().any(|fault| fault.action.name() == "clock-step");
    let late = evidence.scenario.expect.retry_after_late.0;
    let begun = evidence.accepted(delivery).map_or(t, |accepted| accepted.max(t));
    let until = if steps { u64::MAX } else { begun.saturating_add(window).saturating_add(late) };
    // Offered at one moment, the one may stand for the other, but none for itself.
    let from = t + u64::from(is_settled(evidence, delivery));
    let times = settled.get(&key).map(Vec::as_slice).unwrap_or_default();
    times.get(times.partition_point(|other| *other < from)).is_some_and(|other| *other <= until)
}

/// What a delivery may be coalesced by, when it was offered, and how long it waits for others; none where its lane doesn't
/// coalesce.
fn key<'e>(evidence: &'e Evidence<'_>, delivery: &Delivery) -> Option<((u32, &'e str, &'e str), u64, u64)> {
    let rules = &evidence.subscriber(delivery).handling.coalesce;
    if rules.is_empty() {
        return None;
    }
    let offer = &evidence.trace.offers[evidence.event(delivery)?.offer as usize];
    let kind = offer.kind.as_str();
    let rule = rules.iter().find(|rule| rule.kind == kind)?;
    Some(((delivery.lane, kind, offer.key.as_str()), offer.t, rule.window.0))
}
