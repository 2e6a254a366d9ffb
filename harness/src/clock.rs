//! The harness's one clock: nanoseconds since a run began, and the waiting that goes by it. Everybody else gets the time
//! from here.
#![expect(clippy::disallowed_methods, reason = "this is the one home of time in the harness")]

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Tells the time of one run. Copies tell the same. Until the run begins it stands at 0.
#[derive(Clone, Debug, Default)]
pub struct Clock(Arc<OnceLock<Beginning>>);

#[derive(Clone, Copy, Debug)]
struct Beginning {
    steady: Instant,
    unix_ns: u64,
}

impl Beginning {
    fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { steady: Instant::now(), unix_ns: nanos(since) }
    }
}

impl Clock {
    /// A clock that has begun.
    #[must_use]
    pub fn begun() -> Self {
        let clock = Self::default();
        clock.begin();
        clock
    }

    /// Begins the run, if it hasn't begun.
    pub fn begin(&self) {
        self.0.get_or_init(Beginning::now);
    }

    /// Nanoseconds since the run began.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.0.get().map_or(0, |beginning| nanos(beginning.steady.elapsed()))
    }

    /// What the wall clock would show at a moment of the run, had nobody set it since the run began.
    #[must_use]
    pub fn unix_ns(&self, at: u64) -> u64 {
        self.0.get().copied().unwrap_or_else(Beginning::now).unix_ns.saturating_add(at)
    }

    /// The smallest step that this clock was seen to make.
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

    /// Waits until a moment of the run; not at all if it has passed.
    pub async fn until(&self, at: u64) {
        self.pass(at.saturating_sub(self.now())).await;
    }

    /// Waits for a while.
    pub async fn pass(&self, nanos: u64) {
        if nanos > 0 {
            tokio::time::sleep(Duration::from_nanos(nanos)).await;
        }
    }

    /// Waits until a moment of the run, for a thread of its own.
    pub fn block_until(&self, at: u64) {
        let left = at.saturating_sub(self.now());
        if left > 0 {
            std::thread::sleep(Duration::from_nanos(left));
        }
    }
}

/// A length of time in nanoseconds; one of centuries is the longest there is.
#[must_use]
pub fn nanos(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}
