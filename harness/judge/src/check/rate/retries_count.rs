//! `rate.retries-count`: retries, redrives and probes cost as much as first attempts.
//!
//! If all arrivals together need more than the burst, but the first attempts alone do not, the sender did not
//! charge the others. Witness: the fullest window of all arrivals.

use super::envelope::{arrivals, limited};
use super::{fits, least_burst, peak};
use crate::check::evidence::Evidence;
use crate::check::retry::expects_retries;
use crate::check::verdict::{Finding, Tally};
use crate::check::{Check, Picture, Stall};
use crate::entry::Severity;

pub(in crate::check) const CHECK: Check = Check {
    id: "rate.retries-count",
    severity: Severity::Must,
    source: "derived: an endpoint cannot distinguish a retry from a first attempt",
    requirement: "retries, redrives and probes count toward the limit like first attempts",
    why: "during an outage most requests become retries; uncounted, they flood the endpoint as it recovers",
    remedy: "put the limiter in front of the only place that sends requests",
    stall: Stall::Crowds,
    stands_alone: true,
    picture: Picture::Level,
    find: judge,
    ..Check::PLAIN
};

pub(in crate::check) fn judge(evidence: &Evidence<'_>) -> Finding {
    if !limited(evidence).any(|(at, ..)| expects_retries(evidence, at)) {
        return Finding::unasked("no subscriber with a rate limit has deliveries to retry");
    }
    let mut is_first = vec![true; evidence.exchanges.len()];
    for delivery in &evidence.deliveries {
        for n in evidence.attempts(delivery).iter().skip(1) {
            is_first[*n as usize] = false;
        }
    }
    let mut tally = Tally::default();
    let mut retries = 0;
    for (at, lane, epoch, bucket) in limited(evidence) {
        let (arrivals, times) = arrivals(evidence, lane, epoch);
        let first = |(n, t): (&u32, &u64)| is_first[*n as usize].then_some(*t);
        let firsts: Vec<u64> = arrivals.iter().zip(&times).filter_map(first).collect();
        let Some(all) = peak(&times, bucket.rate).filter(|_| firsts.len() < times.len()) else { continue };
        tally.see();
        retries += times.len() - firsts.len();
        let alone = peak(&firsts, bucket.rate).map_or(0, |peak| peak.level);
        if !fits(all.level, bucket) && fits(alone, bucket) {
            let needed = least_burst(all.level, bucket.rate);
            let what = format!(
                "first attempts alone keep the limit; with retries the arrivals need a \
                burst of {needed}"
            );
            tally.broke(|| evidence.witness(at, &arrivals[all.from..=all.to], what));
        }
    }
    tally
        .finding(
            "limits with retries",
            "each held with its retries counted",
            "over the limit once retries are \
            counted",
        )
        .with("retries", retries)
}
