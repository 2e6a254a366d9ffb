//! Each gap becomes `u = (gap − least) ÷ (most − least)`, which is uniform on [0, 1] if the sender draws as declared.
//! Kolmogorov's distance between n of them and the uniform distribution exceeds ε with a probability of at most
//! 2·exp(−2nε²) (Dvoretzky, Kiefer, Wolfowitz; the constant is Massart's). With α = 10⁻⁶, a correct sender fails once
//! in a million runs. With fewer than [`SAMPLES_MIN`] gaps the check never passes, and does not judge gaps that are too
//! long.
//!
//! A gap is the draw and a little more (the network, a busy machine, the contract), never less. So the test for gaps
//! that are too long takes `retry_after_late` off each, and pools only gaps that nothing else could move. For as long
//! as the longest draw lasts, the bucket was at most half full, no delivery waited for its first attempt for more than
//! `retry_after_late`, and nothing befell the sender. None of that may depend on the gap's own length, or the long gaps
//! of a crowd that thins out would be missing. Attempts that the sender ended by itself count on neither side.
//! Distances are compared in integers: n·D² > ln(2 ÷ α) ÷ 2.

use crate::check::evidence::{Delivery, Evidence, Lane};
use crate::check::rate::Level;
use crate::check::rate::utilisation::{busy, waits};
use crate::check::verdict::Finding;
use crate::check::{Check, Stall};
use crate::entry::Severity;
use crate::scenario::Backoff;

/// Least number of gaps; ε is 0.19 there.
const SAMPLES_MIN: usize = 200;
/// One, in the fixed-point numbers of this check.
const ONE: u128 = 1 << 32;
/// ln(2 ÷ 10⁻⁶) ÷ 2, times `ONE`².
const BOUND: u128 = 133_818_748_077_800_931_328;

/// A one-sided Kolmogorov distance, in fixed point. The bound holds for any number of draws; eight draws close to 0
/// exceed it.
pub(super) fn are_too_short(mut draws: Vec<u128>) -> bool {
    draws.sort_unstable();
    let n = draws.len() as u128;
    let above = (1..).zip(&draws).map(|(i, u): (u128, &u128)| (i * ONE / n).saturating_sub(*u)).max();
    n * above.unwrap_or(0).pow(2) > BOUND
}

/// Each draw without its possible delay.
fn are_too_long(mut draws: Vec<u128>) -> bool {
    draws.sort_unstable();
    let n = draws.len() as u128;
    let below = (0..).zip(&draws).map(|(i, u): (u128, &u128)| u.saturating_sub(i * ONE / n)).max();
    n * below.unwrap_or(0).pow(2) > BOUND
}

/// None if there are too few of either kind.
fn fits(short: Vec<u128>, long: Vec<u128>) -> Option<bool> {
    let (enough, judged) = (long.len() >= SAMPLES_MIN, !short.is_empty());
    let broken = are_too_short(short) || (enough && are_too_long(long));
    (broken || (enough && judged)).then_some(!broken)
}

fn jitters(lane: &Lane<'_>) -> bool {
    lane.subscriber.retry.backoff != Backoff::Fixed && !lane.subscriber.behaviours.is_empty()
}

/// None if the policy has no jitter.
fn unit(gap: u64, (least, most): (u64, u64)) -> Option<u128> {
    let width = u128::from(most - least);
    (width > 0).then(|| (u128::from(gap.saturating_sub(least)) * ONE / width).min(ONE))
}

/// The longest possible draw after each failure that left the time to the backoff. A failure without a successor before
/// the run's end, a fault or its expiry counts as the longest draw: without it, long gaps would be missing.
pub(super) fn longest_draws(evidence: &Evidence<'_>) -> Vec<u128> {
    let mut draws = Vec::new();
    for delivery in &evidence.deliveries {
        let lane = &evidence.lanes[delivery.lane as usize];
        let (attempts, retry) = (evidence.attempts(delivery), &lane.subscriber.retry);
        // A redrive ends the current wait, so long gaps would be missing again.
        let repeated = evidence.event(delivery).is_none_or(|event| event.offers > 1)
            || evidence.redrives(delivery).next().is_some();
        let Some(first) = attempts.first().filter(|_| jitters(lane) && !repeated) else { continue };
        let begun = evidence.exchange(*first).t;
        for (number, n) in (1..retry.attempts).zip(attempts) {
            let failed = evidence.exchange(*n);
            // An answer near the deadline may have missed it, and the wait may have begun before.
            let late = !evidence.is_in_time(*n, failed.begun);
            let noted = evidence.noted_by(failed.end);
            let lost = evidence.was_killed(begun, noted);
            if is_no_draw(evidence, delivery, *n) || late || lost {
                continue;
            }
            let next = attempts.get(number as usize).map(|n| evidence.exchange(*n).t);
            // Other faults only prolong a recorded wait.
            let may_shorten = |next: u64| {
                evidence.is_lane_disturbed(lane, failed.t, next.min(noted))
                    || evidence.was_killed(failed.t, next)
                    || evidence.is_clock_set(failed.t, next)
            };
            let next = next.filter(|next| !may_shorten(*next));
            let gap = next.map_or(u64::MAX, |next| next.saturating_sub(failed.begun));
            draws.extend(unit(gap, retry.bounds(number)));
        }
    }
    draws
}

