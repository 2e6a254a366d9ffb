//! `retry.hidden`: an HTTP client may repeat a request by itself when a connection ends before the answer.
//!
//! The signs, after the endpoint cut an exchange, also by a reset before it read the request:
//!
//! - the next request of the delivery carries the *same* attempt number in a header; one is enough;
//! - it follows within [`AT_ONCE`], though the shortest backoff is longer; one is enough;
//! - it follows within [`AT_ONCE`], though a backoff was due. With full jitter that happens by chance with a
//!   probability of at most `AT_ONCE ÷ base`. So it takes more than a quarter of the cuts, and three of them, to fail.

use crate::check::evidence::{Delivery, Evidence, Outcome};
use crate::check::verdict::{Finding, Tally, show};
use crate::check::{Check, Stall};
use crate::entry::Severity;
use crate::scenario::{Answer, Behaviour};
use crate::trace::CutKind;

const AT_ONCE: u64 = 5_000_000;

pub(in crate::check) const CHECK: Check = Check {
    id: "retry.hidden",
    severity: Severity::Must,
    source: "derived: no limiter counts a repeat by the HTTP client",
    requirement: "every request is an attempt; the HTTP client repeats none by itself",
    why: "a repeat by the HTTP client is a duplicate that no log shows and no limit counts",
    remedy: "switch off the client's automatic retries, also on a stale keep-alive connection",
    stall: Stall::Delays,
    find: judge,
    ..Check::PLAIN
};

pub(in crate::check) fn judge(evidence: &Evidence<'_>) -> Finding {
    // A reset before the request is read is no exchange, unless the endpoint must read the request to
    // identify it.
    let cuts = |behaviour: &Behaviour| match behaviour.answer {
        Answer::Reset => behaviour.attempts.is_some(),
        _ => matches!(behaviour.answer, Answer::ResetAfterRead | Answer::Close | Answer::HalfAnswer),
    };
    let mut behaviours = evidence.scenario.subscribers.iter().flat_map(|subscriber| &subscriber.behaviours);
    let unread = unread(evidence);
    if unread.is_empty() && !behaviours.any(cuts) {
        return Finding::unasked("no endpoint cuts a connection");
    }
    let mut tally = Tally::default();
    let mut quick: Vec<(u32, u32, u32)> = Vec::new();
    for (delivery, number, before, after) in evidence.retries().chain(unread) {
        let (cut, next) = (evidence.exchange(before), evidence.exchange(after));
        let by_endpoint = matches!(
            cut.outcome,
            Outcome::Cut(CutKind::ResetAfterRead | CutKind::Close | CutKind::HalfAnswer | CutKind::Reset)
        );
        // A redriven delivery begins anew, with new attempt numbers.
        if !by_endpoint || evidence.may_be_forgotten(before) || evidence.is_redriven(delivery, next.t) {
            continue;
        }
        // A request that left before the cut repeats nothing: a stalled endpoint may have read both at once.
        if evidence.sent_from(after) < cut.begun {
            continue;
        }
        tally.see();
        let number_of =
            |n: u32| evidence.trace.arrivals.get(n as usize).and_then(|one| one.attempt.as_deref());
        let (first, second) = (number_of(before), number_of(after));
        let (shortest, longest) = evidence.subscriber(delivery).retry.bounds(number);
        let at_once = next.t.saturating_sub(cut.begun) < AT_ONCE;
        if first.is_some() && first == second {
            let what = format!("attempt {} arrived twice", first.unwrap_or_default());
            tally.broke(|| evidence.witness(delivery.lane, &[before, after], what));
        } else if at_once && shortest > 4 * AT_ONCE {
            let what = format!("repeated at once after the cut; the shortest backoff is {}", show(shortest));
            tally.broke(|| evidence.witness(delivery.lane, &[before, after], what));
        } else if at_once && longest > 4 * AT_ONCE {
            quick.push((delivery.lane, before, after));
        }
    }
    if quick.len() >= 3 && quick.len() as u64 * 4 > tally.seen {
        for (lane, before, after) in quick {
            let gap = evidence.exchange(after).t.saturating_sub(evidence.exchange(before).begun);
            tally.broke(|| {
                evidence.witness(lane, &[before, after], format!("repeated {} after the cut", show(gap)))
            });
        }
    }
    tally.finding("retries after a cut connection", "each is its own attempt", "repeated by the HTTP client")
}

/// Requests that were reset before reading, with a known token: the delivery, its least number of attempts so far, that
/// request, and the next one.
fn unread<'e>(evidence: &'e Evidence<'_>) -> Vec<(&'e Delivery, u32, u32, u32)> {
    let unread = (0_u32..).zip(&evidence.exchanges).skip(evidence.trace.arrivals.len()).zip(&evidence.unread);
    let resets = unread.filter(|(_, cut)| cut.how == CutKind::Reset);
    let mut places: Vec<(u32, u64, u64, u32)> =
        resets.filter_map(|((n, one), cut)| Some((one.lane?, cut.token?, one.t, n))).collect();
    places.sort_unstable();
    let pair = |(at, (lane, token, t, n)): (usize, &(u32, u64, u64, u32))| {
        let deliveries = evidence.deliveries_of(*lane);
        let delivery = deliveries.binary_search_by_key(token, |delivery| delivery.token).ok()?;
        let attempts = evidence.attempts(&deliveries[delivery]);
        let place = attempts.partition_point(|n| evidence.exchange(*n).t < *t);
        let read = attempts.get(place).map(|n| (evidence.exchange(*n).t, *n));
        let reset = places
            .get(at + 1)
            .filter(|next| (next.0, next.1) == (*lane, *token))
            .map(|next| (next.2, next.3));
        let (_, after) = [read, reset].into_iter().flatten().min()?;
        Some((&deliveries[delivery], u32::try_from(place).unwrap_or(u32::MAX).max(1), *n, after))
    };
    places.iter().enumerate().filter_map(pair).collect()
}
