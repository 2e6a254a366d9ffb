//! `retry.attempts`: an attempt whose process was killed meanwhile doesn't count, as the sender can't know of it. A
//! delivery that the sender lists as `exhausted` has no fewer, unless the endpoint could not see some (a closed port, a
//! reset before the request was read). Redriven deliveries start again and aren't judged.

use super::expects_retries;
use crate::check::evidence::{Delivery, Evidence};
use crate::check::verdict::{Finding, Tally};
use crate::check::{Check, Stall};
use crate::entry::Severity;

pub(in crate::check) const CHECK: Check = Check {
    id: "retry.attempts",
    severity: Severity::Must,
    source: "existing senders",
    requirement: "a delivery gets exactly the declared number of attempts, then becomes a dead letter",
    why: "too few attempts lose deliveries, too many hammer a dead endpoint, and without a dead letter \
        nobody notices",
    remedy: "count attempts with the delivery, in the transaction of their outcome",
    stall: Stall::Delays,
    find: judge,
    ..Check::PLAIN
};

pub(in crate::check) fn judge(evidence: &Evidence<'_>) -> Finding {
    let has_exhausted = evidence.deliveries.iter().any(|delivery| is_exhausted(evidence, delivery));
    let expected = (0..).zip(&evidence.lanes).any(|(at, _)| expects_retries(evidence, at));
    if !expected && !has_exhausted {
        return Finding::unasked("no endpoint fails in a way that is retried");
    }
    let mut tally = Tally::default();
    let mut exhausted = 0;
    let counts =
        |delivery: &&Delivery| evidence.attempts(delivery).len() > 1 || is_exhausted(evidence, delivery);
    for delivery in evidence.deliveries.iter().filter(counts) {
        let attempts = evidence.attempts(delivery);
        let repeated = evidence.event(delivery).is_none_or(|event| event.offers > 1);
        if repeated || evidence.is_redriven(delivery, evidence.end) {
            continue;
        }
        tally.see();
        let declared = evidence.subscriber(delivery).retry.attempts as usize;
        let unknown = attempts.iter().filter(|n| evidence.may_be_forgotten(**n)).count();
        if attempts.len() > declared + unknown {
            let what = format!("{} attempts; the scenario declares {declared}", attempts.len());
            tally.broke(|| evidence.witness(delivery.lane, attempts, what));
        } else if is_exhausted(evidence, delivery) {
            exhausted += 1;
            let is_short = attempts.len() < declared && !evidence.ended_finally(delivery);
            if is_short && all_are_seen(evidence, delivery) {
                let what =
                    format!("given up; attempts: {}; the scenario declares {declared}", attempts.len());
                tally.broke(|| evidence.witness(delivery.lane, attempts, what));
            }
        }
    }
    if tally.seen == 0 && evidence.has_redrives() {
        return Finding::unasked("the scenario redrives dead letters");
    }
    tally
        .finding(
            "deliveries retried or exhausted",
            "each attempted as often as declared",
            "not attempted as often as declared",
        )
        .with("exhausted", exhausted)
}

fn is_exhausted(evidence: &Evidence<'_>, delivery: &Delivery) -> bool {
    delivery.dead.is_some_and(|at| evidence.trace.dead[at as usize].reason == "exhausted")
}

fn all_are_seen(evidence: &Evidence<'_>, delivery: &Delivery) -> bool {
    !evidence.subscriber(delivery).hides_attempts()
}
