//! Whether a lane is served again after a fault: if a delivery that was never tried is due then or later, a
//! request arrives within `takeover_within` and the contract's wait for one attempt.
//!
//! A lane is not judged if
//!
//! - its endpoint misbehaves meanwhile or is gone (a requested pause only delays the deadline);
//! - its endpoint failed last, so that a breaker may hold it, unless the sender is declared to have none;
//! - another fault hits the sender meanwhile;
//! - the delivery outlives its `ttl`, or the run ends.
//!
//! A lane that coalesces waits for its window on purpose, and an ordered lane for the retries of a key.

use super::dead_letters::longest_delay;
use super::evidence::{Delivery, Evidence, Lane};
use super::retry::after::contract_wait;
use super::retry::asked::told_until;
use crate::scenario::SECOND;
use crate::trace::{Fault, Lack};

pub(super) enum Again<'e> {
    /// No work was due, or the lane may stay unserved.
    Nothing,
    /// It was served in time.
    InTime,
    /// The delivery that was due first, and the length of the gap; none if no request came.
    Late { first: &'e Delivery, after: Option<u64> },
}

/// Judges one lane from a moment on.
pub(super) fn served_again<'e>(evidence: &'e Evidence<'_>, at: u32, from: u64) -> Again<'e> {
    look(evidence, at, from, None)
}

/// Judges one lane during a fault of one of several processes: the others must serve it.
pub(super) fn served_meanwhile<'e>(evidence: &'e Evidence<'_>, at: u32, fault: &Fault) -> Again<'e> {
    look(evidence, at, fault.t, Some(fault))
}

/// `despite` is a fault that has begun and lasts.
fn look<'e>(evidence: &'e Evidence<'_>, at: u32, from: u64, despite: Option<&Fault>) -> Again<'e> {
    let lane = &evidence.lanes[at as usize];
    let first_try = |one: &Delivery| evidence.attempts(one).first().map(|n| evidence.exchange(*n).t);
    let fresh = evidence.deliveries_of(at).iter().filter(|one| one.owed && one.dead.is_none());
    let due = fresh.filter_map(|one| {
        let accepted = evidence.accepted(one)?;
        first_try(one).is_none_or(|t| t > from).then_some((accepted.max(from), one))
    });
    let Some((due, first)) = due.min_by_key(|(due, _)| *due) else { return Again::Nothing };
    let next = lane.arrivals.partition_point(|n| evidence.exchange(*n).t < due);
    let next = lane.arrivals.get(next).map(|n| evidence.exchange(*n).t);
    // A request may arrive before the harness has read the acknowledgement.
    let came = [first_try(first), next].into_iter().flatten().min();
    let since = due.max(told_until(evidence, lane, came.unwrap_or(evidence.end)));
    let wait = evidence.scenario.sender.takeover_within.0.saturating_add(held_on_purpose(lane));
    let by = since.saturating_add(wait);
    if came.is_some_and(|t| t <= by) {
        return Again::InTime;
    }
    let expires =
        evidence.accepted(first).is_some_and(|t| t.saturating_add(lane.subscriber.retry.ttl.0) <= by);
    if expires || by >= evidence.end || may_be_left_alone(evidence, lane, (from, despite), (by, wait)) {
        return Again::Nothing;
    }
    Again::Late { first, after: came.map(|t| t - from) }
}

/// The wait that the contract and the scenario impose.
fn held_on_purpose(lane: &Lane<'_>) -> u64 {
    let handling = &lane.subscriber.handling;
    let window = handling.coalesce.iter().map(|one| one.window.0).max().unwrap_or(0);
    let order = if handling.ordered { longest_delay(lane, lane.subscriber.retry.attempts) } else { 0 };
    contract_wait(lane).saturating_add(window).saturating_add(order)
}

fn may_be_left_alone(
    evidence: &Evidence<'_>,
    lane: &Lane<'_>,
    (from, despite): (u64, Option<&Fault>),
    (by, wait): (u64, u64),
) -> bool {
    let ill = lane
        .subscriber
        .behaviours
        .iter()
        .any(|one| one.at.0 <= by && one.until().is_none_or(|until| until.saturating_add(wait) >= from));
    let ended = lane.arrivals.iter().filter(|n| evidence.exchange(**n).end <= from);
    let last = ended.max_by_key(|n| evidence.exchange(**n).end);
    let failed = last.is_some_and(|n| !evidence.exchange(*n).is_delivered() && evidence.told(*n).is_none());
    // The trace has several lines of one end.
    let later = from.saturating_add(SECOND);
    let upset = evidence.upsets.iter().any(|t| later < *t && *t <= by);
    let is_other = |fault: &&Fault| despite.is_none_or(|one| !std::ptr::eq(one, *fault));
    let mut faults = evidence.trace.faults.iter().filter(|fault| fault.hinders()).filter(is_other);
    let faulty =
        faults.any(|fault| fault.t <= by && (fault.t > from || fault.until.is_some_and(|t| t > from)));
    let stands_still = evidence.strikes.stops.iter().any(|stop| stop.from <= by && stop.until > from);
    ill || upset
        || faulty
        || stands_still
        || (failed && !evidence.trace.declared.lacks(Lack::Breaker))
        || lane.gone.is_some_and(|t| t <= by)
}
