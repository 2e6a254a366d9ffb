//! `rate.envelope`: in every window of every length w, at most `burst + rate·w` arrivals. [`super::Level`]
//! proves that one pass sees all windows. No tolerance: a request counts from its first byte at the endpoint,
//! even if the rest of it never arrived.
//!
//! Witness: the window with the highest level, which needs the largest burst.

use super::{fits, least_burst, peak};
use crate::check::epochs::Epoch;
use crate::check::evidence::{Evidence, Lane};
use crate::check::verdict::{Finding, Tally, show};
use crate::check::{Check, Picture, Stall};
use crate::entry::Severity;
use crate::scenario::Bucket;

/// The requests that began to arrive at a lane inside an epoch, with their times, including truncated and
/// malformed ones.
pub(in crate::check) fn arrivals(
    evidence: &Evidence<'_>,
    lane: &Lane<'_>,
    epoch: &Epoch,
) -> (Vec<u32>, Vec<u64>) {
    let inside = |n: &u32| {
        let t = evidence.exchange(*n).t;
        epoch.from <= t && t <= epoch.until
    };
    let arrivals: Vec<u32> = lane.begun.iter().copied().filter(inside).collect();
    let times = arrivals.iter().map(|n| evidence.exchange(*n).t).collect();
    (arrivals, times)
}

/// Every lane and epoch with a bucket.
pub(in crate::check) fn limited<'e, 'a>(
    evidence: &'e Evidence<'a>,
) -> impl Iterator<Item = (u32, &'e Lane<'a>, &'e Epoch, Bucket)> {
    (0..).zip(&evidence.lanes).flat_map(|(at, lane)| {
        lane.epochs.iter().filter_map(move |epoch| epoch.limit.bucket.map(|bucket| (at, lane, epoch, bucket)))
    })
}

pub(in crate::check) const CHECK: Check = Check {
    id: "rate.envelope",
    severity: Severity::Must,
    source: "the contract",
    requirement: "in every window of every length the arrivals fit the token bucket: at most burst + rate × length",
    why: "the endpoint was sized for the agreed rate, and sees when requests arrive, not when the sender \
        meant to send them",
    remedy: "charge the limiter when an attempt ends, count attempts in flight, and keep one limiter per \
        subscriber",
    stall: Stall::Crowds,
    by_contract: true,
    stands_alone: true,
    picture: Picture::Level,
    find: judge,
    ..Check::PLAIN
};

pub(in crate::check) fn judge(evidence: &Evidence<'_>) -> Finding {
    let mut tally = Tally::default();
    let mut figures = Vec::new();
    for (at, lane, epoch, bucket) in limited(evidence) {
        let (arrivals, times) = arrivals(evidence, lane, epoch);
        let Some(peak) = peak(&times, bucket.rate) else { continue };
        tally.see();
        let (needed, allowed) = (least_burst(peak.level, bucket.rate), u128::from(bucket.burst));
        figures.push((needed > allowed, format!("{} burst needed", lane.subscriber.name), needed, allowed));
        if !fits(peak.level, bucket) {
            let (from, to) = (times[peak.from], times[peak.to]);
            let count = peak.to - peak.from + 1;
            let what = format!(
                "{count} arrivals in {}; {} with burst {allowed} allows {}; they need a burst of {needed}",
                show(to - from),
                bucket.rate,
                allowed
                    + u128::from(bucket.rate.count) * u128::from(to - from) / u128::from(bucket.rate.per.0),
            );
            tally.broke(|| evidence.witness(at, &arrivals[peak.from..=peak.to], what));
        }
    }
    if limited(evidence).next().is_none() {
        return Finding::unasked("no subscriber has a rate limit");
    }
    let finding =
        tally.finding("rate limits", "each held in every window of every length", "exceeded in some window");
    figures.sort_by_key(|(broken, ..)| !broken);
    let shown = figures.into_iter().take(12);
    shown.fold(finding, |finding, (_, name, needed, allowed)| {
        finding.with(name, format!("{needed} of {allowed}"))
    })
}
