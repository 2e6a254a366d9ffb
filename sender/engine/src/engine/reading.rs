//! The meaning of an outcome for each part of a lane.

use super::breaker::Health;
use super::limiter::End;
use super::message::{Answer, Outcome};
use super::pressure::Strain;
use super::retry::Meaning;
use super::retry_after::retry_after;
use super::time::Nanos;

pub(super) struct Reading {
    pub(super) meaning: Meaning,
    pub(super) health: Health,
    pub(super) strain: Strain,
    /// The pause that the endpoint asked for.
    pub(super) pause: Option<Nanos>,
}

impl Reading {
    pub(super) fn of(outcome: &Outcome, retry_after_cap: Nanos) -> Self {
        let Outcome::Answered(answer) = outcome else {
            return Self {
                meaning: Meaning::Failure,
                health: Health::Ill,
                strain: Strain::Failed,
                pause: None,
            };
        };
        let meaning = Meaning::of(answer.status);
        let pause = asked_pause(answer, retry_after_cap);
        let health = match meaning {
            Meaning::Success => Health::Well,
            Meaning::Failure if pause.is_some() => Health::Busy,
            Meaning::Gone | Meaning::Failure => Health::Ill,
        };
        let strain = match meaning {
            Meaning::Success => Strain::None,
            Meaning::Failure if answer.status == 429 => Strain::Refused,
            Meaning::Gone | Meaning::Failure => Strain::Failed,
        };
        Self { meaning, health, strain, pause }
    }
}

impl From<&Outcome> for End {
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Answered(_) => Self::Answered,
            Outcome::Unsent | Outcome::Withheld => Self::Unsent,
            Outcome::Silent => Self::Silent,
            Outcome::CutOff => Self::CutOff,
        }
    }
}

/// Only `Retry-After` on 429 and 503 counts. A value of 0 leaves the delay to the backoff.
fn asked_pause(answer: &Answer, cap: Nanos) -> Option<Nanos> {
    if !matches!(answer.status, 429 | 503) {
        return None;
    }
    let value = answer.retry_after.as_deref()?;
    retry_after(value, answer.date.as_deref(), answer.at, cap).filter(|&pause| pause > Nanos::ZERO)
}
