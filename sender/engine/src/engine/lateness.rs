//! How late a request may still arrive.

use super::range::{OutOfRange, within};
use super::time::Nanos;

/// The longest total deadline of an attempt.
pub const DEADLINE_MAX: Nanos = Nanos::MINUTE.times(5);
/// The longest quarantine, and the longest doubt.
pub const DOUBT_MAX: Nanos = Nanos::HOUR;

/// How late a request may still reach its endpoint. An attempt that ended without an answer is *in doubt*: it may arrive
/// until `doubt` has passed since its end, or `quarantine` since the answer to an attempt that began after its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lateness {
    deadline: Nanos,
    quarantine: Nanos,
    doubt: Nanos,
}

impl Lateness {
    /// The longest that any settings allow.
    pub const LONGEST: Self = Self { deadline: DEADLINE_MAX, quarantine: DOUBT_MAX, doubt: DOUBT_MAX };

    /// Attempts that take `deadline` at the longest, from their start to their end.
    ///
    /// # Errors
    /// When `deadline` is over 5 minutes, or one of the others over 1 hour.
    pub fn new(deadline: Nanos, quarantine: Nanos, doubt: Nanos) -> Result<Self, OutOfRange> {
        within("timeout", deadline, Nanos::ZERO..=DEADLINE_MAX)?;
        within("limit.quarantine", quarantine, Nanos::ZERO..=DOUBT_MAX)?;
        within("limit.doubt", doubt, Nanos::ZERO..=DOUBT_MAX)?;
        Ok(Self { deadline, quarantine, doubt })
    }

    /// The longest that an attempt may take. Nothing here goes by it: owners of versions before this one are told it by records.
    #[must_use]
    pub fn deadline(self) -> Nanos {
        self.deadline
    }

    /// How long after an answer to a later attempt a request may still arrive.
    #[must_use]
    pub fn quarantine(self) -> Nanos {
        self.quarantine
    }

    /// How long after its attempt was given up a request may still arrive.
    #[must_use]
    pub fn doubt(self) -> Nanos {
        self.doubt
    }

    /// The longer of each.
    #[must_use]
    pub fn longer(self, other: Self) -> Self {
        Self {
            deadline: self.deadline.max(other.deadline),
            quarantine: self.quarantine.max(other.quarantine),
            doubt: self.doubt.max(other.doubt),
        }
    }
}
