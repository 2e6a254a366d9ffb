//! The behaviours of an endpoint: when, for which requests, and their effect in place of a 204.

use serde::{Deserialize, Serialize};

use super::quantity::{Duration, Millionths, Range, Rate, SECOND, Size, Whole};
use super::reader::{Form, Reader, Section, WordOrCount, may, must};

const WORDS: [&str; 12] = [
    "refuse",
    "no-accept",
    "reset",
    "reset-after-read",
    "close",
    "half-answer",
    "stall",
    "blackhole",
    "drip",
    "huge-answer",
    "enforce",
    "wrong-certificate",
];

pub(super) const BEHAVIOUR: Section = Section {
    about: "A misbehaviour of the endpoint for a while. The first one that matches wins; otherwise the \
        endpoint answers 204. A behaviour that shuts the port (refuse to all, no-accept) must precede \
        others at the same time.",
    fields: &[
        may("at", Form::Duration, "its start, since the run began (default 0s)"),
        may("lasts", Form::Duration, "its length (default: to the end)"),
        must("answer", Form::Either(&Form::Count, &Form::Word(&WORDS)), "a status, or a fault"),
        may("share", Form::Decimal, "the share of requests, drawn by the seed (default 1: all)"),
        may(
            "attempts",
            Form::Counts,
            "only attempts with these numbers, from 1, as the endpoint counts them",
        ),
        may("latency", Form::Durations, "the answer time (default: the subscriber's `answers`)"),
        may(
            "serves",
            Form::Duration,
            "serves one request at a time, for this long: the more requests are in flight, the longer the \
                answers take",
        ),
        may("retry_after", Form::Duration, "Retry-After in whole seconds"),
        may("retry_after_date", Form::Duration, "Retry-After as an HTTP date this far ahead"),
        may("retry_after_text", Form::Text, "Retry-After with exactly this text, even if it is invalid"),
        may("location", Form::Text, "where a redirect points"),
        may("body_bytes", Form::Size, "the size of the answer's body (huge-answer: default 64MiB)"),
        may("limit", Form::Rate, "enforce: the endpoint's own limit; beyond it, 429 with Retry-After"),
        may("burst", Form::Count, "enforce: how many at once (default: one second of the limit, at least 1)"),
        may("pace", Form::Duration, "drip: the time between two bytes (default 1s)"),
        may(
            "certificate",
            Form::Word(&Certificate::NAMES),
            "wrong-certificate: the one thing that is wrong with the certificate of new connections; the endpoints \
                of the run then speak TLS",
        ),
    ],
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behaviour {
    pub at: Duration,
    pub lasts: Option<Duration>,
    pub answer: Answer,
    pub share: Millionths,
    /// From 1; none for all.
    pub attempts: Option<Range<Whole>>,
    /// None for the subscriber's `answers`.
    pub latency: Option<Range<Duration>>,
    /// Requests are served one after another, each for so long; none if all are served at once.
    pub serves: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Status(Reply),
    Refuse,
    /// The port is open without accepting: a connection waits until the behaviour is over.
    NoAccept,
    Reset,
    ResetAfterRead,
    Close,
    /// Half an answer, then closed.
    HalfAnswer,
    /// Nothing is read until the behaviour is over, then everything at once. A request that was already read,
    /// because an earlier behaviour is limited to some attempts, is answered after that.
    Stall,
    Blackhole,
    /// One byte at a time.
    Drip {
        pace: Duration,
    },
    HugeAnswer {
        body: Size,
    },
    /// 429 with `Retry-After` beyond its own limit; otherwise a normal answer.
    Enforce {
        limit: Rate,
        burst: u32,
    },
    /// New connections are shown a certificate that the sender must refuse. A request that comes all the same is
    /// answered normally.
    WrongCertificate(Certificate),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Certificate {
    /// It expired a month ago.
    Expired,
    OtherName,
    UnknownAuthority,
    SelfSigned,
}

impl Certificate {
    pub const ALL: [Self; 4] = [Self::Expired, Self::OtherName, Self::UnknownAuthority, Self::SelfSigned];

    const NAMES: [&str; Self::ALL.len()] = ["expired", "other-name", "unknown-authority", "self-signed"];

    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

impl Answer {
    /// It never reads them, or reads them late.
    #[must_use]
    pub const fn hides_attempts(&self) -> bool {
        matches!(self, Self::Refuse | Self::NoAccept | Self::Reset | Self::Stall | Self::WrongCertificate(_))
    }

    /// Whether its body is written in several pieces. A sender may have read enough before the last.
    #[must_use]
    pub const fn is_lengthy(&self) -> bool {
        match self {
            Self::HugeAnswer { .. } => true,
            Self::Status(reply) => reply.body.0 > PIECE_BYTES,
            _ => false,
        }
    }
}

/// In bytes.
pub const PIECE_BYTES: u64 = 64 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub retry_after: Option<RetryAfter>,
    pub body: Size,
    pub location: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetryAfter {
    /// In seconds.
    Seconds(u64),
    /// An HTTP date, this long after the answer.
    Date(Duration),
    /// Word for word.
    Text(String),
}

impl RetryAfter {
    /// Whether it has a standard form and asks for a wait.
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        matches!(self, Self::Seconds(1..) | Self::Date(_))
    }
}

impl Behaviour {
    pub(super) fn read_all(readers: &[Reader<'_>]) -> Vec<Self> {
        let read = |reader| Some((reader, Self::read(reader)?));
        let all: Vec<(&Reader<'_>, Self)> = readers.iter().filter_map(read).collect();
        for (place, (reader, own)) in all.iter().enumerate().filter(|(_, (_, own))| own.shuts_the_port()) {
            if let Some((first, _)) = all[..place].iter().find(|(_, first)| first.overlaps(own)) {
                let what = format!(
                    "it shuts the port to every request, but {} precedes it at the same time; put this \
                        one first, or separate the times",
                    first.path()
                );
                reader.wrong("answer", what);
            }
        }
        all.into_iter().map(|(_, own)| own).collect()
    }

    fn read(reader: &Reader<'_>) -> Option<Self> {
        let answer = answer(reader)?;
        let share = reader.or("share", Millionths::ONE);
        if share > Millionths::ONE {
            reader.wrong("share", "expected a share from 0 to 1");
        }
        let behaviour = Self {
            at: reader.or("at", Duration::default()),
            lasts: reader.get("lasts"),
            share,
            attempts: reader.get("attempts"),
            latency: reader.get("latency"),
            serves: reader.get("serves"),
            answer,
        };
        if behaviour.answer == Answer::NoAccept && share != Millionths::ONE {
            reader.wrong("share", "expected none, because `no-accept` applies to all requests");
        }
        if matches!(behaviour.answer, Answer::WrongCertificate(_)) && share != Millionths::ONE {
            reader.wrong("share", "expected none, because a certificate belongs to a connection");
        }
        if matches!(
            behaviour.answer,
            Answer::Refuse | Answer::NoAccept | Answer::Stall | Answer::WrongCertificate(_)
        ) && behaviour.attempts.is_some()
        {
            reader.wrong("attempts", "expected none, because this answer comes before the request is read");
        }
        if behaviour.latency.is_some() && behaviour.serves.is_some() {
            reader.wrong("serves", "expected either `latency` or `serves`, got both");
        }
        idle_keys(reader, &behaviour.answer);
        Some(behaviour)
    }

    /// `t` is in nanoseconds since the run began.
    #[must_use]
    pub fn covers(&self, t: u64) -> bool {
        t >= self.at.0 && self.until().is_none_or(|until| t < until)
    }

    /// Regardless of other behaviours.
    #[must_use]
    pub fn shuts_the_port(&self) -> bool {
        match self.answer {
            Answer::NoAccept => true,
            Answer::Refuse => self.share == Millionths::ONE,
            _ => false,
        }
    }

    pub fn overlaps(&self, other: &Self) -> bool {
        let [own, others] = [self, other].map(|one| one.until().unwrap_or(u64::MAX));
        self.at.max(other.at).0 < own.min(others)
    }

    /// In nanoseconds since the run began; none for never.
    #[must_use]
    pub fn until(&self) -> Option<u64> {
        self.lasts.map(|lasts| self.at.0.saturating_add(lasts.0))
    }
}

fn answer(reader: &Reader<'_>) -> Option<Answer> {
    let word = match reader.get::<WordOrCount>("answer")? {
        WordOrCount::Count(status) => return reply(reader, status),
        WordOrCount::Word(word) => word,
    };
    Some(match word.as_str() {
        "refuse" => Answer::Refuse,
        "no-accept" => Answer::NoAccept,
        "reset" => Answer::Reset,
        "reset-after-read" => Answer::ResetAfterRead,
        "close" => Answer::Close,
        "half-answer" => Answer::HalfAnswer,
        "stall" => Answer::Stall,
        "blackhole" => Answer::Blackhole,
        "drip" => Answer::Drip { pace: reader.or("pace", Duration::from_secs(1)) },
        "huge-answer" => Answer::HugeAnswer { body: reader.or("body_bytes", Size(64 << 20)) },
        "enforce" => enforce(reader)?,
        "wrong-certificate" => Answer::WrongCertificate(certificate(reader)?),
        _ => {
            reader.word("answer", &WORDS.map(|word| (word, ())))?;
            return None;
        }
    })
}

fn reply(reader: &Reader<'_>, status: u64) -> Option<Answer> {
    let Some(status) = u16::try_from(status).ok().filter(|status| (200..=599).contains(status)) else {
        reader.wrong("answer", format!("expected a status from 200 to 599, got {status}"));
        return None;
    };
    let body = reader.or("body_bytes", Size(0));
    Some(Answer::Status(Reply {
        status,
        retry_after: retry_after(reader),
        body,
        location: reader.get("location"),
    }))
}

fn retry_after(reader: &Reader<'_>) -> Option<RetryAfter> {
    let mut given =
        ["retry_after", "retry_after_date", "retry_after_text"].into_iter().filter(|key| reader.has(key));
    if let Some(second) = given.nth(1) {
        reader.wrong(second, "an answer has one Retry-After; keep one of these keys");
    }
    if let Some(Duration(nanos)) = reader.get("retry_after") {
        if !nanos.is_multiple_of(SECOND) {
            reader.wrong("retry_after", "expected whole seconds, as the header has them");
        }
        return Some(RetryAfter::Seconds(nanos / SECOND));
    }
    let date = reader.get("retry_after_date").map(RetryAfter::Date);
    date.or_else(|| reader.get("retry_after_text").map(RetryAfter::Text))
}

fn certificate(reader: &Reader<'_>) -> Option<Certificate> {
    if !reader.has("certificate") {
        let names = Certificate::NAMES.join(", ");
        reader.wrong("certificate", format!("missing; `wrong-certificate` needs one of {names}"));
    }
    reader.word("certificate", &Certificate::ALL.map(|one| (one.name(), one)))
}

fn enforce(reader: &Reader<'_>) -> Option<Answer> {
    if !reader.has("limit") {
        reader.wrong("limit", "missing; `enforce` needs a limit, such as \"5/s\"");
    }
    let limit: Rate = reader.get("limit")?;
    if limit.count == 0 {
        reader.wrong("limit", "expected more than 0");
    }
    let second = limit.count.saturating_mul(SECOND) / limit.per.0;
    let burst = reader.or("burst", u32::try_from(second).unwrap_or(u32::MAX).max(1));
    Some(Answer::Enforce { limit, burst })
}

/// A key that an answer ignores would be a silent mistake.
fn idle_keys(reader: &Reader<'_>, answer: &Answer) {
    let used: &[&str] = match answer {
        Answer::Status(_) => &[
            "latency",
            "serves",
            "retry_after",
            "retry_after_date",
            "retry_after_text",
            "location",
            "body_bytes",
        ],
        Answer::Drip { .. } => &["latency", "pace"],
        Answer::HugeAnswer { .. } => &["latency", "body_bytes"],
        Answer::Enforce { .. } => &["latency", "limit", "burst"],
        Answer::HalfAnswer | Answer::Close | Answer::ResetAfterRead => &["latency"],
        Answer::WrongCertificate(_) => &["certificate"],
        Answer::Refuse | Answer::NoAccept | Answer::Reset | Answer::Stall | Answer::Blackhole => &[],
    };
    let all = [
        "latency",
        "serves",
        "retry_after",
        "retry_after_date",
        "retry_after_text",
        "location",
        "body_bytes",
        "limit",
        "burst",
        "pace",
        "certificate",
    ];
    for key in all.into_iter().filter(|key| reader.has(key) && !used.contains(key)) {
        reader.wrong(key, "does not apply to this answer");
    }
    if matches!(answer, Answer::Stall | Answer::NoAccept) && !reader.has("lasts") {
        reader.wrong(
            "lasts",
            "missing; this answer needs a length, after which all waiting requests are \
            read at once",
        );
    }
}
