//! How much the answer depends on the seed: where the headroom of another seed lies in 19 of 20 cases, by what a few seeds
//! gave. Pure.
//!
//! The method is the prediction interval of Student's t for one observation more, on the logarithms of the headrooms, as
//! these are ratios: mean ± t(n − 1; 0.975) · s · √(1 + 1/n). It is exact where logarithms are normal, and wide where seeds
//! are few; how often it holds on simulated scenarios is tried in `harness/tests/plan/seeds.rs`. An interval that assumed
//! nothing (from the least to the most that was seen) would hold for another seed in (n − 1) of (n + 1) cases: in 4 of 6 with
//! five seeds, and in 19 of 20 with 39 only.

use serde::Serialize;

/// Where the headroom of another seed lies in 19 of 20 cases, in thousandths of the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Interval {
    /// From here on.
    pub low: u64,
    /// To here.
    pub high: u64,
    /// How many seeds it stands on.
    pub seeds: u64,
}

/// Student's t at 0.975, for 1 to 30 degrees of freedom; for more, the last one is on the safe side.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

impl Interval {
    /// By what seeds gave, each the most that was seen to hold and the least that was seen to fail. None for a single seed.
    #[must_use]
    pub fn of(edges: &[(u64, u64)]) -> Option<Self> {
        let degrees = edges.len().checked_sub(2)?;
        let t = T[degrees.min(T.len() - 1)];
        let (held, failed): (Vec<u64>, Vec<u64>) = edges.iter().copied().unzip();
        let ((low, below), (high, above)) = (spread(&held), spread(&failed));
        #[expect(clippy::cast_precision_loss, reason = "a count of seeds")]
        let wide = t * (1.0 + 1.0 / edges.len() as f64).sqrt();
        Some(Self {
            low: thousandths((low - wide * below).exp().floor()),
            high: thousandths((high + wide * above).exp().ceil()),
            seeds: edges.len() as u64,
        })
    }

    /// Whether a headroom between these two lies in it.
    #[must_use]
    pub fn holds(&self, (held, failed): (u64, u64)) -> bool {
        let middle = held.midpoint(failed);
        (self.low..=self.high).contains(&middle)
    }
}

/// The mean of logarithms, and their standard deviation.
#[expect(clippy::cast_precision_loss, reason = "three digits of a headroom are told")]
fn spread(values: &[u64]) -> (f64, f64) {
    let count = values.len() as f64;
    let logarithms = || values.iter().map(|value| (*value.max(&1) as f64).ln());
    let mean = logarithms().sum::<f64>() / count;
    let squares: f64 = logarithms().map(|one| (one - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0)).sqrt())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is at least 0, and saturates"
)]
fn thousandths(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_says_nothing_of_others() {
        assert_eq!(Interval::of(&[]), None);
        assert_eq!(Interval::of(&[(2_900, 2_950)]), None);
    }

    #[test]
    fn seeds_that_agree_leave_what_the_search_left_open() {
        let found = Interval::of(&[(2_900, 2_950); 5]).unwrap();
        assert!((2_899..=2_900).contains(&found.low) && (2_950..=2_951).contains(&found.high), "{found:?}");
    }

    #[test]
    fn it_is_the_prediction_interval_of_the_logarithms() {
        // By hand: logarithms of e, e² and e³ thousandths have the mean 2 and the deviation 1; t(2) is 4.303.
        let edges = [2_718_282, 7_389_056, 20_085_537].map(|at| (at, at));
        let wide = 4.303 * (4.0_f64 / 3.0).sqrt();
        let expected = [(2.0 - wide).exp() * 1e6, (2.0 + wide).exp() * 1e6];
        let found = Interval::of(&edges).unwrap();
        #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
        let ratios = [found.low as f64 / expected[0], found.high as f64 / expected[1]];
        assert!(ratios.iter().all(|ratio| (ratio - 1.0).abs() < 1e-3), "{found:?}, {expected:?}");
        assert_eq!(found.seeds, 3);
    }

    #[test]
    fn more_seeds_make_it_narrower() {
        let of = |times: usize| Interval::of(&[(2_750, 2_800), (3_000, 3_060)].repeat(times)).unwrap();
        assert!(of(8).low > of(2).low && of(8).high < of(2).high);
    }
}
