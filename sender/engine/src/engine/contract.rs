//! Each constructor checks its ranges; [`super::limiter`] relies on them to avoid overflow.

use hookproof_words::units;

use super::time::Nanos;
use super::{OutOfRange, within};

pub const BURST_MAX: u32 = 1_000_000;
/// The highest limit of a window cap, and the most ends of attempts that a lane remembers.
pub const WINDOW_LIMIT_MAX: u32 = 1_000_000;
pub const WINDOW_LENGTH_MAX: Nanos = Nanos::DAY.times(31);
pub const WINDOWS_MAX: usize = 8;
pub const IN_FLIGHT_MAX: u32 = 10_000;
pub const RATE_PER_SECOND_MAX: u64 = 1_000_000;

/// `count` attempts per `per`, as a reduced fraction, so that nothing is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    count: u64,
    per: Nanos,
}

impl Rate {
    /// Fails unless `per` is 1 ns to 1 day and the rate is 1 per day to 1,000,000 per second.
    pub fn new(count: u64, per: Nanos) -> Result<Self, OutOfRange> {
        within("limit.rate", per, Nanos(1)..=Nanos::DAY).map_err(|error| OutOfRange {
            value: format!("{count} per {per}"),
            allowed: "a period of 1ns to 1d".to_owned(),
            ..error
        })?;
        let too_low = u128::from(count) * u128::from(Nanos::DAY.0) < u128::from(per.0);
        let too_high = u128::from(count) * u128::from(Nanos::SECOND.0)
            > u128::from(per.0) * u128::from(RATE_PER_SECOND_MAX);
        if too_low || too_high {
            return Err(OutOfRange {
                field: "limit.rate",
                value: format!("{count} per {per}"),
                allowed: format!("1 per 1d to {RATE_PER_SECOND_MAX} per 1s"),
            });
        }
        let common = greatest_common_divisor(count, per.0);
        Ok(Self { count: count / common, per: Nanos(per.0 / common) })
    }

    /// Fails unless `count` is 1 to 1,000,000.
    pub fn per_second(count: u64) -> Result<Self, OutOfRange> {
        Self::new(count, Nanos::SECOND)
    }

    #[must_use]
    pub fn count(self) -> u64 {
        self.count
    }

    #[must_use]
    pub fn per(self) -> Nanos {
        self.per
    }

    #[must_use]
    pub fn slower(self, other: Self) -> Self {
        let (ours, theirs) = (u128::from(self.count), u128::from(other.count));
        if ours * u128::from(other.per.0) <= theirs * u128::from(self.per.0) { self } else { other }
    }

    /// The time between two attempts at this rate, rounded up.
    #[must_use]
    pub fn gap(self) -> Nanos {
        Nanos(self.per.0.div_ceil(self.count))
    }
}

/// A token bucket: every window of length w holds at most `burst + rate·w` arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    rate: Rate,
    burst: u32,
}

impl Bucket {
    /// Fails unless `burst` is 1 to 1,000,000.
    pub fn new(rate: Rate, burst: u32) -> Result<Self, OutOfRange> {
        Ok(Self { rate, burst: within("limit.burst", burst, 1..=BURST_MAX)? })
    }

    #[must_use]
    pub fn rate(self) -> Rate {
        self.rate
    }

    #[must_use]
    pub fn burst(self) -> u32 {
        self.burst
    }
}

/// A cap: no half-open window of `length` holds more than `limit` arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    limit: u32,
    length: Nanos,
}

impl Window {
    /// Fails unless `limit` is 1 to 1,000,000 and `length` is 1 ns to 31 days.
    pub fn new(limit: u32, length: Nanos) -> Result<Self, OutOfRange> {
        let limit = within("limit.windows.limit", limit, 1..=WINDOW_LIMIT_MAX)?;
        let length = within("limit.windows.length", length, Nanos(1)..=WINDOW_LENGTH_MAX)?;
        Ok(Self { limit, length })
    }

    #[must_use]
    pub fn limit(self) -> u32 {
        self.limit
    }

    #[must_use]
    pub fn length(self) -> Nanos {
        self.length
    }
}

impl Bucket {
    /// A contract without a rate uses it, so that no code needs a second case.
    pub const WIDEST: Self =
        Self { rate: Rate { count: 1, per: Nanos(Nanos::SECOND.0 / RATE_PER_SECOND_MAX) }, burst: BURST_MAX };
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract {
    bucket: Bucket,
    windows: Vec<Window>,
    in_flight: u32,
    paced: bool,
}

impl Contract {
    /// Without a bucket it uses [`Bucket::WIDEST`]. Fails unless `in_flight` is 1 to 10,000 and there are at most 8
    /// windows.
    pub fn new(bucket: Option<Bucket>, windows: Vec<Window>, in_flight: u32) -> Result<Self, OutOfRange> {
        let in_flight = within("limit.in_flight", in_flight, 1..=IN_FLIGHT_MAX)?;
        within("limit.windows (count)", windows.len(), 0..=WINDOWS_MAX)?;
        Ok(Self { bucket: bucket.unwrap_or(Bucket::WIDEST), windows, in_flight, paced: false })
    }

