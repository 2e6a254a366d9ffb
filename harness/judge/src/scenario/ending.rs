//! When a run is over, real or simulated.

use super::Scenario;

/// How a run stands once everything was offered and every fault is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Since when that is so, in nanoseconds since the run began.
    pub since: u64,
    /// Whether nothing is owed any more.
    pub settled: bool,
    /// Whether an exchange is open at an endpoint.
    pub open: bool,
    /// When the latest request came.
    pub came: u64,
}

impl Scenario {
    /// Whether the run is over: once nothing is owed, and for `linger` nothing came and no exchange is open; when `drain` is
    /// over and something is still owed; and when both are over, whatever comes.
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
