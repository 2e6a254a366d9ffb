//! Finds the edge of a monotone condition by doubling and halving. Pure.

/// The distance of the two sides at the end, in thousandths.
const CLOSE: u64 = 20;
/// In thousandths of the start.
pub(super) const TRIED_MAX: u64 = 64_000;
/// As a distance from the start.
const FURTHEST: u64 = TRIED_MAX - 1_000;
/// The first step without knowledge: to the double or the half.
pub const DOUBLE: u64 = 1_000;
/// The first step from near an expected edge.
pub const NEAR: u64 = 40;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edge {
    /// None if nothing down to a 64th did.
    pub holds: Option<u64>,
    /// None if nothing up to the 64-fold did.
    pub fails: Option<u64>,
}

impl Edge {
    pub(super) fn leaves_open(&self, at: u64) -> bool {
        self.holds.is_none_or(|held| held < at) && self.fails.is_none_or(|failed| failed > at)
    }

    fn record_trial(&mut self, at: u64, holds: bool) {
        let side = if holds { &mut self.holds } else { &mut self.fails };
        *side = Some(at);
    }
}

/// The condition holds below the edge. The first step is `step` thousandths of the start, and each further one twice as
/// long.
///
/// # Errors The caller's own.
pub fn edge<E>(start: u64, step: u64, mut holds: impl FnMut(u64) -> Result<bool, E>) -> Result<Edge, E> {
    let start = start.max(1);
    let mut edge = Edge { holds: None, fails: None };
    let is_up = holds(start)?;
    edge.record_trial(start, is_up);
    let (mut away, mut last) = (step.max(1), start);
    while (edge.holds.is_none() || edge.fails.is_none()) && away <= FURTHEST {
        let next = if is_up {
            (start.saturating_mul(1_000 + away) / 1_000).max(last.saturating_add(1))
        } else {
            (start.saturating_mul(1_000) / (1_000 + away)).min(last - 1)
        };
        if next == 0 {
            break;
        }
        edge.record_trial(next, holds(next)?);
        (away, last) = (away * 2 + step.max(1), next);
    }
    while let (Some(low), Some(high)) = (edge.holds, edge.fails)
        && (high - low) * 1_000 > low.saturating_mul(CLOSE)
        && high - low > 1
    {
        let middle = low + (high - low) / 2;
        edge.record_trial(middle, holds(middle)?);
    }
    Ok(edge)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    fn found(start: u64, step: u64, last: u64) -> (Edge, u32) {
        let mut asked = 0;
        let holds = |at: u64| {
            asked += 1;
            Ok::<bool, Infallible>(at <= last)
        };
        let Ok(edge) = edge(start, step, holds);
        (edge, asked)
    }

    #[test]
    fn rates_between_the_last_pass_and_the_first_failure_are_open() {
        let rows = [
            (Some(991), Some(1_001), true),
            (Some(1_000), Some(1_009), false),
            (Some(980), Some(1_000), false),
            (Some(838), None, true),
            (None, Some(1_527), true),
            (None, Some(995), false),
            (Some(1_200), None, false),
        ];
        for (holds, fails, expected) in rows {
            assert_eq!(Edge { holds, fails }.leaves_open(1_000), expected, "{holds:?} {fails:?}");
        }
    }

    proptest! {
        #[test]
        fn the_edge_lies_between_what_held_and_what_failed(start in 1_u64..100_000, last in 0_u64..1_000_000) {
            let (edge, asked) = found(start, DOUBLE, last);
            prop_assert!(asked <= 20, "asked {} times", asked);
            prop_assert!(edge.holds.is_none_or(|held| held <= last));
            prop_assert!(edge.fails.is_none_or(|failed| failed > last));
            match (edge.holds, edge.fails) {
                (Some(low), Some(high)) => prop_assert!((high - low) * 50 <= low || high - low == 1),
                (None, _) => prop_assert!(last < (start / 32).max(1)),
                (_, None) => prop_assert!(last >= start * 64),
            }
        }

        #[test]
        fn an_edge_that_is_near_is_found_soon(start in 100_u64..100_000, off in 900_u64..1_100) {
            let last = start * off / 1_000;
            let (edge, asked) = found(start, NEAR, last);
            prop_assert!(asked <= 6, "asked {} times", asked);
            let (Some(low), Some(high)) = (edge.holds, edge.fails) else { panic!("{edge:?}") };
            prop_assert!(low <= last && last < high && ((high - low) * 50 <= low || high - low == 1));
        }
    }
}
