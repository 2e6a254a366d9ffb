//! The end of a run, real or simulated.

use super::Scenario;

/// The state of a run after all events and faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Nanoseconds since the run began.
    pub since: u64,
    /// Whether nothing is outstanding.
    pub settled: bool,
    /// Whether an exchange is open at an endpoint.
    pub open: bool,
    /// When the latest request came.
    pub came: u64,
}

impl Scenario {
    /// Whether the run is over: nothing is outstanding and `linger` has passed without an arrival or an open
    /// exchange; or `drain` has passed with deliveries outstanding; or both have passed.
    #[must_use]
    pub fn is_over(&self, standing: &Standing, now: u64) -> bool {
        let Standing { since, settled, open, came } = *standing;
        let drained = since.saturating_add(self.drain.0);
        if !settled {
            return now >= drained;
        }
        let quiet = !open && now >= came.max(since).saturating_add(self.linger.0);
        quiet || now >= drained.saturating_add(self.linger.0)
    }
}
