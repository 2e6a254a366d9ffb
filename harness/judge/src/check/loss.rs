//! `loss.none`: every acknowledged event reaches each of its subscribers, or their dead letters. Not lost:
//!
//! - a delivery that the sender reports as waiting in its lane (`dead_letters`; `recovery.drains` judges
//!   it);
//! - an event that a newer one of its key replaces, where the subscriber coalesces;
//! - as many deliveries as the sender counts as dead letters, where it does not list them;
//! - with a sender that reports no depth, a delivery that can still come (`outcomes`): it was not settled in
//!   time.
//!
//! A dead letter without a true cause is lost (`dead_letters`).
//!
//! `loss.unexpected`: nothing arrives that was not offered, at a subscriber that the event doesn't concern,
//! or before its offer.

use super::dead_letters::groundless;
use super::evidence::Evidence;
use super::outcomes::{Fate, fates};
use super::outcomes::{is_broken_off, missing, not_settled_in_time};
use super::verdict::{Finding, Tally, WITNESS_MAX};
use crate::check::Check;
use crate::entry::Severity;

pub(super) const NONE: Check = Check {
    id: "loss.none",
    severity: Severity::Must,
    source: "derived: what acknowledgement means",
    requirement: "every accepted event reaches every matching subscriber, or its dead letters",
    why: "the emitter has forgotten the event, since it was told that it need not remember it",
    remedy: "commit before acknowledging, and delete only after the outcome is stored",
    find: none,
    ..Check::PLAIN
};

pub(super) fn none(evidence: &Evidence<'_>) -> Finding {
    let fates = fates(evidence);
    if fates.is_empty() {
        return Finding::unseen("nothing was acknowledged");
    }
    let unsettled: Vec<_> =
        fates.iter().filter(|(_, fate)| *fate == Fate::Unsettled).map(|(one, _)| *one).collect();
    let late = not_settled_in_time(evidence, &unsettled);
    let missing = missing(evidence, &unsettled);
    let (unseen, groundless) = (missing.len(), groundless(evidence));
    let lost = (unseen + groundless.len()) as u64;
    let count = |wanted: Fate| fates.iter().filter(|(_, fate)| *fate == wanted).count();
    let is_bearable = lost <= evidence.scenario.expect.lost;
    let finding = if is_bearable && late > 0 && is_broken_off(evidence) {
        Finding::unseen("the run was interrupted before everything could arrive")
    } else if is_bearable && late > 0 {
        let all = fates.len();
        Finding::unseen(format!(
            "{late} of {all} deliveries were not settled in time: they could still have come"
        ))
    } else if is_bearable {
        Finding::held(format!("{} deliveries are owed, {lost} are lost", fates.len()))
    } else {
        let missing = missing
            .iter()
            .map(|one| evidence.absent(one, "acknowledged, and neither delivered nor dead".to_owned()));
        let without = groundless.iter().map(|(one, why)| evidence.absent(one, why.clone()));
        let witness = without.chain(missing).take(WITNESS_MAX).collect();
        Finding::broken(format!("{lost} of {} deliveries are lost", fates.len()), witness)
    };
    let finding = finding.with("delivered", count(Fate::Delivered)).with("dead", count(Fate::Dead));
    finding
        .with("coalesced", count(Fate::Coalesced))
        .with("neither", unsettled.len())
        .with("given up without a cause", groundless.len())
        .with("accounted for by the sender", (unsettled.len() - unseen) as u64 - late)
        .with("not settled in time", late)
}

pub(super) const UNEXPECTED: Check = Check {
    id: "loss.unexpected",
    severity: Severity::Must,
    source: "derived",
    requirement: "nothing arrives that was not offered, nor at a subscriber that it does not match",
    why: "a subscriber that gets another's events is a breach of data, not only a nuisance",
    remedy: "match whole patterns at segment boundaries, and keep subscribers' bodies apart",
    find: unexpected,
    ..Check::PLAIN
};

fn unexpected(evidence: &Evidence<'_>) -> Finding {
    let mut tally = Tally::default();
    for (exchange, arrival) in evidence.exchanges.iter().zip(&evidence.trace.arrivals) {
        tally.see();
        let lost = match (exchange.lane, arrival.token) {
            (None, _) => {
                Some(format!("an arrival at {:?}, which the scenario doesn't have", arrival.endpoint))
            }
            (_, None) => Some("an arrival without the harness's token".to_owned()),
            _ => None,
        };
        if let Some(what) = lost {
            let witness = super::verdict::Witness {
                subscriber: Some(arrival.endpoint.to_string()),
                from: arrival.t,
                until: arrival.t,
                what,
                arrivals: vec![arrival.n],
            };
            tally.broke(|| witness);
        }
    }
    for delivery in &evidence.deliveries {
        let Some(first) = evidence.attempts(delivery).first() else { continue };
        let offered = evidence.event(delivery).map(|event| evidence.trace.offers[event.offer as usize].t);
        let what = match offered {
            None => "was never offered",
            Some(_) if !delivery.owed => "does not concern this subscriber",
            Some(t) if evidence.exchange(*first).t < t => "came before it was offered",
            Some(_) => continue,
        };
        let what = format!("event {} {what}", delivery.token);
        tally.broke(|| evidence.witness(delivery.lane, evidence.attempts(delivery), what));
    }
    tally.finding(
        "arrivals",
        "each was offered, for its subscriber",
        "not offered, or not for its subscriber",
    )
}
