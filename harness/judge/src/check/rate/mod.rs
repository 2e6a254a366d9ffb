//! The contract: rate and burst, window caps, requests in flight.

pub(super) mod after_idle;
pub(super) mod envelope;
pub(super) mod in_flight;
pub(super) mod live_change;
pub(super) mod restart;
pub(super) mod retries_count;
pub(super) mod utilisation;
pub(super) mod window;
pub(super) mod workers;

use super::epochs::Epoch;
use crate::scenario::{Bucket, Rate};

// The level of a token bucket as arrivals fill it, in exact integers.
//
// A rate of c per p lets one request through every p/c. Count in units of 1/p of a request: an arrival adds p, a
// nanosecond removes c. Let `L_j = max(L_{j−1} − c·(t_j − t_{j−1}), 0) + p`. Unrolled, `L_j` is the maximum over i ≤ j
// of `p·(j − i + 1) − c·(t_j − t_i)` (Cruz' envelope, computed by Lindley's recursion). A window holds the most against
// its length if it begins and ends with an arrival. So the arrivals conform to burst σ in *every* window if and only if
// `L_j ≤ σ·p` for every j.
//
// If a run changes the contract, a window conforms if it holds at most the largest burst of the contracts that it
// touches, and the integral of their rates. A `Stretch` is the longest span whose contracts have at most its burst; c
// changes inside. Every window lies in a stretch of the largest burst that it touches, so one pass over each judges
// all.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    pub level: u128,
    /// Indices into the times.
    pub from: usize,
    pub to: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Drain {
    /// The units of a request.
    pub(crate) per: u128,
    /// Units a nanosecond, from each moment on.
    rates: Vec<(u64, u128)>,
}

/// The units of a request are at most this many, so that no level overflows. Beyond it, rates are rounded up.
const UNITS_MAX: u128 = 1 << 80;

impl Drain {
    pub(crate) fn new(rates: &[(u64, Rate)]) -> Self {
        let multiple = |units: u128, (_, rate): &(u64, Rate)| {
            let per = u128::from(rate.per.0);
            (units / divisor(units, per)).saturating_mul(per)
        };
        let per = rates.iter().fold(1, |units, one| multiple(units.min(UNITS_MAX), one)).min(UNITS_MAX);
        let units = |rate: Rate| (u128::from(rate.count) * per).div_ceil(u128::from(rate.per.0));
        Self { per, rates: rates.iter().map(|(from, rate)| (*from, units(*rate))).collect() }
    }

    fn index(&self, t: u64) -> usize {
        self.rates.partition_point(|(begins, _)| *begins <= t).saturating_sub(1)
    }

    /// At least 1.
    pub(crate) fn units(&self, t: u64) -> u128 {
        self.rates.get(self.index(t)).map_or(1, |(_, units)| (*units).max(1))
    }

    pub(crate) fn between(&self, from: u64, until: u64) -> u128 {
        let first = self.index(from);
        let mut drained = 0;
        for (at, (begins, units)) in self.rates.iter().enumerate().skip(first) {
            let ends = self.rates.get(at + 1).map_or(until, |(next, _)| until.min(*next));
            drained += units * u128::from(ends.saturating_sub(from.max(*begins)));
            if ends == until {
                break;
            }
        }
        drained
    }
}

impl From<Rate> for Drain {
    fn from(rate: Rate) -> Self {
        Self::new(&[(0, rate)])
    }
}

fn divisor(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { divisor(b, a % b) }
}

#[derive(Clone, Debug)]
pub(crate) struct Level {
    drain: Drain,
    latest: u64,
    pub(crate) level: u128,
}

impl Level {
    pub(crate) fn new(drain: impl Into<Drain>) -> Self {
        Self { drain: drain.into(), latest: 0, level: 0 }
    }

    pub(crate) fn at(&self, t: u64) -> u128 {
        self.level.saturating_sub(self.drain.between(self.latest, t.max(self.latest)))
    }

