//! An even pace: starts on a grid whose steps are one attempt's time at the contract's rate, however many the bucket holds.
//!
//! A start that comes late, since an endpoint, a claim or the machine took their time, keeps the grid and so costs no rate,
//! unless it is late by a step or more (and by ten milliseconds, which timers may be): then the grid begins anew with it. Two
//! starts are therefore a step apart, less what the first of them came late. The bucket holds all the same; the grid only makes a lane wait longer than it would.
//!
//! What it can't promise: how evenly requests *arrive* (the network moves them), and anything across owners: the first start
//! of a new one begins a grid of its own. The full rate needs room for the answers' time: a burst and a cap in flight of
//! rate × time + 2 or more.

use super::contract::Contract;
use super::limiter::Ready;
use super::time::{Instant, Nanos};

/// What a timer may be late without costing rate, however short the steps are.
const LATE_MAX: Nanos = Nanos::from_millis(10);

/// Where the grid of one lane is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// The next place on the grid, once there is one.
    next: Option<Instant>,
    /// What that leaves of a nanosecond, in parts of the rate's count.
    rest: u64,
}

impl Pace {
    /// Whether the next place has come, if there is a grid.
    pub(super) fn ready(self, contract: &Contract, now: Instant) -> Ready {
        self.next.filter(|next| contract.is_paced() && *next > now).map_or(Ready::Now, Ready::At)
    }

    /// How many attempts may start within `ahead`.
    pub(super) fn room(contract: &Contract, ahead: Nanos) -> u32 {
        if !contract.is_paced() {
            return u32::MAX;
        }
        let places = ahead.0 / contract.bucket().rate().gap().0;
        u32::try_from(places).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// Another contract has a grid of its own.
    pub(super) fn change(&mut self, old: &Contract, new: &Contract) {
        if (old.bucket(), old.is_paced()) != (new.bucket(), new.is_paced()) {
            *self = Self::default();
        }
    }

    /// An attempt starts.
    pub(super) fn start(&mut self, contract: &Contract, now: Instant) {
        if !contract.is_paced() {
            return;
        }
        let rate = contract.bucket().rate();
        let next = self.next.filter(|next| now.since(*next) < rate.gap().max(LATE_MAX));
        let (place, rest) = next.map_or((now, 0), |next| (next, self.rest));
        // A period is at most a day in nanoseconds, and what is left over at most a million: nothing overflows.
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

    /// The starts, each `late` after its slot.
    fn starts(rate: Rate, late: &[u64]) -> Vec<u64> {
        let mut pace = Pace::default();
        let contract = Contract::new(Some(Bucket::new(rate, 10).unwrap()), vec![], 5).unwrap().paced(true);
        let mut now = Instant(1_000_000);
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
