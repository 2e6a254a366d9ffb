//! The expectation of a correct receiver's answer.

use std::fmt;

use crate::wire::exchange::Outcome;

/// The most characters of a header that are shown; a date has 29.
const SHOWN_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    Accept,
    AcceptOrLength,
    /// 200 with the answer to a handshake, which the case compares.
    Greeting,
    /// Anything but the answer to a handshake, which the shot compares. 5xx counts as an accident.
    Unanswered,
    /// 401 to a forgery. 5xx counts as an accident.
    Unauthorized,
    /// 4xx to a forgery. 5xx counts as an accident.
    Reject,
    /// The same for a method that the receiver need not know: 501 says so (RFC 9110, section 15.6.2).
    RejectOrUnknown,
    /// 4xx to a request that may crash a receiver; 5xx is the failure.
    Refuse,
    RejectOrClose,
    /// Anything but 5xx, silence and a lost connection, where only the input can break a receiver.
    NoBreak,
    /// The same where memory, time or a store can break it too.
    NoFailure,
    NotTaken,
    /// Anything; it is only reported.
    Report,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wrong {
    /// A request that 4xx should refuse was accepted; whether it had a signature header.
    Accepted {
        is_signed: bool,
    },
    /// The receiver's code failed (500: RFC 9110, section 15.6.1) where 4xx would do.
    Broke,
    Other(String, &'static str),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted { .. } => f.write_str("2xx where 4xx is due"),
            Self::Broke => f.write_str("500 where 4xx is due"),
            Self::Other(came, due) => write!(f, "{came} where {due} is due"),
        }
    }
}

impl Want {
    pub(super) fn wrong(self, outcome: &Outcome, is_signed: bool) -> Option<Wrong> {
        let refuses =
            matches!(self, Self::Reject | Self::RejectOrUnknown | Self::Refuse | Self::Unauthorized);
        match outcome {
            outcome if self.is_met(outcome) => None,
            Outcome::Answer(answer) if refuses && (200..300).contains(&answer.status) => {
                Some(Wrong::Accepted { is_signed })
            }
            Outcome::Answer(answer) if answer.status == 500 && (refuses || self == Self::NoBreak) => {
                Some(Wrong::Broke)
            }
            outcome => Some(Wrong::Other(words(outcome), self.words())),
        }
    }

    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Accept => "2xx",
            Self::AcceptOrLength => "2xx or 411",
            Self::Greeting => "200 with the handshake's answer",
            Self::Unanswered => "no answer to a handshake",
            Self::Unauthorized => "401",
            Self::RejectOrUnknown => "4xx or 501",
            Self::Reject | Self::Refuse => "4xx",
            Self::RejectOrClose => "4xx or closed",
            Self::NoBreak | Self::NoFailure => "2xx or 4xx",
            Self::NotTaken => "not 2xx",
            Self::Report => "any answer",
        }
    }

    /// Whether a forgery was refused only because the receiver failed.
    pub(super) fn is_accident(self, outcome: &Outcome) -> bool {
        let refuses =
            matches!(self, Self::Reject | Self::RejectOrUnknown | Self::Unauthorized | Self::Unanswered);
        refuses && matches!(outcome, Outcome::Answer(answer) if answer.status >= 500) && !self.is_met(outcome)
    }

    pub(super) fn is_met(self, outcome: &Outcome) -> bool {
        let status = match outcome {
            Outcome::Answer(answer) => answer.status,
            Outcome::Closed => return matches!(self, Self::RejectOrClose | Self::Unanswered | Self::Report),
            Outcome::Silent => return matches!(self, Self::Unanswered | Self::Report),
            Outcome::Unreachable(_) | Outcome::Malformed(_) => return self == Self::Report,
        };
        match self {
            Self::Accept => (200..300).contains(&status),
            Self::AcceptOrLength => (200..300).contains(&status) || status == 411,
            Self::Greeting => status == 200,
            Self::Unanswered => status < 500,
            Self::Unauthorized => status == 401,
            Self::RejectOrUnknown => (400..500).contains(&status) || status == 501,
            Self::Reject | Self::Refuse | Self::RejectOrClose => (400..500).contains(&status),
            Self::NoBreak | Self::NoFailure => (200..300).contains(&status) || (400..500).contains(&status),
            Self::NotTaken => (300..500).contains(&status) || status == 501,
            Self::Report => true,
        }
    }
}

/// The receiver's text, which reaches a terminal and files.
pub(super) fn plain(text: &str) -> String {
    text.chars().filter(|c| matches!(c, ' '..='~')).take(SHOWN_MAX).collect()
}

