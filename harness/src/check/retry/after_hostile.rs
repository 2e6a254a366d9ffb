//! `retry.after-hostile`: a `Retry-After` that is no time at all (`inf`, `-5`, `1e300`, 10²⁰, nothing) neither ends the
//! sender nor stops the delivery: it is tried again within the backoff's or the cap's longest delay, or given up.
//!
//! Such an answer counts once the run goes on for longer than that after it.

use super::after::contract_wait;
use super::asked::{Asked, has};
use crate::check::evidence::Evidence;
use crate::check::verdict::{Finding, Tally, show};
use crate::scenario::{RetryAfter, SECOND};
use crate::trace::ProcessEvent;

pub(in crate::check) fn judge(evidence: &Evidence<'_>) -> Finding {
    if !has(evidence, |_, after| matches!(after, Some(RetryAfter::Text(_)))) {
        return Finding::unasked("no endpoint sends a hostile Retry-After");
    }
    let mut tally = Tally::default();
    for delivery in &evidence.deliveries {
        let attempts = evidence.attempts(delivery);
        let subscriber = evidence.subscriber(delivery);
        for (number, n) in (1..).zip(attempts) {
            let exchange = evidence.exchange(*n);
            let hostile = evidence.asked(*n).is_some_and(|text| Asked::read(text) == Asked::Nonsense);
            if !hostile || exchange.is_delivered() {
                continue;
            }
            let longest = subscriber.retry.bounds(number).1.max(subscriber.retry.retry_after_cap.0);
            // A lane that gives way may add to the delay; ten seconds are far from forever.
            let wait = contract_wait(&evidence.lanes[delivery.lane as usize]).saturating_add(10 * SECOND);
            let by = exchange.end.saturating_add(longest).saturating_add(wait);
            let next = attempts.get(number as usize).map(|n| evidence.exchange(*n).t);
            let given_up = delivery.dead.is_some() || number >= subscriber.retry.attempts;
            if next.is_none() && (given_up || evidence.end <= by) {
                continue;
            }
            tally.see();
            if next.is_none_or(|next| next > by) {
                let asked = evidence.asked(*n).unwrap_or_default();
                let what =
                    format!("Retry-After: {asked:?}, and no attempt within {}", show(by - exchange.end));
                tally.broke(|| evidence.witness(delivery.lane, &[*n], what));
            }
        }
    }
    let asked = |t: u64| {
        let wanted = [ProcessEvent::Asked, ProcessEvent::Killed];
        evidence.trace.processes.iter().any(|one| wanted.contains(&one.event) && one.t <= t)
    };
    let deaths =
        evidence.trace.processes.iter().filter(|one| one.event == ProcessEvent::Exited && !asked(one.t));
    if let Some(death) = deaths.min_by_key(|one| one.t) {
        let status = death.status.clone().unwrap_or_default();
        return Finding::broken(
            format!("the sender ended by itself after {} ({status})", show(death.t)),
            Vec::new(),
        );
    }
    tally.finding("hostile values", "each was survived and bounded", "the delivery was left for good")
}
