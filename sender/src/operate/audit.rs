use serde_json::{Value, json};

use super::shown::moment;
use crate::engine::{Nanos, StoreTime};

/// The bucket, and caps as (count, window).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) count: u64,
    pub(crate) per: Nanos,
    pub(crate) burst: u32,
    pub(crate) caps: Vec<(u64, Nanos)>,
}

impl Limit {
    /// The most attempts in any span of `length`.
    pub(crate) fn most_in(&self, length: Nanos) -> u64 {
        let earned = u128::from(self.count) * u128::from(length.0) / u128::from(self.per.0.max(1));
        let bucket = u64::try_from(earned).unwrap_or(u64::MAX).saturating_add(self.burst.into());
        let caps = self.caps.iter();
        let caps = caps.map(|(count, window)| count.saturating_mul(length.0.div_ceil(window.0.max(1))));
        caps.fold(bucket, u64::min)
    }

    /// The rate for one second, rounded up. Attempts beyond it use saved burst.
    pub(crate) fn rate_per_second(&self) -> u64 {
        let earned = u128::from(self.count) * u128::from(Nanos::SECOND.0);
        u64::try_from(earned.div_ceil(u128::from(self.per.0.max(1)))).unwrap_or(u64::MAX)
    }
}

pub(crate) fn shown(
    begin: StoreTime,
    subscriber: Option<&str>,
    (attempts, limited): (u64, u64),
    allowed: Option<u64>,
) -> Value {
    json!({
        "subscriber": subscriber,
        "begin": moment(begin),
        "attempts": attempts,
        "answered_429": limited,
        "allowed": allowed,
        "above_contract": allowed.map(|allowed| attempts > allowed),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(length: Nanos, rate: (u64, Nanos), burst: u32, caps: &[(u64, Nanos)], expected: (u64, u64)) {
        let limit = Limit { count: rate.0, per: rate.1, burst, caps: caps.to_vec() };
        assert_eq!((limit.rate_per_second(), limit.most_in(length)), expected, "{limit:?}");
    }

    #[test]
    fn the_most_is_what_the_tightest_limit_allows() {
        let (second, minute) = (Nanos::SECOND, Nanos::MINUTE);
        check(second, (50, second), 20, &[], (50, 70));
        check(second, (50, second), 20, &[(60, second)], (50, 60));
        check(second, (50, second), 20, &[(60, minute)], (50, 60));
        check(second, (90, minute), 1, &[], (2, 2));
        check(second, (60, minute), 1, &[], (1, 2));
        check(minute, (5, second), 10, &[], (5, 310));
        check(second, (30, minute), 1, &[], (1, 1));
        // Such a window may be used several times in a second.
        let caps = [(7, Nanos::from_millis(300)), (1_000, minute)];
        check(second, (100, second), 100, &caps, (100, 28));
    }
}
