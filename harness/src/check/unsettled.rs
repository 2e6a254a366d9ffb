//! What a sender could still have sent when the run's time was up, where it can't be asked: that is not lost, it was not
//! settled in time. Lost is only what can't come any more.
//!
//! A delivery can't come any more once its lane has been silent for longer than anything can hold it back: the delay after
//! its last attempt, a pause that its endpoint asked for, the contract's own wait, and `linger`. What befell the sender may
//! hold it back until its work was to be taken over, and for a delay from then on. The end is when the harness stopped the
//! sender. Where the lane's
//! last exchange failed, a breaker may hold it back for as long as it likes, unless the sender is declared to have none.

use super::evidence::{Delivery, Evidence, Lane};
use super::retry::after::contract_wait;
use super::retry::asked::told_until;
use super::verdict::{Finding, Found};
use super::word::unaccounted;
use crate::trace::{Ended, Lack};

/// Those of some unsettled deliveries, ordered by lane, that the sender's word does not account for, and that can't come any
/// more.
pub(super) fn missing<'e>(evidence: &Evidence<'_>, unsettled: &[&'e Delivery]) -> Vec<&'e Delivery> {
    if is_broken_off(evidence) {
        return Vec::new();
    }
    let mut missing = unaccounted(evidence, unsettled);
    missing.retain(|one| !is_late(evidence, one));
    missing
}

/// Whether the run was broken off, so that whatever was open could still have come.
pub(super) fn is_broken_off(evidence: &Evidence<'_>) -> bool {
    evidence.trace.trailer.as_ref().is_some_and(|trailer| trailer.ended == Ended::Interrupted)
}

/// How many of these could still have come when the run's time was up.
pub(super) fn not_settled_in_time(evidence: &Evidence<'_>, unsettled: &[&Delivery]) -> u64 {
    if is_broken_off(evidence) {
        return unaccounted(evidence, unsettled).len() as u64;
    }
    unsettled.iter().filter(|one| is_late(evidence, one)).count() as u64
}

/// A finding that would hold, of deliveries of which some could still have come: nobody knows that none was lost.
pub(super) fn unless_late(finding: Finding, late: u64) -> Finding {
    if late == 0 || finding.found != Found::Held {
        return finding;
    }
    Finding::unseen(format!("{late} deliveries were not settled in time: they could still have come"))
}

/// Whether a delivery could still have come when the run's time was up, of a sender that can't be asked: one that can says
/// it itself.
fn is_late(evidence: &Evidence<'_>, delivery: &Delivery) -> bool {
    evidence.trace.declared.lacks(Lack::Depth) && may_still_come(evidence, delivery)
}

/// Whether a delivery that isn't settled at the end may still have come after it.
fn may_still_come(evidence: &Evidence<'_>, delivery: &Delivery) -> bool {
    let lane = &evidence.lanes[delivery.lane as usize];
    let accepted = evidence.accepted(delivery).unwrap_or(0);
    let exchanges = || lane.arrivals.iter().map(|n| evidence.exchange(*n));
    let last = exchanges().map(|exchange| exchange.end).fold(accepted, u64::max);
    let failed = exchanges().max_by_key(|exchange| exchange.end).is_some_and(|last| !last.is_delivered());
    if failed && !evidence.trace.declared.lacks(Lack::Breaker) {
        return true;
    }
    let delay = delay(evidence, lane, delivery);
    let held = last.max(evidence.taken_over_by()).saturating_add(delay);
    let held = held.max(told_until(evidence, lane, u64::MAX));
    let slack = contract_wait(lane).saturating_add(evidence.scenario.linger.0);
    held.saturating_add(slack) > evidence.at_work_until()
}

/// How long the sender may wait after the attempts that were made.
fn delay(evidence: &Evidence<'_>, lane: &Lane<'_>, delivery: &Delivery) -> u64 {
    let retry = &lane.subscriber.retry;
    if lane.subscriber.hides_attempts() {
        // Nobody knows how many there were.
        return retry.bounds(retry.attempts).1;
    }
    match u32::try_from(evidence.attempts(delivery).len()).unwrap_or(u32::MAX) {
        0 => 0,
        attempts => retry.bounds(attempts).1,
    }
}
