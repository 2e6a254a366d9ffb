//! `rate.retries-count` fires where retries, and not first attempts, go past the limiter: all arrivals together need at
//! least one request more than the burst, the first attempts alone conform, and either
//!
//! - the first attempts in the fullest window use the whole burst, so that each retry came on top of it, or
//! - the retries alone do not conform.
//!
//! Otherwise `rate.envelope` has the excess alone.

use super::envelope::{arrivals, limited};
use super::peak_of;
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
    for (at, lane, stretch) in limited(evidence) {
        let (arrivals, times) = arrivals(evidence, lane, (stretch.from, stretch.until));
        let first = |(n, t): (&u32, &u64)| is_first[*n as usize].then_some(*t);
        let firsts: Vec<u64> = arrivals.iter().zip(&times).filter_map(first).collect();
        let Some(all) = peak_of(&times, &stretch.drain).filter(|_| firsts.len() < times.len()) else {
            continue;
        };
        tally.see();
        retries += times.len() - firsts.len();
        let window = times[all.from]..=times[all.to];
        let (inside, again): (Vec<_>, Vec<_>) = arrivals
            .iter()
            .zip(&times)
            .filter(|(_, t)| window.contains(t))
            .partition(|(n, _)| is_first[**n as usize]);
        let level = |some: Vec<(&u32, &u64)>| {
            let times: Vec<u64> = some.into_iter().map(|(_, t)| *t).collect();
            peak_of(&times, &stretch.drain).map_or(0, |peak| peak.level)
        };
        let goes_past = |level: u128| !stretch.fits(level) && !stretch.is_marginal(level);
        let alone = peak_of(&firsts, &stretch.drain).map_or(0, |peak| peak.level);
        let used_up = level(inside) > u128::from(stretch.burst - 1) * stretch.drain.per;
        if goes_past(all.level) && stretch.fits(alone) && (used_up || goes_past(level(again))) {
            let needed = stretch.needs(all.level);
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
