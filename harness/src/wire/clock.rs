//! The judge's clocks. Everybody else in `wire`, `suite` and `load` gets the time from here.
#![expect(clippy::disallowed_methods, reason = "the one home of the clock for requests that the judge sends")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Seconds since 1970 by the wall clock, for timestamps in signatures.
#[must_use]
pub fn unix_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Nanoseconds since 1970 by the wall clock, for ids that nobody has used before.
#[must_use]
pub fn unix_nanos() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

/// Measures lengths of time on the monotonic clock. Copies measure from the same moment.
#[derive(Clone, Copy, Debug)]
pub struct Watch(Instant);

impl Watch {
    /// Starts now.
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// How long ago it started.
    #[must_use]
    pub fn passed(&self) -> Duration {
        self.0.elapsed()
    }

    /// The moment this long after it started, for timers.
    #[must_use]
    pub fn moment(&self, after: Duration) -> tokio::time::Instant {
        tokio::time::Instant::from_std(self.0 + after)
    }
}

/// Waits for a length of time to pass, where what is tested is time itself.
pub async fn pass(length: Duration) {
    tokio::time::sleep(length).await;
}
