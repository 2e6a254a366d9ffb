//! The lower bound is exact: after the nth failure, nothing arrives sooner than the answer's first byte (or the moment
//! at which the endpoint cut the exchange) plus the least delay. The nth failure at the endpoint is at most the nth
//! failure that the sender counts, and bounds never fall as n grows, so attempts that the endpoint couldn't see change
//! nothing. If the sender ended the exchange, or may have, the gap counts from its arrival, the only known moment. If a
//! stalled endpoint read it late, the gap counts from its earliest sending. If the least delay is 0 (full jitter), the
//! pooled gaps are judged: together they must not be shorter than their distribution allows (`backoff_jitter`).
//!
//! The upper bound is judged where the endpoint stood idle. It counts from the latest of the longest delay's end and
//! the last end of any exchange there (plus the quarantine if the sender ended it). From then, at most
//! `retry_after_late`, the contract's wait and the delay of a throttle ([`GIVING_WAY`] gaps of the rate) may pass.
//! Pauses, breakers and faults are excluded: the endpoint must have failed less often in a row than opens its breaker,
//! or, without a declared breaker, than [`OWN_FAILURES`] times. Unless the breaker practically never opens,
//! [`OWN_LATE`] is added.

use super::after::contract_wait;
use super::backoff_jitter::{are_too_short, longest_draws};
use crate::check::evidence::{Evidence, Exchange, Lane};
use crate::check::verdict::{Finding, Tally, Witness, show, show_beside};
use crate::check::{Check, Stall};
use crate::entry::Severity;
use crate::scenario::{Answer, SECOND};

/// Fewer gaps are never too short together.
const POOLED_MIN: usize = 8;
/// A sender may throttle itself to this fraction of the contract after failures.
const GIVING_WAY: u64 = 64;
/// Assumed least threshold of an undeclared breaker.
pub(in crate::check) const OWN_FAILURES: u32 = 5;
/// Additional lateness at an endpoint that may have an undeclared breaker.
const OWN_LATE: u64 = 2 * SECOND;

pub(in crate::check) const CHECK: Check = Check {
    id: "retry.backoff-bounds",
    severity: Severity::Must,
    source: "the declared policy",
    requirement: "every retry delay is within the bounds of the declared backoff",
    why: "subscribers plan maintenance by the declared schedule",
    remedy: "compute the delay from the attempt's number, clamp it, then add the declared jitter and nothing else",
    stall: Stall::Delays,
    find: judge,
    ..Check::PLAIN
};

pub(in crate::check) fn judge(evidence: &Evidence<'_>) -> Finding {
    let mut behaviours = evidence.scenario.subscribers.iter().flat_map(|subscriber| &subscriber.behaviours);
    if !behaviours.any(|behaviour| leaves_to_backoff(&behaviour.answer)) {
        return Finding::unasked("no endpoint fails without Retry-After");
    }
    let mut tally = Tally::default();
    let (mut unbounded, mut least_judged) = (0_u64, 0_u64);
    let ends = lane_ends(evidence);
    let failures = failures_in_a_row(evidence);
    for (delivery, number, before, after) in evidence.retries() {
        let (failed, next) = (evidence.exchange(before), evidence.exchange(after));
        let told = evidence.requested_pause(before).is_some();
        let repeated = evidence.event(delivery).is_none_or(|event| event.offers > 1)
            || evidence.is_redriven(delivery, next.t);
        if failed.is_delivered() || told || repeated || evidence.may_be_forgotten(before) {
            continue;
        }
        tally.see();
        let (least, most) = evidence.subscriber(delivery).retry.bounds(number);
        let heard = !failed.ended_by_peer() && evidence.is_in_time(before, failed.begun);
        let from = if heard { failed.begun } else { evidence.sent_from(before) };
        if next.t < from.saturating_add(least) {
            let what = format!(
                "retried {} after failure {number}; the shortest delay is {}",
                show_beside(next.t.saturating_sub(from), least),
                show(least)
            );
            tally.broke(|| evidence.witness(delivery.lane, &[before, after], what));
            continue;
        }
        least_judged += u64::from(least > 0);
        let lane = &evidence.lanes[delivery.lane as usize];
        let closed = failures[after as usize] < threshold(lane);
        if !closed
            || evidence.is_lane_disturbed(lane, failed.t, next.t)
            || lane.subscriber.hides_attempts()
            || !leaves_all_to_backoff(lane)
        {
            unbounded += 1;
            continue;
        }
        let idle = idle_since(&ends[delivery.lane as usize], next, lane.subscriber.limit.quarantine.0);
        let due = failed.end.saturating_add(most).max(idle);
        let own = if threshold(lane) > 500 { 0 } else { OWN_LATE };
        let slack = evidence.scenario.expect.retry_after_late.0
            + own
            + contract_wait(lane).saturating_mul(GIVING_WAY);
        if evidence.late_after(failed.end, due, next.t) > slack {
            let what = format!("retried {} after it was due, at an idle endpoint", show(next.t - due));
            tally.broke(|| evidence.witness(delivery.lane, &[before, after], what));
        }
    }
    let draws = longest_draws(evidence);
    let pooled = draws.len();
    if are_too_short(draws) {
        let what = format!(
            "{pooled} retry delays are too short on average for the declared backoff \
            (default full-jitter from 1s; set `retry` in the scenario)"
        );
        let (from, until) = (0, evidence.end);
        tally.broke(|| Witness { subscriber: None, from, until, what, arrivals: Vec::new() });
    }
    let nothing = least_judged == 0 && pooled < POOLED_MIN && unbounded == tally.seen;
    let good = if nothing { "too few to judge their bounds" } else { "within their bounds" };
    tally
        .finding("retries by backoff", good, "outside their bounds")
        .with("not judged for lateness", unbounded)
        .with("delays judged together", pooled)
}

