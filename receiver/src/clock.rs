//! The only module that reads clocks.
#![expect(clippy::disallowed_methods, reason = "everybody else gets the time from here")]

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::verify::UnixSeconds;

/// Since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millis(pub u64);

impl Millis {
    #[must_use]
    pub fn after(self, length: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(length.as_millis()).unwrap_or(u64::MAX)))
    }

    #[must_use]
    pub fn before(self, length: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(length.as_millis()).unwrap_or(u64::MAX)))
    }

    /// The time since `earlier`; zero if that is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Millis + Send + Sync>);

impl Clock {
    /// The wall clock, which senders sign by.
    #[must_use]
    pub fn wall() -> Self {
        Self::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
        })
    }

    #[must_use]
    pub fn new(tell: impl Fn() -> Millis + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    #[must_use]
    pub fn now(&self) -> Millis {
        (self.0)()
    }

    /// The time now, in the unit of signatures.
    #[must_use]
    pub fn seconds(&self) -> UnixSeconds {
        UnixSeconds(i64::try_from(self.now().0 / 1_000).unwrap_or(i64::MAX))
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({:?})", self.now())
    }
}
