//! The prediction interval: where another seed's headroom lies in 19 of 20 cases, from a few seeds. Pure.
//!
//! It is Student's t prediction interval for one further observation, on the logarithms of the headrooms,
//! since these are ratios: mean ± t(n − 1; 0.975) · s · √(1 + 1/n). It is exact for normal logarithms, and
//! wide for few seeds; `harness/tests/plan/seeds.rs` checks its coverage on simulated scenarios. An interval
//! without assumptions (the range of the observations) covers (n − 1)/(n + 1): 4 of 6 with five seeds, and 19
//! of 20 only with 39.

use serde::Serialize;

/// Where the headroom of another seed lies in 19 of 20 cases, in thousandths of the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Interval {
    pub low: u64,
    pub high: u64,
    pub seeds: u64,
}

/// Student's t at 0.975, for 1 to 30 degrees of freedom; beyond that the last value is conservative.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

impl Interval {
    /// From each seed's highest load that held and lowest that failed. None for a single seed.
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

    /// Whether it contains the middle of these two.
    #[must_use]
    pub fn holds(&self, (held, failed): (u64, u64)) -> bool {
        let middle = held.midpoint(failed);
        (self.low..=self.high).contains(&middle)
    }
}

/// Mean and standard deviation of the logarithms.
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
        // By hand: the logarithms of e, e² and e³ have mean 2 and deviation 1; t(2) is 4.303.
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
