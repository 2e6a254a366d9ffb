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

use crate::scenario::{Bucket, Rate};

// The level of a token bucket as arrivals fill it, in exact integers.
//
// A rate of c per p lets one request through every p/c. Count in units of 1/p of a request: an arrival adds
// p, a nanosecond removes c. Let `L_j = max(L_{j−1} − c·(t_j − t_{j−1}), 0) + p`. Unrolled, `L_j` is the
// maximum over i ≤ j of `p·(j − i + 1) − c·(t_j − t_i)` (Cruz' envelope, computed by Lindley's recursion). A
// window holds the most against its length if it begins and ends with an arrival. So the arrivals conform to
// burst σ in *every* window if and only if `L_j ≤ σ·p` for every j. The least burst to which they conform is
// `⌈max L_j / p⌉`, found in one pass.

/// The highest level of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    /// In units of 1/p of a request.
    pub level: u128,
    /// The first arrival of its window, as an index into the times.
    pub from: usize,
    /// The last arrival of its window.
    pub to: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    rate: Rate,
    latest: u64,
    pub(crate) level: u128,
}

impl Level {
    /// An empty bucket.
    pub(crate) const fn new(rate: Rate) -> Self {
        Self { rate, latest: 0, level: 0 }
    }

    pub(crate) fn at(&self, t: u64) -> u128 {
        let drained = u128::from(self.rate.count) * u128::from(t.saturating_sub(self.latest));
        self.level.saturating_sub(drained)
    }

    /// Adds an arrival at `t`. Returns whether the bucket was empty, so that a window begins with it.
    pub(crate) fn arrive(&mut self, t: u64) -> bool {
        let left = self.at(t);
        self.level = left + u128::from(self.rate.per.0);
        self.latest = t;
        left == 0
    }
}

/// The highest level of a bucket. `times` ascend.
#[must_use]
pub fn peak(times: &[u64], rate: Rate) -> Option<Peak> {
    let mut level = Level::new(rate);
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
