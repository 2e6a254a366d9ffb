//! - After a whole 2xx answer in time, the delivery does not come again, unless its process was killed before it could
//!   record the success, or the delivery was redriven or offered again. An answer in the last quarter of a second
//!   before the deadline may have missed it.
//! - A request for another path than the endpoint's own followed a redirect.
//! - After a status that the driver declares final, a delivery does not come again; the same exceptions hold.
//! - Of each other failing status that was answered while attempts were left, at least one was retried, given time.

use std::collections::BTreeMap;

use super::RequestedPause;
use super::after::contract_wait;
use super::backoff_bounds::OWN_FAILURES;
use crate::check::duplicate::again;
use crate::check::evidence::{Evidence, Lane};
use crate::check::verdict::{Finding, Tally};
use crate::check::{Check, Stall};
use crate::entry::Severity;
use crate::scenario::SECOND;
use crate::trace::Lack;

/// A retry that is this much later than its latest time never comes.
const PATIENCE: u64 = 10 * SECOND;

pub(in crate::check) const CHECK: Check = Check {
    id: "retry.status",
    severity: Severity::Must,
    source: "Standard Webhooks 1.0",
    requirement: "every 2xx is a success; redirects are not followed; every other status is retried, unless \
        the driver declares it final",
    why: "a followed redirect carries a signed body to a stranger; a retried success is a duplicate",
    remedy: "treat 200 to 299 as success, and switch off redirects in the client",
    stall: Stall::Delays,
    find: judge,
    ..Check::PLAIN
};

pub(in crate::check) fn judge(evidence: &Evidence<'_>) -> Finding {
    let mut tally = Tally::default();
    final_success(evidence, &mut tally);
    let successes = tally.seen;
    for (at, lane) in (0..).zip(&evidence.lanes) {
        redirects(evidence, at, lane, &mut tally);
    }
    let statuses = failures(evidence, &mut tally);
    final_failures(evidence, &mut tally);
    let finding = tally.finding("answers", "each had the right consequence", "with a wrong consequence");
    finding.unless_shown(unshown(evidence, successes, &statuses))
}

/// Why a standard counts it as not exercised.
fn unshown(evidence: &Evidence<'_>, successes: u64, statuses: &BTreeMap<u16, bool>) -> Option<String> {
    match statuses.iter().find(|(_, is_retried)| !**is_retried) {
        Some((status, _)) if evidence.trace.declared.final_statuses.contains(status) => {
            Some(format!("passes only by declares.final, which has {status}"))
        }
        Some((status, _)) => Some(format!("{status} was answered, and no retry after it was seen")),
        None if statuses.is_empty() => Some("no endpoint answered with a failure".to_owned()),
        None => (successes == 0).then(|| "no endpoint answered 2xx".to_owned()),
    }
}

fn final_success(evidence: &Evidence<'_>, tally: &mut Tally) {
    for delivery in &evidence.deliveries {
        if !evidence.is_delivered(delivery) {
            continue;
        }
        tally.see();
        if evidence.event(delivery).is_none_or(|event| event.offers != 1) {
            continue;
        }
        for (taken, next) in again(evidence, delivery) {
            let (done, again) = (evidence.exchange(taken), evidence.exchange(next));
            let in_time = evidence.is_in_time(taken, done.end);
            // A concurrent attempt had left before the success was known.
            let later = again.t > done.end;
            let excused = evidence.may_be_forgotten(taken) || evidence.is_redriven(delivery, again.t);
            if in_time && later && !excused {
                let status = done.status().unwrap_or_default();
                let what = format!("answered {status}, but sent again");
                tally.broke(|| evidence.witness(delivery.lane, &[taken, next], what));
            }
        }
    }
}

fn final_failures(evidence: &Evidence<'_>, tally: &mut Tally) {
    let finals = &evidence.trace.declared.final_statuses;
    for (delivery, _, before, after) in evidence.retries() {
        let (done, again) = (evidence.exchange(before), evidence.exchange(after));
        let Some(status) = done.status().filter(|status| finals.contains(status)) else { continue };
        tally.see();
        let excused = evidence.event(delivery).is_none_or(|event| event.offers != 1)
            || again.t <= done.end
            || !evidence.is_in_time(before, done.end)
            || evidence.may_be_forgotten(before)
            || evidence.is_redriven(delivery, again.t);
        if !excused {
            let what = format!("{status} is declared final, and was tried again");
            tally.broke(|| evidence.witness(delivery.lane, &[before, after], what));
        }
    }
}

