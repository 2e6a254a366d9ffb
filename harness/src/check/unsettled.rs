//! What a sender could still have sent when the run's time was up, where it can't be asked: that is not lost, it was not
//! settled in time. Lost is only what can't come any more.
//!
//! A delivery can't come any more once its lane has been silent for longer than anything can hold it back: the delay after
//! its last attempt, a pause that its endpoint asked for, the contract's own wait, a takeover, and `linger`. Where the lane's
//! last exchange failed, a breaker may hold it back for as long as it likes, unless the sender is declared to have none.

use super::evidence::{Delivery, Evidence, Lane};
use super::retry::after::contract_wait;
use super::retry::asked::told_until;
use crate::trace::Lack;

/// Whether a delivery that isn't settled at the end may still have come after it.
pub(super) fn may_still_come(evidence: &Evidence<'_>, delivery: &Delivery) -> bool {
    let lane = &evidence.lanes[delivery.lane as usize];
    let accepted = evidence.accepted(delivery).unwrap_or(0);
    let exchanges = || lane.arrivals.iter().map(|n| evidence.exchange(*n));
    let last = exchanges().map(|exchange| exchange.end).fold(accepted, u64::max);
    let failed = exchanges().max_by_key(|exchange| exchange.end).is_some_and(|last| !last.is_delivered());
    if (failed && !evidence.trace.declared.lacks(Lack::Breaker)) || evidence.is_disturbed(last, evidence.end)
    {
        return true;
    }
    let delay = delay(evidence, lane, delivery);
    let held = last.saturating_add(delay).max(told_until(evidence, lane, u64::MAX));
    let slack = contract_wait(lane).saturating_add(evidence.scenario.linger.0);
    held.saturating_add(slack) > evidence.end
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
