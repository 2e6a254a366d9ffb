//! An even pace: starts on a grid with a step of one attempt at the contract's rate.
//!
//! A late start keeps the grid, so it costs no rate. A start that is late by a step or more, and by at least 10 ms (the
//! tolerance for timers), begins a new grid. So two starts are at least a step apart, less the lateness of the first.
//! The bucket still applies; the grid only adds waits.
//!
//! A new owner begins its own grid. The full rate needs a burst and a cap in flight of at least rate × answer time + 2.

use super::contract::Contract;
use super::limiter::Ready;
use super::time::{Nanos, StoreTime};

/// A timer may be this late without cost to the rate, however short the steps are.
const LATE_MAX: Nanos = Nanos::from_millis(10);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    next: Option<StoreTime>,
    /// The fraction of a nanosecond beyond `next`, in units of 1/`rate.count`.
    rest: u64,
}

impl Pace {
    pub(super) fn ready(self, contract: &Contract, now: StoreTime) -> Ready {
        self.next.filter(|next| contract.is_paced() && *next > now).map_or(Ready::Now, Ready::At)
    }

    /// `ahead` from now.
    pub(super) fn room(contract: &Contract, ahead: Nanos) -> u32 {
        if !contract.is_paced() {
            return u32::MAX;
        }
        let places = ahead.0 / contract.bucket().rate().gap().0;
        u32::try_from(places).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// A new bucket or pace begins a new grid.
    pub(super) fn change(&mut self, old: &Contract, new: &Contract) {
        if (old.bucket(), old.is_paced()) != (new.bucket(), new.is_paced()) {
            *self = Self::default();
        }
    }

    pub(super) fn start(&mut self, contract: &Contract, now: StoreTime) {
        if !contract.is_paced() {
            return;
        }
        let rate = contract.bucket().rate();
        let next = self.next.filter(|next| now.since(*next) < rate.gap().max(LATE_MAX));
        let (place, rest) = next.map_or((now, 0), |next| (next, self.rest));
        // `per` is at most a day in nanoseconds and `rest` is below `count`, so the sum cannot overflow.
        let parts = rate.per().0 + rest;
        self.next = Some(place + Nanos(parts / rate.count()));
        self.rest = parts % rate.count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::contract::{Bucket, Rate};
    use proptest::prelude::*;

    fn rate() -> impl Strategy<Value = Rate> {
        (1..1_000_u64, 1..10_000_000_000_u64)
            .prop_filter_map("a rate that is allowed", |(count, per)| Rate::new(count, Nanos(per)).ok())
    }

    fn starts(rate: Rate, late: &[u64]) -> Vec<u64> {
        let mut pace = Pace::default();
        let contract = Contract::new(Some(Bucket::new(rate, 10).unwrap()), vec![], 5).unwrap().paced(true);
        let mut now = StoreTime(1_000_000);
        let mut starts = Vec::new();
        for late in late {
            if let Ready::At(at) = pace.ready(&contract, now) {
                now = at;
            }
            now = now + Nanos(*late);
            pace.start(&contract, now);
            starts.push(now.0);
        }
        starts
    }

    proptest! {
        #[test]
        fn without_delays_starts_are_on_the_grid_to_the_nanosecond(rate in rate(), count in 1..500_usize) {
            let starts = starts(rate, &vec![0; count]);
            for (n, start) in (0..).zip(&starts) {
                let exact = u128::from(n * rate.per().0) / u128::from(rate.count());
                prop_assert_eq!(u128::from(start - starts[0]), exact);
            }
        }

        #[test]
        fn two_starts_are_a_step_apart_less_what_the_first_was_late(
            rate in rate(), late in prop::collection::vec(0..2_000_000_000_u64, 2..200),
        ) {
            let starts = starts(rate, &late);
            for (n, two) in starts.windows(2).enumerate() {
                let least = (rate.per().0 / rate.count()).saturating_sub(late[n]);
                prop_assert!(two[1] - two[0] >= least, "{n}: {} after {}", two[1] - two[0], late[n]);
            }
        }

        #[test]
        fn delays_of_less_than_a_step_cost_no_rate(
            rate in rate(), shares in prop::collection::vec(0..100_u64, 2..200),
        ) {
            let step = rate.per().0 / rate.count();
            let late: Vec<u64> = shares.iter().map(|share| step * share / 101).collect();
            let starts = starts(rate, &late);
            let took = starts[starts.len() - 1] - starts[0];
            let exact = u128::from(rate.per().0) * (starts.len() as u128 - 1) / u128::from(rate.count());
            prop_assert!(u128::from(took) <= exact + u128::from(step), "{took} for {exact}");
        }
    }
}