    /// Adds an arrival at `t`. Returns whether the bucket was empty, so that a window begins with it.
    pub(crate) fn arrive(&mut self, t: u64) -> bool {
        let left = self.at(t);
        self.level = left + self.drain.per;
        self.latest = t;
        left == 0
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Stretch {
    pub(crate) from: u64,
    pub(crate) until: u64,
    pub(crate) burst: u32,
    pub(crate) drain: Drain,
    rates: Vec<Rate>,
}

impl Stretch {
    pub(crate) fn all(epochs: &[Epoch]) -> Vec<Self> {
        let mut bursts: Vec<u32> = epochs.iter().filter_map(|one| Some(one.limit.bucket?.burst)).collect();
        bursts.sort_unstable();
        bursts.dedup();
        let of = |burst: u32| {
            let within = move |one: &Epoch| one.limit.bucket.is_some_and(|bucket| bucket.burst <= burst);
            let spans = epochs.chunk_by(move |one, next| within(one) && within(next));
            spans.filter_map(move |span| Self::of(span, burst))
        };
        bursts.into_iter().flat_map(of).collect()
    }

    /// None where another burst is the largest.
    fn of(span: &[Epoch], burst: u32) -> Option<Self> {
        let (first, last) = (span.first()?, span.last()?);
        let buckets = span.iter().map(|one| Some((one.from, one.limit.bucket?)));
        let buckets: Vec<(u64, Bucket)> = buckets.collect::<Option<_>>()?;
        if buckets.iter().map(|(_, bucket)| bucket.burst).max() != Some(burst) {
            return None;
        }
        let rates: Vec<(u64, Rate)> = buckets.iter().map(|(from, bucket)| (*from, bucket.rate)).collect();
        let drain = Drain::new(&rates);
        let rates = rates.into_iter().map(|(_, rate)| rate).collect();
        Some(Self { from: first.from, until: last.until, burst, drain, rates })
    }

    pub(crate) fn rate(&self) -> String {
        let mut rates: Vec<String> = self.rates.iter().map(Rate::to_string).collect();
        rates.dedup();
        rates.join(", then ")
    }

    pub(crate) fn fits(&self, level: u128) -> bool {
        level <= u128::from(self.burst) * self.drain.per
    }

    pub(crate) fn needs(&self, level: u128) -> u128 {
        level.div_ceil(self.drain.per)
    }

    pub(crate) fn over(&self, level: u128) -> String {
        let over = level.saturating_sub(u128::from(self.burst) * self.drain.per);
        let thousandths = (over.saturating_mul(1_000)).div_ceil(self.drain.per);
        let text = format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000);
        format!("{} requests over", text.trim_end_matches('0').trim_end_matches('.'))
    }

    /// By less than a request, as jitter on the way makes it.
    pub(crate) fn is_marginal(&self, level: u128) -> bool {
        !self.fits(level) && level < (u128::from(self.burst) + 1) * self.drain.per
    }

    pub(crate) fn allows(&self, from: u64, until: u64) -> u128 {
        u128::from(self.burst) + self.drain.between(from, until) / self.drain.per
    }
}

/// `times` ascend.
#[must_use]
pub fn peak(times: &[u64], rate: Rate) -> Option<Peak> {
    peak_of(times, &rate.into())
}

pub(crate) fn peak_of(times: &[u64], drain: &Drain) -> Option<Peak> {
    let mut level = Level::new(drain.clone());
    let mut from = 0;
    let mut peak: Option<Peak> = None;
    for (to, t) in times.iter().enumerate() {
        if level.arrive(*t) {
            from = to;
        }
        if peak.is_none_or(|peak| level.level > peak.level) {
            peak = Some(Peak { level: level.level, from, to });
        }
    }
    peak
}

#[must_use]
pub fn least_burst(level: u128, rate: Rate) -> u128 {
    level.div_ceil(u128::from(rate.per.0))
}

#[must_use]
pub fn fits(level: u128, bucket: Bucket) -> bool {
    level <= u128::from(bucket.burst) * u128::from(bucket.rate.per.0)
}
