//! `loss.none`: not lost are:
//!
//! - a delivery that the sender reports as waiting in its lane (`dead_letters`; `recovery.drains` judges it);
//! - an event that a newer one of its key replaces, where the subscriber coalesces;
//! - as many deliveries as the sender counts as dead letters, where it does not list them;
//! - with a sender that reports no depth, a delivery that can still come (`outcomes`): it was not settled in time.
//!
//! A dead letter without a true cause is lost (`dead_letters`).
//!
//! `loss.unexpected`: nothing arrives that was not offered, at a subscriber that the event doesn't concern, before its
//! offer, or though the sender refused each of its offers. A driver may declare that a refused event reaches some
//! subscribers. An answer of 500 or more, or none, says nothing.

use super::dead_letters::groundless;
use super::evidence::Evidence;
use super::outcomes::{Fate, fates};
use super::outcomes::{is_broken_off, missing, not_settled_in_time};
use super::verdict::{Finding, Tally, WITNESS_MAX};
use crate::check::{Check, Stall};
use crate::entry::Severity;

pub(super) const NONE: Check = Check {
    id: "loss.none",
    severity: Severity::Must,
    source: "derived: the meaning of an acknowledgement",
    requirement: "every accepted event reaches every matching subscriber or becomes a dead letter",
    why: "the emitter forgets an event after its acknowledgement, so nobody else can repeat it",
    remedy: "commit before acknowledging, and delete only after storing the outcome",
    stall: Stall::Delays,
    find: none,
    ..Check::PLAIN
};

pub(super) fn none(evidence: &Evidence<'_>) -> Finding {
    let fates = fates(evidence);
    if fates.is_empty() {
        return Finding::unseen("no event was acknowledged");
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
        Finding::unseen("the run was interrupted before all deliveries could arrive")
    } else if is_bearable && late > 0 {
        let all = fates.len();
        Finding::unseen(format!(
            "outstanding at the end: {late} of {all} deliveries, which could have arrived later"
        ))
    } else if is_bearable {
        Finding::held(format!("deliveries owed: {}; lost: {lost}", fates.len()))
    } else {
        let missing = missing.iter().map(|one| {
            evidence.absent(one, "acknowledged, but neither delivered nor a dead letter".to_owned())
        });
        let without = groundless.iter().map(|(one, why)| evidence.absent(one, why.clone()));
        let witness = without.chain(missing).take(WITNESS_MAX).collect();
        Finding::broken(format!("lost {lost} of {} deliveries", fates.len()), witness)
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
    requirement: "only offered events arrive, none that was refused, and only at subscribers that they match",
    why: "a subscriber that receives another's events is a data breach",
    remedy: "match patterns by whole segments, and keep the subscribers' bodies apart",
    find: unexpected,
    ..Check::PLAIN
};

fn unexpected(evidence: &Evidence<'_>) -> Finding {
    let mut tally = Tally::default();
    for (exchange, arrival) in evidence.exchanges.iter().zip(&evidence.trace.arrivals) {
        tally.see();
        let lost = match (exchange.lane, arrival.token) {
            (None, _) => {
                Some(format!("an arrival at {:?}, which is no endpoint of the scenario", arrival.endpoint))
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
        let refused = evidence.event(delivery).is_some_and(|event| {
            let always = event.accepted.is_none() && event.refused >= event.offers;
            always && !evidence.trace.declared.partial_acceptance
        });
        let what = match offered {
            None => "was never offered",
            Some(_) if !delivery.owed => "does not match this subscriber",
            Some(t) if evidence.exchange(*first).t < t => "arrived before it was offered",
            Some(_) if refused => "was refused, and arrived all the same",
            Some(_) => continue,
        };
        let what = format!("event {} {what}", delivery.token);
        tally.broke(|| evidence.witness(delivery.lane, evidence.attempts(delivery), what));
    }
    tally.finding(
        "arrivals",
        "each was offered and matches its subscriber",
        "not offered, refused, or at a wrong subscriber",
    )
}