fn redirects(evidence: &Evidence<'_>, at: u32, lane: &Lane<'_>, tally: &mut Tally) {
    let path = |n: &u32| evidence.trace.arrivals[*n as usize].head.path.as_str();
    let Some(own) = lane.arrivals.first().map(path) else { return };
    let redirected = lane.arrivals.iter().any(|n| matches!(evidence.exchange(*n).status(), Some(300..=399)));
    if !redirected {
        return;
    }
    tally.see();
    if let Some(n) = lane.arrivals.iter().find(|n| path(n) != own) {
        let what = format!("a redirect to {} was followed", path(n));
        tally.broke(|| evidence.witness(at, &[*n], what));
    }
}

/// An undeclared breaker may have opened with the lane's last arrival.
fn flows_until(evidence: &Evidence<'_>, lane: &Lane<'_>) -> u64 {
    let last = lane.arrivals.iter().rev().map(|n| evidence.exchange(*n));
    let row = last.clone().take_while(|one| !one.is_delivered()).count();
    let until = evidence.at_work_until();
    let closed = row < OWN_FAILURES as usize || evidence.trace.declared.lacks(Lack::Breaker);
    if closed { until } else { last.map(|one| one.t).next().unwrap_or(until).min(until) }
}

fn pauses(evidence: &Evidence<'_>, lane: &Lane<'_>) -> Vec<(u64, u64)> {
    let cap = lane.subscriber.retry.retry_after_cap.0;
    let mut longest = 0;
    let pause = |n: &u32| {
        let exchange = evidence.exchange(*n);
        let asked = evidence.retry_after(*n).map(RequestedPause::read);
        let until = asked.and_then(|asked| asked.until(evidence, exchange, cap));
        longest = longest.max(until.unwrap_or(0));
        (exchange.t, longest)
    };
    lane.arrivals.iter().map(pause).collect()
}

/// Whether the sender retried one by itself, by answered status.
fn failures(evidence: &Evidence<'_>, tally: &mut Tally) -> BTreeMap<u16, bool> {
    let mut answered: BTreeMap<u16, bool> = BTreeMap::new();
    // By lane and status: the number of retries, and an attempt without a retry despite enough time.
    let mut statuses: BTreeMap<(u32, u16), (u64, Option<u32>)> = BTreeMap::new();
    let rests = evidence.lanes.iter().map(|lane| {
        (pauses(evidence, lane), PATIENCE.saturating_add(contract_wait(lane)), flows_until(evidence, lane))
    });
    let rests: Vec<_> = rests.collect();
    for delivery in &evidence.deliveries {
        let attempts = evidence.attempts(delivery);
        let retry = &evidence.subscriber(delivery).retry;
        let (pauses, patience, until) = &rests[delivery.lane as usize];
        for (number, n) in (1..).zip(attempts) {
            let exchange = evidence.exchange(*n);
            let finals = &evidence.trace.declared.final_statuses;
            let fails = |status: &u16| !matches!(status, 200..=299 | 410);
            let Some(status) = exchange.status().filter(fails) else { continue };
            let next = attempts.get(number as usize).map(|n| evidence.exchange(*n).t);
            let by_itself = |t: u64| {
                t > exchange.end
                    && !evidence.is_redriven(delivery, t)
                    && evidence.event(delivery).is_some_and(|event| event.offers == 1)
            };
            *answered.entry(status).or_default() |= next.is_some_and(by_itself);
            if finals.contains(&status) {
                continue;
            }
            let entry = statuses.entry((delivery.lane, status)).or_default();
            if next.is_some() {
                entry.0 += 1;
            }
            let due = exchange.end.saturating_add(retry.bounds(number).1);
            let asked = pauses[..pauses.partition_point(|(t, _)| *t < due)].last();
            let due = asked.map_or(due, |(_, end)| due.max(*end));
            let waited = evidence.late_after(exchange.end, due, *until);
            let idle = evidence.retry_after(*n).is_none() && evidence.subscriber(delivery).breaker.is_none();
            let left = number < retry.attempts && attempts.len() == number as usize;
            if left && idle && waited > *patience && retry.ttl.0 > evidence.end {
                entry.1 = entry.1.or(Some(*n));
            }
        }
    }
    for ((lane, status), (followed, given_up)) in statuses {
        let never = given_up.filter(|_| followed == 0);
        if followed > 0 || never.is_some() {
            tally.see();
        }
        if let Some(n) = never {
            let what = format!("answered {status}, but never retried");
            tally.broke(|| evidence.witness(lane, &[n], what));
        }
    }
    answered
}
