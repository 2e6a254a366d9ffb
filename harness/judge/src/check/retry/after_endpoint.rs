//! `retry.after-endpoint`: requests that left before the sender read the answer have `retry_after_late` to arrive. A
//! pause that was not recorded before a kill is lost.

use super::{RequestedPause, has};
use crate::check::evidence::Evidence;
use crate::check::verdict::{Finding, Tally, show};
use crate::check::{Check, Stall, WallClock};
use crate::entry::Severity;
use crate::scenario::RetryAfter;

pub(in crate::check) const CHECK: Check = Check {
    id: "retry.after-endpoint",
    severity: Severity::Should,
    source: "existing senders",
    requirement: "a pause that an endpoint asks for covers all its deliveries, not only the answered one",
    why: "other deliveries to a paused endpoint get the same answer, and prolong the pause",
    remedy: "store the pause with the subscriber, and check it before each attempt",
    stall: Stall::Delays,
    wall_clock: WallClock::Dates,
    find: judge,
    ..Check::PLAIN
};

pub(in crate::check) fn judge(evidence: &Evidence<'_>) -> Finding {
    if !has(evidence, |status, after| matches!(status, 429 | 503) && after.is_some_and(RetryAfter::is_plain))
    {
        return Finding::unasked("no endpoint asks for a pause");
    }
    let mut tally = Tally::default();
    let grace = evidence.scenario.expect.retry_after_late.0;
    let mut has_held = false;
    for (at, lane) in (0..).zip(&evidence.lanes) {
        let pause = |n: &u32| {
            let exchange = evidence.exchange(*n);
            let asked = RequestedPause::read(evidence.retry_after(*n)?);
            let until = asked.until(evidence, exchange, lane.subscriber.retry.retry_after_cap.0)?;
            let said =
                matches!(exchange.status(), Some(429 | 503)).then_some(exchange.end.saturating_add(grace))?;
            (said < until && !evidence.may_be_forgotten(*n)).then_some((said, until, *n))
        };
        let mut pauses: Vec<_> = lane.arrivals.iter().filter_map(pause).collect();
        pauses.sort_unstable();
        let mut ends: Vec<u64> = pauses.iter().map(|(_, until, _)| *until).collect();
        ends.sort_unstable();
        has_held |= evidence.deliveries_of(at).iter().any(|other| {
            let first = evidence.attempts(other).first().map(|n| evidence.exchange(*n).t);
            let wait = evidence.accepted(other).zip(first);
            wait.is_some_and(|(from, until)| {
                ends.get(ends.partition_point(|end| *end <= from)).is_some_and(|end| *end <= until)
            })
        });
        let mut next = 0;
        let mut told: Option<(u64, u64, u32)> = None;
        for n in &lane.begun {
            let t = evidence.exchange(*n).t;
            while let Some((said, until, by)) = pauses.get(next).filter(|(said, ..)| *said < t) {
                told = told.max(Some((*until, *said, *by)));
                tally.see();
                next += 1;
            }
            let Some((until, said, by)) = told.filter(|(until, ..)| t < *until) else { continue };
            // A request that a stalled endpoint read late may have left before the answer.
            if evidence.late(said - grace, evidence.sent_from(*n)) <= grace {
                continue;
            }
            let what = format!("the pause had {} left", show(until - t));
            tally.broke(|| evidence.witness(at, &[by, *n], what));
        }
    }
    let broken = tally.broken;
    let alone = "no other delivery waited for the end of a pause".to_owned();
    tally
        .finding(
            "pauses with arrivals after them",
            "no arrival during the pause",
            "arrivals during the pause",
        )
        .unless_shown((!has_held).then_some(alone))
        .with("arrivals during a pause", broken)
}