    #[must_use]
    pub fn paced(self, paced: bool) -> Self {
        Self { paced, ..self }
    }

    #[must_use]
    pub fn is_paced(&self) -> bool {
        self.paced
    }

    #[must_use]
    pub fn bucket(&self) -> Bucket {
        self.bucket
    }

    #[must_use]
    pub fn windows(&self) -> &[Window] {
        &self.windows
    }

    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// The average time between attempts that the strictest limit allows in the long run.
    #[must_use]
    pub fn gap(&self) -> Nanos {
        let windows = self.windows.iter().map(|cap| Nanos(cap.length.0.div_ceil(u64::from(cap.limit))));
        windows.fold(self.bucket.rate.gap(), Nanos::max)
    }

    /// No minute holds more attempts.
    #[must_use]
    pub fn most_per_minute(&self) -> u64 {
        let Bucket { rate, burst } = self.bucket;
        let earned = u128::from(rate.count) * u128::from(Nanos::MINUTE.0) / u128::from(rate.per.0);
        let most = u64::from(burst).saturating_add(u64::try_from(earned).unwrap_or(u64::MAX));
        let windows = self
            .windows
            .iter()
            .map(|cap| u64::from(cap.limit).saturating_mul(Nanos::MINUTE.0.div_ceil(cap.length.0)));
        windows.fold(most, u64::min)
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl TryFrom<units::Rate> for Rate {
    type Error = OutOfRange;

    fn try_from(rate: units::Rate) -> Result<Self, OutOfRange> {
        Self::new(rate.count(), rate.per())
    }
}

impl TryFrom<units::WindowCap> for Window {
    type Error = OutOfRange;

    fn try_from(cap: units::WindowCap) -> Result<Self, OutOfRange> {
        let limit = u32::try_from(cap.count()).unwrap_or(u32::MAX);
        let named = |error: OutOfRange| match limit {
            u32::MAX => OutOfRange { value: cap.count().to_string(), ..error },
            _ => error,
        };
        Self::new(limit, cap.length()).map_err(named)
    }
}

/// Longest total deadline.
pub const DEADLINE_MAX: Nanos = Nanos::MINUTE.times(5);
pub const DOUBT_MAX: Nanos = Nanos::HOUR;

/// An attempt that ended without an answer is *in doubt*: it may arrive until `doubt` after its end, or until
/// `quarantine` after the answer to an attempt that began after its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lateness {
    deadline: Nanos,
    quarantine: Nanos,
    doubt: Nanos,
}

impl Lateness {
    pub const LONGEST: Self = Self { deadline: DEADLINE_MAX, quarantine: DOUBT_MAX, doubt: DOUBT_MAX };

    /// `deadline` is the longest time from an attempt's start to its end. Fails if it is over 5 minutes, or one of
    /// the others over 1 hour.
    pub fn new(deadline: Nanos, quarantine: Nanos, doubt: Nanos) -> Result<Self, OutOfRange> {
        within("timeout", deadline, Nanos::ZERO..=DEADLINE_MAX)?;
        within("limit.quarantine", quarantine, Nanos::ZERO..=DOUBT_MAX)?;
        within("limit.doubt", doubt, Nanos::ZERO..=DOUBT_MAX)?;
        Ok(Self { deadline, quarantine, doubt })
    }

    #[must_use]
    pub fn deadline(self) -> Nanos {
        self.deadline
    }

    #[must_use]
    pub fn quarantine(self) -> Nanos {
        self.quarantine
    }

    #[must_use]
    pub fn doubt(self) -> Nanos {
        self.doubt
    }

