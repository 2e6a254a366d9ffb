use super::{LEVEL_MAX, Ready};
use crate::engine::contract::{Bucket, Rate};
use crate::engine::time::{Instant, Nanos};

/// The level in units of 1/`rate.per` of an attempt, as of `as_of`. The rate comes with every call because it
/// belongs to the contract.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    units: u128,
    as_of: Instant,
}

// The highest level in the finest units fits, even times the longest period, as a change of rate multiplies it.
const _: () = assert!((LEVEL_MAX as u128 + 1) * (Nanos::DAY.0 as u128) * (Nanos::DAY.0 as u128) < 1 << 114);

impl Level {
    pub(super) const EMPTY: Self = Self { units: 0, as_of: Instant::START };

    pub(super) fn new(units: u128, as_of: Instant) -> Self {
        Self { units, as_of }
    }

    pub(super) fn units(self) -> u128 {
        self.units
    }

    pub(super) fn as_of(self) -> Instant {
        self.as_of
    }

    /// Drains the level until `now`. Ignores earlier moments.
    pub(super) fn drain(&mut self, rate: Rate, now: Instant) {
        if now <= self.as_of {
            return;
        }
        if self.units > 0 {
            let length = now.since(self.as_of);
            self.units = self.units.saturating_sub(u128::from(length.0) * u128::from(rate.count()));
        }
        self.as_of = now;
    }

    pub(super) fn charge(&mut self, rate: Rate, count: u32) {
        self.units += u128::from(count) * u128::from(rate.per().0);
    }

    /// Converts to another rate's units, rounding up.
    pub(super) fn change_rate(&mut self, from: Rate, to: Rate) {
        if from.per() != to.per() {
            self.units = (self.units * u128::from(to.per().0)).div_ceil(u128::from(from.per().0));
        }
    }

    /// When the `next`th attempt in flight may start.
    pub(super) fn ready(self, bucket: Bucket, next: u32) -> Ready {
        let Some(spare) = bucket.burst().checked_sub(next) else { return Ready::OnEvent };
        let allowed = u128::from(spare) * u128::from(bucket.rate().per().0);
        if self.units <= allowed {
            return Ready::Now;
        }
        let wait = (self.units - allowed).div_ceil(u128::from(bucket.rate().count()));
        Ready::At(self.as_of + Nanos(u64::try_from(wait).unwrap_or(u64::MAX)))
    }

    /// The attempts that may start by `then` beside the `taken` ones in flight, if all end at once.
    pub(super) fn room(self, bucket: Bucket, taken: u32, then: Instant) -> u32 {
        let per = u128::from(bucket.rate().per().0);
        let drained = u128::from(then.since(self.as_of).0) * u128::from(bucket.rate().count());
        let full = u128::from(bucket.burst()) * per + drained;
        let left = full.saturating_sub(self.units + u128::from(taken) * per) / per;
        u32::try_from(left).unwrap_or(u32::MAX)
    }
}
