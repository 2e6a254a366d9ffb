//! Percentiles of durations: exact for up to [`EXACT_MAX`], and beyond that from a histogram, at most
//! [`TOO_HIGH_PERMILLE`] too high. 800 kB at most.

use hdrhistogram::Histogram;
use serde_json::Value;

use super::json_forms;
use crate::engine::Nanos;
use crate::store::latency::Percentiles;

pub(crate) const EXACT_MAX: usize = 100_000;
/// The error of histogram percentiles, per thousand: three significant digits.
pub(crate) const TOO_HIGH_PERMILLE: u64 = 1;
const DIGITS: u8 = 3;

#[derive(Debug)]
pub(crate) enum Sample {
    Exact(Vec<Nanos>),
    /// In nanoseconds.
    Counted(Box<Histogram<u64>>),
}

impl Sample {
    pub(crate) const fn new() -> Self {
        Self::Exact(Vec::new())
    }

    pub(crate) fn add(&mut self, length: Nanos) {
        match self {
            Self::Exact(each) if each.len() < EXACT_MAX => each.push(length),
            Self::Exact(each) => {
                let counted = Histogram::new_with_max(u64::MAX, DIGITS);
                let mut counted = Box::new(counted.expect("the bounds are constants, and in order"));
                each.iter().chain([&length]).for_each(|length| counted.saturating_record(length.0));
                *self = Self::Counted(counted);
            }
            Self::Counted(counted) => counted.saturating_record(length.0),
        }
    }

    pub(crate) const fn is_exact(&self) -> bool {
        matches!(self, Self::Exact(_))
    }

    /// The shortest durations that 50, 95 and 99 % of all do not exceed.
    pub(crate) fn percentiles(&mut self) -> Option<Percentiles> {
        if let Self::Exact(each) = self {
            each.sort_unstable();
        }
        let samples = match self {
            Self::Exact(each) => u64::try_from(each.len()).unwrap_or(u64::MAX),
            Self::Counted(counted) => counted.len(),
        };
        let at = |percent: u64| {
            let rank = (u128::from(samples) * u128::from(percent)).div_ceil(100);
            self.of_rank(u64::try_from(rank).ok()?)
        };
        Some(Percentiles { samples, p50: at(50)?, p95: at(95)?, p99: at(99)? })
    }

    /// Ranks count from 1. The histogram's crate computes them in floating point, which may be one off.
    fn of_rank(&self, rank: u64) -> Option<Nanos> {
        match self {
            Self::Exact(sorted) => sorted.get(usize::try_from(rank.checked_sub(1)?).ok()?).copied(),
            Self::Counted(counted) => {
                let mut seen = 0;
                let step = counted.iter_recorded().find(|step| {
                    seen += step.count_at_value();
                    seen >= rank
                })?;
                Some(Nanos(counted.highest_equivalent(step.value_iterated_to())))
            }
        }
    }

    /// `null` without samples.
    pub(crate) fn percentiles_json(&mut self) -> Value {
        let is_exact = self.is_exact();
        self.percentiles().map_or(Value::Null, |found| {
            let mut shown = json_forms::percentiles(found, if is_exact { 0 } else { TOO_HIGH_PERMILLE });
            shown["exact"] = is_exact.into();
            shown
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(lengths: impl IntoIterator<Item = u64>) -> Sample {
        let mut sample = Sample::new();
        lengths.into_iter().for_each(|length| sample.add(Nanos(length)));
        sample
    }

    /// The definition: the value at rank `n * percent / 100`, rounded up.
    fn defined(mut lengths: Vec<u64>) -> [u64; 3] {
        lengths.sort_unstable();
        [50, 95, 99].map(|percent| lengths[(lengths.len() * percent).div_ceil(100) - 1])
    }

    fn found(sample: &mut Sample) -> [u64; 3] {
        let found = sample.percentiles().unwrap();
        [found.p50, found.p95, found.p99].map(|length| length.0)
    }

    fn length() -> impl Strategy<Value = u64> {
        (0_u32..64, any::<u64>()).prop_map(|(bits, length)| length >> bits)
    }

    #[test]
    fn of_nothing_there_is_no_percentile() {
        assert_eq!(Sample::new().percentiles(), None);
        assert_eq!(Sample::new().percentiles_json(), Value::Null);
    }

    #[test]
    fn a_hundred_thousand_are_exact_and_one_more_is_not() {
        // Each value is distinct, except in the histogram.
        let mut sample = of((0..100_000).rev().map(|number| number * 1_001));
        assert!(sample.is_exact());
        assert_eq!(found(&mut sample), [49_999, 94_999, 98_999].map(|number| number * 1_001));
        sample.add(Nanos(100_000 * 1_001));
        assert!(!sample.is_exact());
        assert_eq!(sample.percentiles().unwrap().samples, 100_001);
        let exact = [50_000, 95_000, 99_000].map(|number| number * 1_001);
        assert_ne!(found(&mut sample), exact);
        check_error(exact, found(&mut sample));
    }

    #[track_caller]
    fn check_error(exact: [u64; 3], found: [u64; 3]) {
        for (exact, found) in exact.into_iter().zip(found) {
            let most = u128::from(exact) * u128::from(1_000 + TOO_HIGH_PERMILLE) / 1_000;
            assert!(exact <= found && u128::from(found) <= most, "{exact} {found}");
        }
    }

    proptest! {
        #[test]
        fn few_are_exact(lengths in prop::collection::vec(length(), 1..300)) {
            prop_assert_eq!(found(&mut of(lengths.iter().copied())), defined(lengths));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

        #[test]
        fn many_are_too_high_by_what_is_said_at_most(lengths in prop::collection::vec(length(), 1..2_000), more in length()) {
            // The percentiles stay the same.
            let times = EXACT_MAX / lengths.len() + 1;
            let many: Vec<u64> = (0..times).flat_map(|_| lengths.iter().copied()).chain([more]).collect();
            let mut sample = of(many.iter().copied());
            prop_assert!(!sample.is_exact());
            check_error(defined(many), found(&mut sample));
        }
    }
}
