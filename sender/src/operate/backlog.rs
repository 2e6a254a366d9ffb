use serde_json::{Value, json};

use crate::engine::Nanos;
use crate::engine::contract::Contract;
use crate::store::latency::Histogram;

/// The best case: all attempts succeed and no events arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clearing {
    length: Nanos,
    bound: &'static str,
}

impl Clearing {
    /// Assumes the measured durations.
    pub(crate) fn of(waiting: u64, contract: &Contract, answers: Option<&Histogram>) -> Self {
        let takes = |period: u64, count: u64| Nanos(proportion(waiting, period, count));
        let rate = contract.bucket().rate();
        let rate = Self { length: takes(rate.per().0, rate.count()), bound: "limit.rate" };
        let windows = contract.windows().iter().map(|cap| Self {
            length: takes(cap.length().0, u64::from(cap.limit())),
            bound: "limit.windows",
        });
        let in_flight = answers.filter(|answers| answers.samples() > 0).map(|answers| {
            let mean = answers.sum_us().saturating_mul(1_000) / answers.samples();
            Self { length: takes(mean, u64::from(contract.in_flight())), bound: "limit.in_flight" }
        });
        windows
            .chain(in_flight)
            .fold(rate, |longest, it| if it.length > longest.length { it } else { longest })
    }

    pub(crate) const fn length(self) -> Nanos {
        self.length
    }

    pub(crate) const fn bound(self) -> &'static str {
        self.bound
    }

    pub(crate) fn to_json(self) -> Value {
        json!({ "takes_ms": self.length.0 / 1_000_000, "bound_by": self.bound })
    }
}

/// `a · b / c`, saturating.
fn proportion(a: u64, b: u64, c: u64) -> u64 {
    let product = u128::from(a) * u128::from(b) / u128::from(c.max(1));
    u64::try_from(product).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::contract::{Bucket, Rate, Window};

    fn contract(per_second: u64, windows: &[(u32, Nanos)], in_flight: u32) -> Contract {
        let bucket = Bucket::new(Rate::per_second(per_second).unwrap(), 10).unwrap();
        let windows = windows.iter().map(|(limit, length)| Window::new(*limit, *length).unwrap());
        Contract::new(Some(bucket), windows.collect(), in_flight).unwrap()
    }

    #[track_caller]
    fn check(contract: &Contract, answers_ms: &[u64], (secs, bound): (u64, &'static str)) {
        let mut answers = Histogram::default();
        answers_ms.iter().for_each(|millis| answers.count(Nanos::from_millis(*millis)));
        let expected = Clearing { length: Nanos::from_secs(secs), bound };
        assert_eq!(Clearing::of(12_400, contract, Some(&answers)), expected);
    }

    #[test]
    fn a_backlog_takes_as_long_as_the_strictest_limit_makes_it() {
        check(&contract(5, &[], 1), &[], (2_480, "limit.rate"));
        check(&contract(5, &[(60, Nanos::SECOND)], 1), &[], (2_480, "limit.rate"));
        check(&contract(5, &[(60, Nanos::SECOND), (100, Nanos::MINUTE)], 1), &[], (7_440, "limit.windows"));
        check(&contract(5, &[], 1), &[100, 300], (2_480, "limit.rate"));
        check(&contract(5, &[], 1), &[500, 1_500], (12_400, "limit.in_flight"));
        check(&contract(5, &[], 10), &[500, 1_500], (2_480, "limit.rate"));
    }

    #[test]
    fn nothing_takes_no_time_and_no_figure_is_too_large() {
        assert_eq!(Clearing::of(0, &contract(5, &[], 1), None).length, Nanos::ZERO);
        let slowest = contract(1, &[(1, Nanos::DAY.times(31))], 1);
        assert_eq!(Clearing::of(u64::MAX, &slowest, None).length, Nanos(u64::MAX));
    }
}
