//! How an attempt ended.

use super::failure::Failure;
use crate::engine::{Answer, Outcome, StoreTime};

/// The longest answer's body that is read, in bytes. Of a longer one the status counts, and the rest is not wanted.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The longest answer's head that is read, in bytes.
pub const HEAD_BYTES_MAX: usize = 32 * 1024;

/// How one attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum AttemptResult {
    /// An answer came.
    Answered(Answered),
    /// Surely not one byte of the request left.
    Unsent(Failure),
    /// No answer, or half of one. The request may still reach the endpoint.
    Silent(Failure),
}

impl AttemptResult {
    /// The same as the engine wants to hear it. The time is that at which the attempt ended.
    #[must_use]
    pub fn outcome(self, at: StoreTime) -> Outcome {
        match self {
            Self::Answered(Answered { status, retry_after, date, .. }) => {
                Outcome::Answered(Answer { status, retry_after, date, at })
            }
            Self::Unsent(failure) if failure.is_ours() => Outcome::Withheld,
            Self::Unsent(_) => Outcome::Unsent,
            Self::Silent(failure) if failure.is_ours() => Outcome::CutOff,
            Self::Silent(_) => Outcome::Silent,
        }
    }

    /// Why no answer came.
    #[must_use]
    pub const fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Answered(_) => None,
            Self::Unsent(failure) | Self::Silent(failure) => Some(failure),
        }
    }
}

/// What is kept of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The HTTP status.
    pub status: u16,
    /// The value of `Retry-After`, as it came.
    pub retry_after: Option<Box<[u8]>>,
    /// The value of `Date`, as it came.
    pub date: Option<Box<[u8]>>,
    /// The body was longer than is read.
    pub cut: bool,
}

impl Answered {
    /// The longest value that is kept; a date has 29 bytes, and what is longer is neither date nor seconds.
    const VALUE_BYTES_MAX: usize = 64;

    pub(super) fn of(status: u16, retry_after: Option<&[u8]>, date: Option<&[u8]>) -> Self {
        let kept = |value: &[u8]| (value.len() <= Self::VALUE_BYTES_MAX).then(|| value.into());
        Self { status, retry_after: retry_after.and_then(kept), date: date.and_then(kept), cut: false }
    }
}
