//! The scales of charts, and the thinning of series.

use crate::check::verdict::show;

/// More points than this are indistinguishable.
pub(super) const POINTS_MAX: usize = 480;

pub(super) struct Heights {
    /// The value at the axis: zero, or the beginning of a logarithmic scale.
    pub(super) bottom: u64,
    pub(super) top: u64,
    pub(super) doubling: bool,
}

impl Heights {
    pub(super) fn of(&self, value: u64, height: u64) -> u64 {
        if self.doubling {
            let above = |value| doublings(value).saturating_sub(doublings(self.bottom));
            scaled(above(value), above(self.top), height)
        } else {
            scaled(value.min(self.top), self.top, height)
        }
    }
}

/// The binary logarithm of value + 1, in 1024ths; linear between powers of two.
fn doublings(value: u64) -> u64 {
    let value = u128::from(value) + 1;
    let whole = value.ilog2();
    u64::from(whole) * 1_024 + u64::try_from(((value << 10) >> whole) - 1_024).unwrap_or(0)
}

pub(super) fn decade_below(value: u64) -> u64 {
    10_u64.pow(value.saturating_sub(1).max(1).ilog10())
}

pub(super) fn scaled(part: u64, whole: u64, size: u64) -> u64 {
    u64::try_from(u128::from(part.min(whole)) * u128::from(size) / u128::from(whole.max(1))).unwrap_or(size)
}

/// About five round moments in a span of time, with their names.
pub(super) fn moments((from, until): (u64, u64)) -> Vec<(u64, String)> {
    let rough = (until.saturating_sub(from) / 5).max(1);
    let power = 10_u64.pow(rough.ilog10());
    let step = [1, 2, 5, 10].map(|one| one * power).into_iter().find(|step| *step >= rough).unwrap_or(rough);
    let first = from.div_ceil(step);
    let steps = (first..=first.saturating_add(12)).map_while(|at| at.checked_mul(step));
    steps.take_while(|t| *t <= until).map(|t| (t, if t == 0 { "0".to_owned() } else { show(t) })).collect()
}

/// At most [`POINTS_MAX`] points: the highest and the lowest of neighbours, so that no peak is averaged away.
pub(super) fn thinned(points: &[(u64, u64)]) -> Vec<(u64, u64)> {
    if points.len() <= POINTS_MAX {
        return points.to_vec();
    }
    let some = points.chunks(points.len().div_ceil(POINTS_MAX / 2));
    let ends = some.flat_map(|some| {
        let highest = some.iter().copied().max_by_key(|(_, height)| *height);
        let lowest = some.iter().copied().min_by_key(|(_, height)| *height);
        let mut ends: Vec<_> = highest.into_iter().chain(lowest).collect();
        ends.sort_unstable();
        ends.dedup();
        ends
    });
    ends.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_keeps_its_peaks_within_so_many_points() {
        let points: Vec<_> = (0..1_000_000).map(|t| (t, if t == 654_321 { 9 } else { 1 })).collect();
        let thin = thinned(&points);
        assert!(thin.len() <= POINTS_MAX && thin.contains(&(654_321, 9)), "{}", thin.len());
        assert!(thin.is_sorted());
    }

    #[test]
    fn a_doubling_is_as_high_as_the_one_before() {
        assert_eq!([0, 1, 3, 7].map(doublings), [0, 1_024, 2_048, 3_072]);
        assert!(doublings(u64::MAX) == 64 * 1_024 && doublings(5) > doublings(4));
    }

    #[test]
    fn doublings_begin_at_the_power_of_ten_below_what_was_seen() {
        let rows = [(0, 1), (1, 1), (10, 1), (11, 10), (156_000_000, 100_000_000), (100_000_000, 10_000_000)];
        for (value, expected) in rows {
            assert_eq!(decade_below(value), expected, "{value}");
        }
        let heights = Heights { bottom: 100, top: 1_600, doubling: true };
        assert_eq!([0, 100, 1_600].map(|value| heights.of(value, 40)), [0, 0, 40]);
        assert!((10..=20).contains(&heights.of(300, 40)), "{}", heights.of(300, 40));
    }

    #[test]
    fn moments_are_round_and_inside() {
        let names = |span| moments(span).into_iter().map(|(_, name)| name).collect::<Vec<_>>();
        assert_eq!(names((0, 4_000_000_000)), ["0", "1 s", "2 s", "3 s", "4 s"]);
        assert_eq!(names((5_200_000_000, 5_900_000_000)), ["5.2 s", "5.4 s", "5.6 s", "5.8 s"]);
        assert_eq!(names((7, 7)), ["7 ns"]);
        assert!(names((0, u64::MAX)).len() > 3 && names((u64::MAX, u64::MAX)).len() <= 1);
    }
}