fn threshold(lane: &Lane<'_>) -> u32 {
    let opens = lane.subscriber.breaker.as_ref().map(|breaker| breaker.failures);
    // Fewer failures open a breaker if the endpoint is slow.
    opens.map_or(OWN_FAILURES, |failures| failures.div_ceil(2).min(failures.saturating_sub(1)))
}

/// By arrival.
fn failures_in_a_row(evidence: &Evidence<'_>) -> Vec<u32> {
    let mut failures = vec![0; evidence.exchanges.len()];
    for lane in &evidence.lanes {
        let (mut row, mut most) = (0_u32, 0);
        for n in &lane.arrivals {
            failures[*n as usize] = most;
            row = if evidence.exchange(*n).is_delivered() { 0 } else { row + 1 };
            most = most.max(row);
        }
    }
    failures
}

/// The endpoint requests no pauses.
fn leaves_all_to_backoff(lane: &Lane<'_>) -> bool {
    let leaves = |answer: &Answer| match answer {
        Answer::Status(reply) => {
            let status = matches!(reply.status, 200..=299 | 500..=502 | 504..=599);
            status && reply.retry_after.is_none()
        }
        answer => leaves_to_backoff(answer),
    };
    lane.subscriber.behaviours.iter().all(|behaviour| leaves(&behaviour.answer))
}

/// The endpoint sees the failure and the next attempt, and requests no pause between them.
fn leaves_to_backoff(answer: &Answer) -> bool {
    use crate::scenario::RetryAfter;
    match answer {
        Answer::Status(reply) => {
            let asks = matches!(reply.retry_after, Some(RetryAfter::Seconds(1..) | RetryAfter::Date(_)));
            let told = asks && matches!(reply.status, 429 | 503);
            !told && !matches!(reply.status, 200..=299 | 410)
        }
        Answer::ResetAfterRead | Answer::Close | Answer::HalfAnswer => true,
        _ => false,
    }
}

/// By lane and arrival time: the latest end so far, and the latest that the sender made.
fn lane_ends(evidence: &Evidence<'_>) -> Vec<Vec<(u64, u64, u64)>> {
    let of = |lane: &Lane<'_>| {
        let (mut end, mut silent) = (0, 0);
        let running = lane.arrivals.iter().map(|n| {
            let exchange = evidence.exchange(*n);
            let before = (exchange.t, end, silent);
            end = end.max(exchange.end);
            if exchange.ended_by_peer() {
                silent = silent.max(exchange.end);
            }
            before
        });
        running.collect()
    };
    evidence.lanes.iter().map(of).collect()
}

fn idle_since(ends: &[(u64, u64, u64)], next: &Exchange, quarantine: u64) -> u64 {
    let at = ends.partition_point(|(t, ..)| *t < next.t);
    ends.get(at).map_or(0, |(_, end, silent)| (*end).max(silent.saturating_add(quarantine)))
}