pub(super) fn words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Answer(answer) => match answer.header("retry-after") {
            Some(after) => format!("{} (Retry-After: {})", answer.status, plain(&after)),
            None => answer.status.to_string(),
        },
        Outcome::Closed => "closed without an answer".to_owned(),
        Outcome::Silent => "no answer in time".to_owned(),
        Outcome::Unreachable(why) => format!("no connection ({why})"),
        Outcome::Malformed(why) => format!("not HTTP ({why})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::answer::Answer;

    #[test]
    fn a_forgery_answered_with_5xx_is_rejected_by_accident_and_what_must_be_withstood_is_not() {
        let answered = |status| {
            Outcome::Answer(Answer { status, headers: Vec::new(), body: Vec::new(), keeps_open: false })
        };
        for (want, status, met, accident) in [
            (Want::Reject, 401, true, false),
            (Want::Reject, 500, false, true),
            (Want::Reject, 503, false, true),
            (Want::Reject, 204, false, false),
            (Want::Reject, 501, false, true),
            (Want::RejectOrUnknown, 501, true, false),
            (Want::Unauthorized, 401, true, false),
            (Want::Unauthorized, 403, false, false),
            (Want::Unauthorized, 500, false, true),
            (Want::Unanswered, 200, true, false),
            (Want::Unanswered, 500, false, true),
            (Want::RejectOrUnknown, 500, false, true),
            (Want::Refuse, 400, true, false),
            (Want::Refuse, 500, false, false),
        ] {
            let outcome = answered(status);
            assert_eq!(
                (want.is_met(&outcome), want.is_accident(&outcome)),
                (met, accident),
                "{want:?} {status}"
            );
        }
        assert!(!Want::Reject.is_accident(&Outcome::Closed) && !Want::Reject.is_met(&Outcome::Closed));
        assert!(Want::Unanswered.is_met(&Outcome::Silent) && !Want::Reject.is_met(&Outcome::Silent));
    }

    #[test]
    fn exchanges_go_wrong_alike_only_where_one_cause_explains_them() {
        let answered = |status| {
            Outcome::Answer(Answer { status, headers: Vec::new(), body: Vec::new(), keeps_open: false })
        };
        for (want, status, expected) in [
            (Want::Reject, 401, None),
            (Want::Reject, 204, Some("2xx where 4xx is due")),
            (Want::Refuse, 200, Some("2xx where 4xx is due")),
            (Want::Reject, 500, Some("500 where 4xx is due")),
            (Want::NoBreak, 500, Some("500 where 4xx is due")),
            (Want::NoFailure, 500, Some("500 where 2xx or 4xx is due")),
            (Want::Reject, 502, Some("502 where 4xx is due")),
            (Want::RejectOrClose, 500, Some("500 where 4xx or closed is due")),
            (Want::Accept, 500, Some("500 where 2xx is due")),
            (Want::Accept, 401, Some("401 where 2xx is due")),
        ] {
            let wrong = want.wrong(&answered(status), true).map(|wrong| wrong.to_string());
            assert_eq!(wrong.as_deref(), expected, "{want:?} {status}");
        }
        assert_eq!(Want::Accept.wrong(&answered(500), true), Some(Wrong::Other("500".to_owned(), "2xx")));
        assert_eq!(Want::NoBreak.wrong(&answered(500), false), Some(Wrong::Broke));
    }

    #[test]
    fn a_redirect_is_neither_taken_nor_refused() {
        let rows = [(204, true), (302, false), (304, false), (400, true), (422, true), (500, false)];
        for (status, met) in rows {
            let answer = Answer { status, headers: Vec::new(), body: Vec::new(), keeps_open: false };
            assert_eq!(Want::NoBreak.is_met(&Outcome::Answer(answer)), met, "{status}");
        }
    }

    #[test]
    fn text_of_a_receiver_is_escaped_for_the_terminal() {
        let said = [b"\x1b]0;owned\x07 ".as_slice(), "\u{fffe}é".as_bytes(), &[b'9'; 5_000]].concat();
        let headers = vec![("Retry-After".to_owned(), said)];
        let answer = Answer { status: 503, headers, body: Vec::new(), keeps_open: false };
        let nines = "9".repeat(SHOWN_MAX - "]0;owned ".len());
        assert_eq!(words(&Outcome::Answer(answer)), format!("503 (Retry-After: ]0;owned {nines})"));
    }
}
