//! The due times of a phase: the moments at which the integral of its rate passes 0, 1, 2, …

use hookproof_judge::scenario::{Rate, SECOND};

use super::chance::Chance;

/// The moments of a constant rate in [0, `end`). Integer arithmetic: rounding errors do not accumulate.
pub(super) fn steady(rate: Rate, end: u64) -> impl Iterator<Item = u64> {
    let moment = move |k: u64| {
        let at = u128::from(k) * u128::from(rate.per.0) / u128::from(rate.count.max(1));
        u64::try_from(at).ok().filter(|at| rate.count > 0 && *at < end)
    };
    (0..).map_while(moment)
}

/// The moments of a linear ramp between two rates.
///
/// The integral is `n(t) = r·t + a·t²/2` with `a = (to − r)/end`; solved for `t` in the form without
/// cancellation, `t = 2n / (r + √(r² + 2·a·n))`.
pub(super) fn ramp(rate: Rate, to: Rate, end: u64) -> impl Iterator<Item = u64> {
    let (from, to, length) = (per_second(rate), per_second(to), seconds(end));
    let slope = if length > 0.0 { (to - from) / length } else { 0.0 };
    let moment = move |k: u64| {
        let count = number(k);
        let under = from.mul_add(from, 2.0 * slope * count);
        let divisor = from + under.max(0.0).sqrt();
        // A ramp down to 0 ends before a further event is due.
        if under < 0.0 || (divisor <= 0.0 && k > 0) {
            return None;
        }
        let at = if k == 0 { 0 } else { nanos(2.0 * count / divisor) };
        (at < end && from + to > 0.0).then_some(at)
    };
    (0..).map_while(moment)
}

/// The moments of independent arrivals: gaps are exponential with the rate's mean.
pub(super) fn poisson(rate: Rate, end: u64, mut chance: Chance) -> impl Iterator<Item = u64> {
    let rate = per_second(rate);
    let mut at = 0_u64;
    std::iter::from_fn(move || {
        // 1 − u is never 0, so the logarithm is finite.
        let gap = nanos(-(1.0 - chance.unit()).ln() / rate);
        at = at.saturating_add(gap);
        (rate > 0.0 && at < end).then_some(at)
    })
}

fn per_second(rate: Rate) -> f64 {
    number(rate.count) * number(SECOND) / number(rate.per.0.max(1))
}

fn seconds(nanos: u64) -> f64 {
    number(nanos) / number(SECOND)
}

#[expect(clippy::cast_precision_loss, reason = "counts and times of a run are far below 2^53")]
const fn number(count: u64) -> f64 {
    count as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and a moment past 584 years ends the phase"
)]
fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

#[cfg(test)]
mod tests {
    use hookproof_judge::scenario::Duration;

    use super::*;

    const fn per_sec(count: u64) -> Rate {
        Rate { count, per: Duration(SECOND) }
    }

    #[test]
    fn an_even_rate_is_exact_however_long_it_goes_on() {
        let all: Vec<_> = steady(per_sec(7), 100_000 * SECOND).collect();
        assert_eq!(all.len(), 700_000);
        assert_eq!(all[700 * 7], 700 * SECOND);
        assert_eq!(steady(per_sec(0), SECOND).count(), 0);
    }

    #[test]
    fn a_ramp_offers_as_many_as_the_area_under_it_up_and_down() {
        for (from, to) in [(0, 100), (100, 0), (20, 800), (800, 20), (50, 50)] {
            let all: Vec<_> = ramp(per_sec(from), per_sec(to), 10 * SECOND).collect();
            let area = (from + to) * 5;
            let count = u64::try_from(all.len()).unwrap();
            assert!(count.abs_diff(area) <= 1, "{from} to {to}: {count} of {area}");
            assert!(all.is_sorted() && all.iter().all(|at| *at < 10 * SECOND));
        }
        assert_eq!(ramp(per_sec(0), per_sec(0), SECOND).count(), 0);
    }

    #[test]
    fn the_middle_of_a_ramp_has_the_mean_of_its_rates() {
        let all: Vec<_> = ramp(per_sec(0), per_sec(1_000), 10 * SECOND).collect();
        let middle = all.iter().filter(|at| (4_500_000_000..5_500_000_000).contains(*at)).count();
        assert!((499..=501).contains(&middle), "{middle}");
    }

    #[test]
    fn independent_arrivals_have_the_mean_and_the_spread_of_their_law() {
        let all: Vec<_> = poisson(per_sec(1_000), 100 * SECOND, Chance::new(7, 7)).collect();
        // Five standard deviations of a Poisson count; the seed is fixed, so the result never varies.
        assert!(all.len().abs_diff(100_000) < 1_600, "{}", all.len());
        let long = all.windows(2).filter(|pair| pair[1] - pair[0] > 1_000_000).count();
        assert!(long.abs_diff(36_788) < 1_000, "{long} of the gaps exceed the mean, expected a share of 1/e");
        assert_eq!(poisson(per_sec(0), SECOND, Chance::new(1, 1)).count(), 0);
    }
}
