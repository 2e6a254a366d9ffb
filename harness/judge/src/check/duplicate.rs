//! `duplicate.bounded`: a successful delivery is repeated only
//!
//! - if its process was killed during the exchange, or within the sender's `confirm_within` of its end (counted from the
//!   end of a fault that forbade writing to the store), and its connection carried no request after that;
//! - if the answer came at or past the sender's deadline, counted from when the request may have been sent;
//! - if it was redriven.
//!
//! `expect.duplicates` allows a number of duplicates instead, anywhere.
//!
//! `duplicate.dedupe`: an event id that is offered twice is delivered once.

use super::evidence::{Delivery, Evidence};
use super::verdict::{Finding, Tally};
use crate::check::{Check, Stall};
use crate::entry::Severity;
use crate::scenario::Duplicates;

/// The attempts after a successful one, each with the last successful attempt before it: an excuse for the
/// second success does not excuse a third.
pub(super) fn again(evidence: &Evidence<'_>, delivery: &Delivery) -> Vec<(u32, u32)> {
    let (mut taken, mut found) = (None, Vec::new());
    for n in evidence.attempts(delivery) {
        found.extend(taken.map(|taken| (taken, *n)));
        if evidence.exchange(*n).is_delivered() {
            taken = Some(*n);
        }
    }
    found
}

fn is_excused(evidence: &Evidence<'_>, taken: u32, again: u32) -> bool {
    let exchange = evidence.exchange(taken);
    // A request that left before the success was known is no repetition: its deadline passed, or its process
    // was replaced.
    let again_killed = evidence.was_killed(exchange.t, evidence.exchange(again).t)
        && evidence.exchange(again).t <= exchange.end;
    !evidence.is_in_time(taken, exchange.end) || evidence.may_be_forgotten(taken) || again_killed
}

pub(super) const BOUNDED: Check = Check {
    id: "duplicate.bounded",
    severity: Severity::Must,
    source: "derived: at-least-once delivery, with a cause for each duplicate",
    requirement: "a duplicate arrives only if an attempt was in flight, or just answered, when the sender \
        was killed",
    why: "receivers can bear duplicates after a crash, but not in normal operation",
    remedy: "store each outcome before the delivery's next attempt can start, and fence workers after the \
        end of their leases",
    stall: Stall::Delays,
    find: bounded,
    ..Check::PLAIN
};

pub(super) fn bounded(evidence: &Evidence<'_>) -> Finding {
    let mut tally = Tally::default();
    let mut duplicates = 0;
    for delivery in &evidence.deliveries {
        if evidence.event(delivery).is_some_and(|event| event.offers > 1) {
            continue;
        }
        tally.see();
        for (taken, again) in again(evidence, delivery) {
            if evidence.is_redriven(delivery, evidence.exchange(again).t) {
                continue;
            }
            duplicates += 1;
            let allowed = match evidence.scenario.expect.duplicates {
                Duplicates::InFlightAtKill => is_excused(evidence, taken, again),
                Duplicates::AtMost(count) => duplicates <= count,
            };
            if !allowed {
                let what =
                    format!("event {} arrived again after its endpoint had accepted it", delivery.token);
                tally.broke(|| evidence.witness(delivery.lane, &[taken, again], what));
            }
        }
    }
    tally
        .finding("deliveries", "none was repeated without a cause", "repeated without a cause")
        .with("duplicates", duplicates)
}

pub(super) const DEDUPE: Check = Check {
    id: "duplicate.dedupe",
    severity: Severity::Should,
    source: "existing senders",
    requirement: "an event that is offered twice with one id is delivered once",
    why: "an emitter repeats an emit that got no answer, as a sender repeats a delivery",
    remedy: "store event ids for the declared window under a unique index",
    stall: Stall::Delays,
    find: dedupe,
    ..Check::PLAIN
};

pub(super) fn dedupe(evidence: &Evidence<'_>) -> Finding {
    if evidence.scenario.events.repeated.0 == 0 {
        return Finding::unasked("the scenario offers no event twice");
    }
    let mut tally = Tally::default();
    for delivery in &evidence.deliveries {
        if evidence.event(delivery).is_none_or(|event| event.offers < 2) {
            continue;
        }
        tally.see();
        let again = again(evidence, delivery);
        if let Some((taken, again)) =
            again.iter().find(|(taken, again)| !is_excused(evidence, *taken, *again))
        {
            let what = format!("event {} was offered twice and delivered twice", delivery.token);
            tally.broke(|| evidence.witness(delivery.lane, &[*taken, *again], what));
        }
    }
    tally.finding("deliveries of events offered twice", "each was delivered once", "delivered twice")
}
