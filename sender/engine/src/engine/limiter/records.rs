//! The records of a lane: taken, and known to be durable.

use crate::engine::ids::Revision;
use crate::engine::time::{Instant, Nanos};

/// In a lane with window caps a record follows after this many ends or this much time, which bounds the ends
/// that the store must list.
const ENDS_MAX: u32 = 1_024;
const AGE_MAX: Nanos = Nanos::MINUTE;

#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    pub(super) taken: u64,
    pub(super) durable: u64,
    /// Nothing starts before this record is durable.
    pub(super) required: u64,
    /// State that a crash must not lose has changed since the last record.
    pub(super) stale: bool,
    /// The bound on level plus in flight in the last record.
    pub(super) full: u32,
    /// Ends since the last record that a window counts.
    ends: u32,
    at: Instant,
}

impl Records {
    /// Nothing starts until a record of the present state is durable.
    pub(super) fn require(&mut self) {
        self.required = self.taken + 1;
        self.stale = true;
    }

    /// True if the required record is durable.
    pub(super) fn cover(&self) -> bool {
        self.durable >= self.required
    }

    /// At most one record is on its way to the store.
    pub(super) fn are_due(&self, unsaved: bool) -> bool {
        (self.stale || unsaved) && self.taken == self.durable
    }

    pub(super) fn take(&mut self, full: u32, now: Instant) -> Revision {
        (self.stale, self.full, self.ends, self.at) = (false, full, 0, now);
        self.taken += 1;
        Revision(self.taken)
    }

    /// A window counts this end.
    pub(super) fn count_end(&mut self, now: Instant) {
        self.ends += 1;
        self.stale |= self.ends >= ENDS_MAX || now.since(self.at) >= AGE_MAX;
    }
}
