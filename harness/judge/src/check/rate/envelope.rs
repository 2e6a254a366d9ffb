//! `rate.envelope`: [`super::Level`] proves that one pass sees all windows. No tolerance: a request counts from its
//! first byte at the endpoint, even if the rest of it never arrived.
//!
//! An excess of less than one request is *marginal*: a limiter that charges when it sends has it as soon as one request
//! takes longer on its way than the next. It breaks the contract all the same.

use super::{Stretch, peak_of};
use crate::check::evidence::{Evidence, Lane};
use crate::check::verdict::{Finding, Tally, show};
use crate::check::{Check, Picture, Stall};
use crate::entry::Severity;

/// Truncated and malformed requests count.
pub(in crate::check) fn arrivals(
    evidence: &Evidence<'_>,
    lane: &Lane<'_>,
    (from, until): (u64, u64),
) -> (Vec<u32>, Vec<u64>) {
    let inside = |n: &u32| {
        let t = evidence.exchange(*n).t;
        from <= t && t <= until
    };
    let arrivals: Vec<u32> = lane.begun.iter().copied().filter(inside).collect();
    let times = arrivals.iter().map(|n| evidence.exchange(*n).t).collect();
    (arrivals, times)
}

pub(in crate::check) fn limited<'e, 'a>(
    evidence: &'e Evidence<'a>,
) -> impl Iterator<Item = (u32, &'e Lane<'a>, Stretch)> {
    (0..)
        .zip(&evidence.lanes)
        .flat_map(|(at, lane)| Stretch::all(&lane.epochs).into_iter().map(move |stretch| (at, lane, stretch)))
}

/// None if some rate had to hold deliveries back.
pub(in crate::check) fn never_scarce(evidence: &Evidence<'_>) -> Option<String> {
    let is_scarce = |(at, _, stretch): (u32, _, Stretch)| {
        let accepted = evidence.deliveries_of(at).iter().filter(|one| one.owed);
        let accepted = accepted.filter_map(|one| evidence.accepted(one));
        let mut times: Vec<u64> = accepted.filter(|t| (stretch.from..=stretch.until).contains(t)).collect();
        times.sort_unstable();
        peak_of(&times, &stretch.drain).is_some_and(|peak| !stretch.fits(peak.level))
    };
    let none = || "no endpoint was owed more than its rate limit lets through at once".to_owned();
    (!limited(evidence).any(is_scarce)).then(none)
}

const MARGINAL: &str = "requests that take unequal times on their way do this to a limiter that charges when it sends; charge \
    when an attempt ends, or agree on limit.burst_slack";

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
    let mut marginal: Vec<String> = Vec::new();
    for (at, lane, stretch) in limited(evidence) {
        let (arrivals, times) = arrivals(evidence, lane, (stretch.from, stretch.until));
        let Some(peak) = peak_of(&times, &stretch.drain) else { continue };
        tally.see();
        let (needed, allowed) = (stretch.needs(peak.level), u128::from(stretch.burst));
        figures.push((needed > allowed, format!("{} burst needed", lane.subscriber.name), needed, allowed));
        if !stretch.fits(peak.level) {
            let (from, to) = (times[peak.from], times[peak.to]);
            let count = peak.to - peak.from + 1;
            let over = stretch.over(peak.level);
            let is_marginal = stretch.is_marginal(peak.level);
            let what = format!(
                "{count} arrivals in {}; {} with burst {allowed} allows {}; they need a burst of {needed}{}",
                show(to - from),
                stretch.rate(),
                stretch.allows(from, to),
                if is_marginal { format!(": {over} (marginal)") } else { String::new() },
            );
            marginal.extend(is_marginal.then_some(over));
            tally.broke(|| evidence.witness(at, &arrivals[peak.from..=peak.to], what));
        }
    }
    if limited(evidence).next().is_none() {
        return Finding::unasked("no subscriber has a rate limit");
    }
    let mut bad = "exceeded in some window".to_owned();
    if marginal.len() as u64 == tally.broken
        && let Some(over) = marginal.first()
    {
        bad = format!("marginal, {over}: {MARGINAL}");
    }
    let finding = tally.finding("rate limits", "each held in every window of every length", &bad);
    let finding = finding.unless_shown(never_scarce(evidence));
    figures.sort_by_key(|(broken, ..)| !broken);
    let shown = figures.into_iter().take(12);
    shown.fold(finding, |finding, (_, name, needed, allowed)| {
        finding.with(name, format!("{needed} of {allowed}"))
    })
}
