//! Which records of a lane were taken, and which are known to be durable.

use crate::engine::ids::Revision;
use crate::engine::time::{Instant, Nanos};

/// In a lane with window caps a record follows after so many ends of attempts, or so long after the one before, so that
/// what ended since can be told from the store.
const ENDS_MAX: u32 = 1_024;
const AGE_MAX: Nanos = Nanos::MINUTE;

/// The records of one ownership, by their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    /// The last one taken.
    pub(super) taken: u64,
    /// The last one known to be durable.
    pub(super) durable: u64,
    /// Nothing starts before this one is durable.
    pub(super) required: u64,
    /// What a crash must not forget has changed since the last one.
    pub(super) stale: bool,
    /// The most that level and attempts in flight may come to, as the last one says.
    pub(super) full: u32,
    /// Ends of attempts since the last one, where a window counts them.
    ends: u32,
    at: Instant,
}

impl Records {
    /// Nothing starts until a record of what is now is durable.
    pub(super) fn require(&mut self) {
        self.required = self.taken + 1;
        self.stale = true;
    }

    /// Whether what must be durable is.
    pub(super) fn cover(&self) -> bool {
        self.durable >= self.required
    }

    /// Whether one is to be taken now. One at a time is on its way to the store.
    pub(super) fn are_due(&self, unsaved: bool) -> bool {
        (self.stale || unsaved) && self.taken == self.durable
    }

    pub(super) fn take(&mut self, full: u32, now: Instant) -> Revision {
        (self.stale, self.full, self.ends, self.at) = (false, full, 0, now);
        self.taken += 1;
        Revision(self.taken)
    }

    /// An attempt ended that a window counts.
    pub(super) fn count_end(&mut self, now: Instant) {
        self.ends += 1;
        self.stale |= self.ends >= ENDS_MAX || now.since(self.at) >= AGE_MAX;
    }
}