    #[must_use]
    pub fn longer(self, other: Self) -> Self {
        Self {
            deadline: self.deadline.max(other.deadline),
            quarantine: self.quarantine.max(other.quarantine),
            doubt: self.doubt.max(other.doubt),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_of_a_minute_is_that_of_the_strictest_limit() {
        let check = |count: u64, per: Nanos, burst: u32, windows: &[(u32, Nanos)], expected: u64| {
            let bucket = Bucket::new(Rate::new(count, per).unwrap(), burst).unwrap();
            let windows = windows.iter().map(|(limit, length)| Window::new(*limit, *length).unwrap());
            let contract = Contract::new(Some(bucket), windows.collect(), 1).unwrap();
            assert_eq!(contract.most_per_minute(), expected, "{contract:?}");
        };
        check(5, Nanos::SECOND, 10, &[], 310);
        check(1, Nanos::HOUR, 1, &[], 1);
        check(5, Nanos::SECOND, 10, &[(100, Nanos::MINUTE)], 100);
        check(5, Nanos::SECOND, 10, &[(100, Nanos::HOUR), (2, Nanos::SECOND)], 100);
        check(5, Nanos::SECOND, 10, &[(50, Nanos::from_secs(40))], 100);
    }

    #[test]
    fn figures_of_people_are_refused_by_the_contracts_own_rules() {
        let rate = |text: &str| {
            Rate::try_from(text.parse::<units::Rate>().unwrap()).map_err(|error| error.to_string())
        };
        assert_eq!(rate("14000/min"), Ok(Rate::new(14_000, Nanos::MINUTE).unwrap()));
        assert!(rate("1000001/s").unwrap_err().starts_with("limit.rate is 1000001 per 1s"));
        let cap = |text: &str| {
            Window::try_from(text.parse::<units::WindowCap>().unwrap()).map_err(|error| error.to_string())
        };
        assert_eq!(cap("60 per 1s"), Ok(Window::new(60, Nanos::SECOND).unwrap()));
        assert!(cap("5000000000 per 1s").unwrap_err().starts_with("limit.windows.limit is 5000000000;"));
        assert!(cap("1 per 32d").unwrap_err().starts_with("limit.windows.length is 32d;"));
    }

    #[test]
    fn a_rate_is_kept_as_a_reduced_fraction() {
        let rate = Rate::new(14_000, Nanos::MINUTE).unwrap();
        assert_eq!((rate.count(), rate.per()), (7, Nanos::from_millis(30)));
        assert_eq!(rate.gap(), Nanos(4_285_715));
    }

    #[test]
    fn the_widest_rates_are_allowed() {
        assert!(Rate::new(1, Nanos::DAY).is_ok());
        assert!(Rate::per_second(RATE_PER_SECOND_MAX).is_ok());
    }

    #[test]
    fn bad_figures_name_the_field_the_value_and_the_allowed_range() {
        let bucket = |burst| Bucket::new(Rate::per_second(1).unwrap(), burst).map(drop);
        let contract = |windows: usize, in_flight| {
            let window = Window::new(1, Nanos::SECOND).unwrap();
            Contract::new(None, vec![window; windows], in_flight).map(drop)
        };
        let rows = [
            (Rate::per_second(0).map(drop), "limit.rate is 0 per 1s; expected 1 per 1d to 1000000 per 1s"),
            (Rate::new(1, Nanos::ZERO).map(drop), "limit.rate is 1 per 0ns; expected a period of 1ns to 1d"),
            (
                Rate::per_second(1_000_001).map(drop),
                "limit.rate is 1000001 per 1s; expected 1 per 1d to 1000000 per 1s",
            ),
            (
                Rate::new(u64::MAX, Nanos::DAY).map(drop),
                "limit.rate is 18446744073709551615 per 1d; expected 1 per 1d to 1000000 per 1s",
            ),
            (bucket(0), "limit.burst is 0; expected 1 to 1000000"),
            (bucket(1_000_001), "limit.burst is 1000001; expected 1 to 1000000"),
            (Window::new(1, Nanos::ZERO).map(drop), "limit.windows.length is 0ns; expected 1ns to 31d"),
            (
                Window::new(1, Nanos::DAY.times(32)).map(drop),
                "limit.windows.length is 32d; expected 1ns to 31d",
            ),
            (Window::new(0, Nanos::SECOND).map(drop), "limit.windows.limit is 0; expected 1 to 1000000"),
            (contract(0, 0), "limit.in_flight is 0; expected 1 to 10000"),
            (contract(9, 1), "limit.windows (count) is 9; expected 0 to 8"),
        ];
        for (result, message) in rows {
            assert_eq!(result.unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn the_long_run_gap_is_that_of_the_strictest_limit() {
        let bucket = Bucket::new(Rate::per_second(10).unwrap(), 5).unwrap();
        let window = |limit, length| Window::new(limit, length).unwrap();
        let gap = |bucket, windows| Contract::new(bucket, windows, 1).unwrap().gap();
        assert_eq!(gap(None, vec![]), Nanos::from_micros(1));
        assert_eq!(gap(Some(bucket), vec![]), Nanos::from_millis(100));
        let windows = vec![window(60, Nanos::MINUTE), window(20, Nanos::SECOND)];
        assert_eq!(gap(Some(bucket), windows), Nanos::SECOND);
    }
}
