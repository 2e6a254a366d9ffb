//! `retry.after-zero`: five attempts of one delivery within a tenth of the backoff's base are a hot loop. With the
//! widest jitter (each gap uniform from 0 to base·2^(n−1)), four gaps sum to that little with a probability below
//! (1/10)⁴ ÷ (4!·64) < 10⁻⁷.

use super::{RequestedPause, has};
use crate::check::evidence::Evidence;
use crate::check::verdict::{Finding, Tally, show};
use crate::check::{Check, Stall, WallClock};
use crate::entry::Severity;
use crate::scenario::RetryAfter;

const RUN: usize = 5;

pub(in crate::check) const CHECK: Check = Check {
    id: "retry.after-zero",
    severity: Severity::Must,
    source: "derived: a loop without a pause is an attack",
    requirement: "Retry-After: 0 does not cause a hot loop",
    why: "without a delay one delivery is sent thousands of times a second",
    remedy: "use the backoff's delay if the header asks for none",
    stall: Stall::Delays,
    wall_clock: WallClock::Dates,
    find: judge,
    ..Check::PLAIN
};

pub(in crate::check) fn judge(evidence: &Evidence<'_>) -> Finding {
    let zero = |_: u16, after: Option<&RetryAfter>| match after {
        Some(RetryAfter::Seconds(seconds)) => *seconds == 0,
        Some(RetryAfter::Text(text)) => RequestedPause::read(text) == RequestedPause::Seconds(0),
        _ => false,
    };
    if !has(evidence, zero) {
        return Finding::unasked("no endpoint answers with Retry-After: 0");
    }
    let mut tally = Tally::default();
    for delivery in &evidence.deliveries {
        let attempts = evidence.attempts(delivery);
        let told = |n: &u32| {
            evidence
                .retry_after(*n)
                .is_some_and(|text| RequestedPause::read(text) == RequestedPause::Seconds(0))
        };
        if !attempts.iter().any(told) {
            continue;
        }
        tally.see();
        let hot = evidence.subscriber(delivery).retry.base.0 / 10;
        let length = |run: &[u32]| {
            let (first, last) = (evidence.exchange(run[0]), evidence.exchange(run[RUN - 1]));
            // A stall may have kept an attempt unread until the sender had given it up.
            let heard = evidence.is_in_time(run[0], first.begun);
            let unread = if heard { 0 } else { evidence.forgiven.behind(first.t) };
            last.t.saturating_sub(first.t) + unread
        };
        let looped = attempts.windows(RUN).find(|run| run[..RUN - 1].iter().all(told) && length(run) < hot);
        if let Some(run) = looped {
            let what = format!("{RUN} attempts in {}", show(length(run)));
            tally.broke(|| evidence.witness(delivery.lane, run, what));
        }
    }
    tally.finding("deliveries with Retry-After: 0", "retried by the backoff", "retried in a hot loop")
}
