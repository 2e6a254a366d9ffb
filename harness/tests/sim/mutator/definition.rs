//! A run's promises in their simplest form: it compares every pair of requests.

use std::collections::BTreeMap;

use hookproof_judge::scenario::{Scenario, Subscriber};
use hookproof_judge::trace::{Answer, Arrival, Offer, Trace, Verified};

const SECOND: u64 = 1_000_000_000;

#[derive(Clone, Copy)]
struct AnsweredAttempt<'t> {
    arrival: &'t Arrival,
    answer: &'t Answer,
}

impl AnsweredAttempt<'_> {
    fn is_taken(self) -> bool {
        (200..300).contains(&self.answer.status) && self.answer.whole
    }
}

/// Answers have the same order as arrivals.
pub(super) fn broken(scenario: &Scenario, trace: &Trace) -> Vec<&'static str> {
    let made: Vec<AnsweredAttempt<'_>> = trace
        .arrivals
        .iter()
        .zip(&trace.answers)
        .map(|(arrival, answer)| AnsweredAttempt { arrival, answer })
        .collect();
    let mut broken = Vec::new();
    for subscriber in &scenario.subscribers {
        let mut own: Vec<AnsweredAttempt<'_>> =
            made.iter().copied().filter(|made| made.arrival.endpoint.as_str() == subscriber.name).collect();
        own.sort_by_key(|made| made.arrival.t);
        broken.extend(contract(subscriber, &own));
        broken.extend(pauses(scenario.expect.retry_after_late.0, &own));
        broken.extend(requests(trace, subscriber, &own));
        broken.extend(deliveries(trace, subscriber, &own));
    }
    broken
}

fn contract(subscriber: &Subscriber, own: &[AnsweredAttempt<'_>]) -> Option<&'static str> {
    let limit = &subscriber.limit;
    let t = |at: usize| own[at].arrival.t;
    for first in 0..own.len() {
        for last in first..own.len() {
            let (count, length) = ((last - first + 1) as u64, t(last) - t(first));
            if let Some(bucket) = &limit.bucket {
                let over = count.saturating_sub(u64::from(bucket.burst));
                if u128::from(over) * u128::from(bucket.rate.per.0)
                    > u128::from(bucket.rate.count) * u128::from(length)
                {
                    return Some("the rate");
                }
            }
            if limit.windows.iter().any(|window| count > window.count && length < window.length.0) {
                return Some("a window");
            }
        }
        let open = own.iter().filter(|other| other.arrival.t <= t(first) && other.answer.end > t(first));
        if limit.in_flight.is_some_and(|most| open.count() as u64 > u64::from(most)) {
            return Some("the requests in flight");
        }
    }
    None
}

fn pauses(grace: u64, own: &[AnsweredAttempt<'_>]) -> Option<&'static str> {
    let told = own.iter().filter(|made| matches!(made.answer.status, 429 | 503));
    for told in told {
        let Some(seconds) = told.answer.retry_after.as_ref().and_then(|text| text.parse::<u64>().ok()) else {
            continue;
        };
        let pause = told.answer.end..told.answer.end + seconds * SECOND;
        let early = |made: &&AnsweredAttempt<'_>| made.arrival.t > pause.start && made.arrival.t < pause.end;
        // A pause does not recall another delivery's request in flight.
        let is_late = |made: &AnsweredAttempt<'_>| {
            made.arrival.token == told.arrival.token || made.arrival.t > pause.start + grace
        };
        if own.iter().filter(early).any(is_late) {
            return Some("a pause");
        }
    }
    None
}

fn is_owed(offer: &Offer, subscriber: &Subscriber) -> bool {
    offer.owed.iter().any(|name| name.as_str() == subscriber.name)
}

fn requests(trace: &Trace, subscriber: &Subscriber, own: &[AnsweredAttempt<'_>]) -> Option<&'static str> {
    let path = own.first().map(|made| made.arrival.head.path.as_str())?;
    for AnsweredAttempt { arrival, .. } in own.iter().copied() {
        let now = trace.header.began_unix_ns + arrival.t;
        let stamped = arrival.signed.timestamp.as_ref().and_then(|text| text.parse::<u64>().ok());
        let offered = arrival.token.and_then(|token| trace.offers.iter().find(|offer| offer.token == token));
        let is_right = arrival.head.method.as_str() == "POST"
            && arrival.head.content_type.as_deref() == Some("application/json")
            && (arrival.head.path.as_str() == path || arrival.head.path.ends_with(&subscriber.name))
            && matches!(&arrival.signed.verified, Verified::Keys(keys) if !keys.is_empty())
            && stamped.is_some_and(|stamped| stamped.abs_diff(now / SECOND) <= 5)
            && offered.is_some_and(|offer| offer.t <= arrival.t && is_owed(offer, subscriber));
        if !is_right {
            return Some("what a request is");
        }
    }
    None
}

fn deliveries(trace: &Trace, subscriber: &Subscriber, own: &[AnsweredAttempt<'_>]) -> Option<&'static str> {
    let mut attempts: BTreeMap<u64, Vec<AnsweredAttempt<'_>>> = BTreeMap::new();
    for made in own {
        attempts.entry(made.arrival.token?).or_default().push(*made);
    }
    for offer in trace.offers.iter().filter(|offer| is_owed(offer, subscriber)) {
        let accepted = trace.accepted.iter().any(|accepted| accepted.token == offer.token);
        let made = attempts.get(&offer.token).map_or(&[][..], Vec::as_slice);
        if accepted && !made.iter().any(|made| made.is_taken()) {
            return Some("that nothing is lost");
        }
        let taken = made.iter().position(|made| made.is_taken()).unwrap_or(made.len());
        if made.iter().skip(taken + 1).any(|again| again.arrival.t > made[taken].answer.end) {
            return Some("that what was taken does not come again");
        }
        if made.len() > subscriber.retry.attempts as usize {
            return Some("how often it is tried");
        }
        let first = made.first().map(|made| made.arrival);
        let same = |made: &AnsweredAttempt<'_>| {
            first.is_some_and(|first| {
                (&first.sha256, first.bytes, &first.id)
                    == (&made.arrival.sha256, made.arrival.bytes, &made.arrival.id)
            })
        };
        if !made.iter().all(same) {
            return Some("that every attempt is the same");
        }
        let others = attempts.iter().filter(|(token, _)| **token != offer.token);
        let ids = others.flat_map(|(_, made)| made.iter().map(|made| &made.arrival.id));
        if first.is_some_and(|first| first.id.is_none() || ids.clone().any(|id| *id == first.id)) {
            return Some("that each delivery has an id of its own");
        }
    }
    None
}
