//! The harness's clock: nanoseconds since a run began.
#![expect(clippy::disallowed_methods, reason = "this is the one home of time in the harness")]

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Clones share it. It stands at 0 until the run begins.
#[derive(Clone, Debug, Default)]
pub struct Clock(Arc<OnceLock<Beginning>>);

#[derive(Clone, Copy, Debug)]
struct Beginning {
    steady: Instant,
    unix_ns: u64,
}

impl Beginning {
    fn now() -> Self {
        Self { unix_ns: wall_ns(), steady: Instant::now() }
    }
}

fn wall_ns() -> u64 {
    nanos(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

impl Clock {
    /// A clock that has begun.
    #[must_use]
    pub fn begun() -> Self {
        let clock = Self::default();
        clock.begin();
        clock
    }

    pub fn begin(&self) {
        self.0.get_or_init(Beginning::now);
    }

    #[must_use]
    pub fn now(&self) -> u64 {
        self.0.get().map_or(0, |beginning| nanos(beginning.steady.elapsed()))
    }

    /// Correct if nobody set the clock since the beginning.
    #[must_use]
    pub fn unix_ns(&self, at: u64) -> u64 {
        self.0.get().copied().unwrap_or_else(Beginning::now).unix_ns.saturating_add(at)
    }

    /// In nanoseconds; none before the run begins.
    #[must_use]
    pub fn wall_ahead_ns(&self) -> Option<i64> {
        let beginning = self.0.get()?;
        let unix_ns = || beginning.unix_ns.saturating_add(nanos(beginning.steady.elapsed()));
        // A thread that is delayed between two of these sees no difference.
        let (before, wall, after) = (unix_ns(), wall_ns(), unix_ns());
        Some(beyond(wall, before, after))
    }

    #[must_use]
    pub fn resolution_ns(&self) -> u64 {
        const STEPS: usize = 1_000;
        let steps = (0..STEPS).filter_map(|_| {
            let before = Instant::now();
            let after = Instant::now();
            (after > before).then(|| nanos(after - before))
        });
        steps.min().unwrap_or(1)
    }

    /// Returns at once if the moment has passed.
    pub async fn until(&self, at: u64) {
        self.pass(at.saturating_sub(self.now())).await;
    }

    pub async fn pass(&self, nanos: u64) {
        if nanos > 0 {
            tokio::time::sleep(Duration::from_nanos(nanos)).await;
        }
    }

    pub fn block_until(&self, at: u64) {
        let left = at.saturating_sub(self.now());
        if left > 0 {
            std::thread::sleep(Duration::from_nanos(left));
        }
    }
}

/// How far a moment is after the latest, or (negative) before the earliest; 0 in between.
fn beyond(moment: u64, earliest: u64, latest: u64) -> i64 {
    let signed = |distance: u64| i64::try_from(distance).unwrap_or(i64::MAX);
    signed(moment.saturating_sub(latest)) - signed(earliest.saturating_sub(moment))
}

/// Saturates after centuries.
#[must_use]
pub fn nanos(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_between_two_others_is_beyond_none_of_them() {
        assert_eq!([4, 5, 7, 9, 12].map(|moment| beyond(moment, 5, 9)), [-1, 0, 0, 0, 3]);
        assert_eq!(beyond(0, u64::MAX, u64::MAX), -i64::MAX);
    }

    #[test]
    fn a_wall_clock_that_nobody_sets_is_where_it_should_be() {
        assert_eq!(Clock::default().wall_ahead_ns(), None, "the run has not begun");
        let ahead = Clock::begun().wall_ahead_ns().unwrap();
        assert!(ahead.abs() < 1_000_000_000, "{ahead} ns");
    }
}
