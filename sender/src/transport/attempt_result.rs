use super::failure::Failure;
use crate::engine::retry::Meaning;
use crate::engine::{Answer, Outcome, StoreTime};
use crate::store::command::KeptAnswer;

/// The longest answer body that is read, in bytes. Of a longer one only the status counts.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;

pub const HEAD_BYTES_MAX: usize = 32 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum AttemptResult {
    Answered(Answered),
    /// No byte of the request left.
    Unsent(Failure),
    /// No answer, or half of one. The request may still reach the endpoint.
    Silent(Failure),
}

impl AttemptResult {
    /// The outcome for the engine. `at` is when the attempt ended.
    #[must_use]
    pub fn outcome(self, at: StoreTime) -> Outcome {
        match self {
            Self::Answered(Answered { status, retry_after, date, .. }) => {
                Outcome::Answered(Answer { status, retry_after, date, at })
            }
            Self::Unsent(failure) if failure.is_ours() => Outcome::Withheld,
            Self::Unsent(failure) if failure.is_the_proxys() => Outcome::ProxyFailed,
            Self::Unsent(Failure::Unpermitted(refusal)) => Outcome::Unpermitted(refusal),
            Self::Unsent(_) => Outcome::Unsent,
            Self::Silent(failure) if failure.is_ours() => Outcome::CutOff,
            Self::Silent(_) => Outcome::Silent,
        }
    }

    #[must_use]
    pub const fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Answered(_) => None,
            Self::Unsent(failure) | Self::Silent(failure) => Some(failure),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    pub status: u16,
    pub retry_after: Option<Box<[u8]>>,
    /// Verbatim.
    pub date: Option<Box<[u8]>>,
    /// The body exceeded the limit.
    pub cut: bool,
    /// The beginning of a failure's answer.
    pub(super) kept: Option<Box<KeptAnswer>>,
}

impl Answered {
    /// A date has 29 bytes.
    const VALUE_BYTES_MAX: usize = 64;

    pub(super) fn of(status: u16, retry_after: Option<&[u8]>, date: Option<&[u8]>) -> Self {
        let kept = |value: &[u8]| (value.len() <= Self::VALUE_BYTES_MAX).then(|| value.into());
        let (retry_after, date) = (retry_after.and_then(kept), date.and_then(kept));
        Self { status, retry_after, date, cut: false, kept: None }
    }

    pub(super) fn keep<'h>(&mut self, header: impl Fn(&'static str) -> Option<&'h [u8]>) {
        if Meaning::of(self.status) != Meaning::Success {
            self.kept = Some(Box::new(KeptAnswer::with_headers(header)));
        }
    }

    pub(super) fn add_body(&mut self, bytes: &[u8]) {
        if let Some(kept) = &mut self.kept {
            kept.add_body(bytes);
        }
    }
}
