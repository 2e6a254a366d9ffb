//! The bounds of a request's late arrival.

use super::range::{OutOfRange, within};
use super::time::Nanos;

/// The longest total deadline of an attempt.
pub const DEADLINE_MAX: Nanos = Nanos::MINUTE.times(5);
/// The longest quarantine, and the longest doubt.
pub const DOUBT_MAX: Nanos = Nanos::HOUR;

/// An attempt that ended without an answer is *in doubt*: it may still arrive. It may arrive until `doubt`
/// after its end, or until `quarantine` after the answer to an attempt that began after its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lateness {
    deadline: Nanos,
    quarantine: Nanos,
    doubt: Nanos,
}

impl Lateness {
    /// The longest times that any settings allow.
    pub const LONGEST: Self = Self { deadline: DEADLINE_MAX, quarantine: DOUBT_MAX, doubt: DOUBT_MAX };

    /// `deadline` is the longest time from an attempt's start to its end.
    ///
    /// # Errors
    /// Fails if `deadline` is over 5 minutes, or one of the others over 1 hour.
    pub fn new(deadline: Nanos, quarantine: Nanos, doubt: Nanos) -> Result<Self, OutOfRange> {
        within("timeout", deadline, Nanos::ZERO..=DEADLINE_MAX)?;
        within("limit.quarantine", quarantine, Nanos::ZERO..=DOUBT_MAX)?;
        within("limit.doubt", doubt, Nanos::ZERO..=DOUBT_MAX)?;
        Ok(Self { deadline, quarantine, doubt })
    }

    /// The longest duration of an attempt.
    #[must_use]
    pub fn deadline(self) -> Nanos {
        self.deadline
    }

    /// How long after the answer to a later attempt a request may still arrive.
    #[must_use]
    pub fn quarantine(self) -> Nanos {
        self.quarantine
    }

    /// How long after its attempt ended a request may still arrive.
    #[must_use]
    pub fn doubt(self) -> Nanos {
        self.doubt
    }

    /// The longer of each time.
    #[must_use]
    pub fn longer(self, other: Self) -> Self {
        Self {
            deadline: self.deadline.max(other.deadline),
            quarantine: self.quarantine.max(other.quarantine),
            doubt: self.doubt.max(other.doubt),
        }
    }
}
