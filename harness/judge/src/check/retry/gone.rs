//! `retry.gone`: requests that left before the sender read the answer have `retry_after_late` to arrive; a request that
//! a stalled endpoint read late counts from its earliest possible sending.

use super::has;
use crate::check::evidence::{Delivery, Evidence};
use crate::check::verdict::{Finding, Tally, show};
use crate::check::{Check, Stall};
use crate::entry::Severity;

pub(in crate::check) const CHECK: Check = Check {
    id: "retry.gone",
    severity: Severity::Should,
    source: "Standard Webhooks 1.0",
    requirement: "after a 410 the sender disables the endpoint",
    why: "a 410 is an endpoint's only way to say that it will not return",
    remedy: "on 410 disable the subscriber, and move its backlog to dead letters",
    stall: Stall::Delays,
    find: judge,
    ..Check::PLAIN
};

pub(in crate::check) fn judge(evidence: &Evidence<'_>) -> Finding {
    if !has(evidence, |status, _| status == 410) {
        return Finding::unasked("no endpoint answers 410");
    }
    let mut tally = Tally::default();
    let grace = evidence.scenario.expect.retry_after_late.0;
    let mut has_withheld = false;
    for (at, lane) in (0..).zip(&evidence.lanes) {
        let heard = |n: &&u32| {
            let one = evidence.exchange(**n);
            one.status() == Some(410) && evidence.is_in_time(**n, one.end) && !evidence.may_be_forgotten(**n)
        };
        let gone = lane.arrivals.iter().filter(heard);
        let Some(first) = gone.min_by_key(|n| evidence.exchange(**n).end) else { continue };
        tally.see();
        let withheld = |one: &Delivery| one.owed && evidence.attempts(one).is_empty();
        has_withheld |= evidence.deliveries_of(at).iter().any(withheld);
        let end = evidence.exchange(*first).end;
        let after: Vec<u32> = lane
            .arrivals
            .iter()
            .copied()
            .filter(|n| evidence.late(end, evidence.sent_from(*n)) > grace)
            .collect();
        if let Some(next) = after.first() {
            let late = show(evidence.exchange(*next).t - end);
            let what = format!("arrivals after the 410: {}, the first {late} later", after.len());
            let shown: Vec<u32> = std::iter::once(*first).chain(after).collect();
            tally.broke(|| evidence.witness(at, &shown, what));
        }
    }
    let last = "no other delivery was owed to an endpoint that answered 410".to_owned();
    tally
        .finding("endpoints that answered 410", "no further request", "further requests")
        .unless_shown((!has_withheld).then_some(last))
}
