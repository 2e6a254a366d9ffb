//! The clocks of `wire`, `suite` and `load`.
#![expect(clippy::disallowed_methods, reason = "the one home of the clock for requests that the judge sends")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[must_use]
pub fn unix_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[must_use]
pub fn unix_nanos() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

/// A stopwatch on the monotonic clock. Copies share its beginning.
#[derive(Clone, Copy, Debug)]
pub struct Watch(Instant);

impl Watch {
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    #[must_use]
    pub fn passed(&self) -> Duration {
        self.0.elapsed()
    }

    #[must_use]
    pub fn moment(&self, after: Duration) -> tokio::time::Instant {
        tokio::time::Instant::from_std(self.0 + after)
    }
}

pub async fn pass(length: Duration) {
    tokio::time::sleep(length).await;
}
