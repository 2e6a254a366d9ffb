//! What a correct receiver does with a request, and whether this one did.

use crate::wire::exchange::Outcome;

/// What a correct receiver does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// 2xx.
    Accept,
    /// 4xx.
    Reject,
    /// 4xx, or the connection closed.
    RejectOrClose,
    /// Anything but 5xx, silence and a lost connection.
    NoBreak,
    /// An answer that isn't 2xx.
    NotTaken,
    /// Anything at all: it is reported.
    Report,
}

impl Want {
    /// In words.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Accept => "2xx",
            Self::Reject => "4xx",
            Self::RejectOrClose => "4xx or closed",
            Self::NoBreak => "2xx or 4xx",
            Self::NotTaken => "not 2xx",
            Self::Report => "any answer",
        }
    }

    /// Whether the receiver did it.
    pub(super) fn is_met(self, outcome: &Outcome) -> bool {
        let status = match outcome {
            Outcome::Answer(answer) => answer.status,
            Outcome::Closed => return matches!(self, Self::RejectOrClose | Self::Report),
            Outcome::Silent | Outcome::Unreachable(_) | Outcome::Malformed(_) => return self == Self::Report,
        };
        match self {
            Self::Accept => (200..300).contains(&status),
            Self::Reject | Self::RejectOrClose => (400..500).contains(&status),
            Self::NoBreak => (200..500).contains(&status),
            Self::NotTaken => (300..500).contains(&status) || status == 501,
            Self::Report => true,
        }
    }
}

/// An outcome in a few words.
pub(super) fn words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Answer(answer) => match answer.header("retry-after") {
            Some(after) => format!("{} (Retry-After: {after})", answer.status),
            None => answer.status.to_string(),
        },
        Outcome::Closed => "closed without an answer".to_owned(),
        Outcome::Silent => "no answer in time".to_owned(),
        Outcome::Unreachable(why) => format!("no connection ({why})"),
        Outcome::Malformed(why) => format!("no HTTP ({why})"),
    }
}
