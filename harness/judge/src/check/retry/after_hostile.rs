//! `retry.after-hostile`: after an invalid value the sender retries within the longest delay of the backoff or the cap,
//! or gives the delivery up.
//!
//! Such an answer counts if the run continues for longer than that. A fault meanwhile (a kill, a stop, a full disk)
//! restarts the wait, `takeover_within` after it.

use super::after::contract_wait;
use super::{RequestedPause, has};
use crate::check::evidence::Evidence;
use crate::check::verdict::{Finding, Tally, moment, show};
use crate::check::{Check, Stall, WallClock};
use crate::entry::Severity;
use crate::scenario::{RetryAfter, SECOND};
use crate::trace::ProcessEvent;

pub(in crate::check) const CHECK: Check = Check {
    id: "retry.after-hostile",
    severity: Severity::Must,
    source: "derived: the header comes from an untrusted endpoint",
    requirement: "a Retry-After of inf, -5, 1e300, 10^20 or an empty text neither stops nor crashes the \
        sender",
    why: "an invalid or overflowing number must not pause a lane for ever, remove the wait, or end the \
        process",
    remedy: "read digits into a bounded integer, cap it by configuration, and otherwise use the backoff",
    stall: Stall::Delays,
    wall_clock: WallClock::Dates,
    find: judge,
    ..Check::PLAIN
};

pub(in crate::check) fn judge(evidence: &Evidence<'_>) -> Finding {
    if !has(evidence, |_, after| matches!(after, Some(RetryAfter::Text(_)))) {
        return Finding::unasked("no endpoint sends a hostile Retry-After");
    }
    let upsets = upsets(evidence);
    let mut tally = Tally::default();
    for delivery in &evidence.deliveries {
        let attempts = evidence.attempts(delivery);
        let subscriber = evidence.subscriber(delivery);
        for (number, n) in (1..).zip(attempts) {
            let exchange = evidence.exchange(*n);
            let hostile = evidence
                .retry_after(*n)
                .is_some_and(|text| RequestedPause::read(text) == RequestedPause::Nonsense);
            if !hostile || exchange.is_delivered() {
                continue;
            }
            let longest = subscriber.retry.bounds(number).1.max(subscriber.retry.retry_after_cap.0);
            // A throttling lane may add to the delay, but by less than ten seconds.
            let wait = contract_wait(&evidence.lanes[delivery.lane as usize]).saturating_add(10 * SECOND);
            let by = due(evidence, &upsets, exchange.end, longest.saturating_add(wait));
            let next = attempts.get(number as usize).map(|n| evidence.exchange(*n).t);
            let is_late = evidence.late_after(exchange.end, by, next.unwrap_or(evidence.end)) > 0;
            let given_up = delivery.dead.is_some() || number >= subscriber.retry.attempts;
            if next.is_none() && (given_up || !is_late) {
                continue;
            }
            tally.see();
            if is_late {
                let asked = evidence.retry_after(*n).unwrap_or_default();
                let what =
                    format!("after Retry-After: {asked:?} no attempt within {}", show(by - exchange.end));
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
            format!("the sender ended by itself at {} ({status})", moment(death.t)),
            Vec::new(),
        );
    }
    tally.finding("hostile values", "each led to a bounded wait", "the delivery was not retried")
}

fn upsets(evidence: &Evidence<'_>) -> Vec<u64> {
    use ProcessEvent::{Continued, Ready};
    let faults = &evidence.trace.faults;
    let mut upsets: Vec<u64> =
        faults.iter().flat_map(|fault| [Some(fault.t), fault.until]).flatten().collect();
    upsets.extend(&evidence.strikes.upsets);
    // The first start of a process ends no fault.
    if let Some(first) = upsets.iter().min().copied() {
        let back = evidence.trace.processes.iter().filter(|one| matches!(one.event, Ready | Continued));
        upsets.extend(back.map(|one| one.t).filter(|t| *t >= first));
    }
    upsets.sort_unstable();
    upsets
}

/// A retry takes `longest` without a fault.
fn due(evidence: &Evidence<'_>, upsets: &[u64], answered: u64, longest: u64) -> u64 {
    let takeover = evidence.scenario.sender.takeover_within.0;
    let mut by = answered.saturating_add(longest);
    let from = upsets.partition_point(|t| t.saturating_add(takeover) < answered);
    for t in &upsets[from..] {
        if *t > by {
            break;
        }
        by = by.max(t.saturating_add(takeover).saturating_add(longest));
    }
    by
}