/// The first event of a request stands for all its events, as they wait together.
fn is_no_draw(evidence: &Evidence<'_>, delivery: &Delivery, n: u32) -> bool {
    let is_first = evidence.trace.arrivals[n as usize].token == Some(delivery.token);
    if !is_first {
        return true;
    }
    let exchange = evidence.exchange(n);
    exchange.ended_by_peer() || exchange.is_delivered() || evidence.requested_pause(n).is_some()
}

pub(in crate::check) const CHECK: Check = Check {
    id: "retry.backoff-jitter",
    severity: Severity::Should,
    source: "existing senders",
    requirement: "the retry delays fit the declared jitter",
    why: "without jitter, deliveries that failed together return together",
    remedy: "draw new jitter for each delivery and attempt",
    stall: Stall::Delays,
    find: judge,
    ..Check::PLAIN
};

pub(in crate::check) fn judge(evidence: &Evidence<'_>) -> Finding {
    if !evidence.lanes.iter().any(jitters) {
        return Finding::unasked("no failing endpoint has retries with jitter");
    }
    let long = shortest_draws(evidence);
    let samples = long.len();
    let finding = match fits(longest_draws(evidence), long) {
        None => Finding::unseen(format!("retry delays to judge: {samples}; needed: {SAMPLES_MIN}")),
        Some(true) => Finding::held(format!("{samples} retry delays fit the declared jitter")),
        Some(false) => {
            Finding::broken(format!("{samples} retry delays do not fit the declared jitter"), Vec::new())
        }
    };
    finding.with("gaps", samples)
}

fn shortest_draws(evidence: &Evidence<'_>) -> Vec<u128> {
    let late = evidence.scenario.expect.retry_after_late.0;
    let crowds: Vec<Vec<(u64, u64)>> =
        (0..).zip(&evidence.lanes).map(|(at, lane)| crowds(evidence, at, lane)).collect();
    let mut draws = Vec::new();
    for (delivery, number, before, after) in evidence.retries() {
        let lane = &evidence.lanes[delivery.lane as usize];
        let (failed, next) = (evidence.exchange(before), evidence.exchange(after));
        let bounds = lane.subscriber.retry.bounds(number);
        let until = failed.end.saturating_add(bounds.1).saturating_add(late);
        let crowds = &crowds[delivery.lane as usize];
        let crowd = crowds.get(crowds.partition_point(|(_, end)| *end < failed.end));
        let crowded = crowd.is_some_and(|(begin, _)| *begin <= until);
        let disturbed =
            evidence.is_redriven(delivery, next.t) || evidence.is_lane_disturbed(lane, failed.t, until);
        if !jitters(lane)
            || is_no_draw(evidence, delivery, before)
            || crowded
            || disturbed
            || lane.subscriber.hides_attempts()
        {
            continue;
        }
        let gap = next.t.saturating_sub(failed.end);
        let machine = evidence.forgiven.held_from(failed.end) + evidence.forgiven.behind(next.t);
        draws.extend(unit(gap.saturating_sub(late).saturating_sub(machine), bounds));
    }
    draws
}

/// When the bucket was more than half full, or a delivery waited for its first attempt; in order.
fn crowds(evidence: &Evidence<'_>, at: u32, lane: &Lane<'_>) -> Vec<(u64, u64)> {
    let late = evidence.scenario.expect.retry_after_late.0;
    let mut crowds = waits(evidence, at);
    crowds.retain(|(from, until)| until - from > late);
    if let Some(bucket) = lane.subscriber.limit.bucket {
        let half = u128::from(bucket.burst) * u128::from(bucket.rate.per.0) / 2;
        let mut level = Level::new(bucket.rate);
        for n in &lane.arrivals {
            let t = evidence.exchange(*n).t;
            level.arrive(t);
            if level.level > half.max(u128::from(bucket.rate.per.0)) {
                crowds.push((t, t));
            }
        }
    }
    busy(crowds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(n: u128, draw: impl Fn(u128) -> u128) -> Vec<u128> {
        (0..n).map(draw).collect()
    }

    #[test]
    fn an_even_sample_fits_and_a_single_value_does_not() {
        let even = sample(400, |i| i * ONE / 400);
        assert_eq!(fits(even.clone(), even), Some(true));
        for fixed in [0, ONE / 2, ONE] {
            let same = sample(400, |_| fixed);
            assert_eq!(fits(same.clone(), same), Some(false), "{fixed}");
        }
    }

    #[test]
    fn equal_jitter_is_not_full_jitter() {
        let half = sample(400, |i| ONE / 2 + i * ONE / 800);
        assert_eq!(fits(half.clone(), half), Some(false));
    }

    #[test]
    fn few_gaps_say_nothing_unless_they_are_next_to_nothing() {
        let even = sample(100, |i| i * ONE / 100);
        assert_eq!(fits(even.clone(), even), None);
        assert_eq!(fits(vec![0; 7], vec![0; 7]), None);
        assert_eq!(fits(Vec::new(), sample(400, |i| i * ONE / 400)), None);
        assert_eq!(fits(vec![0; 8], vec![0; 8]), Some(false));
    }
}
