//! A partner's endpoint: its contract, retries, signature and behaviours.

use std::collections::BTreeSet;

use super::behaviour::{BEHAVIOUR, Behaviour};
use super::contract::{BREAKER, Breaker, LIMIT, Limit, QUEUE, Queue, RETRY, Retry};
use super::quantity::{Duration, Range};
use super::reader::{Form, Reader, Section, may, must};
use crate::signature::Profile;

pub(super) const SUBSCRIBER: Section = Section {
    about: "An endpoint and its contract, or several of the same kind.",
    fields: &[
        must("name", Form::Text, "its name; several of a kind get the names name-1, name-2, …"),
        may("count", Form::Count, "how many of this kind (default 1)"),
        may(
            "events",
            Form::List(&Form::Text),
            "the event types that it receives: *, video.trending, video.* (default all)",
        ),
        may("limit", Form::Table(&LIMIT), "the limits of its contract"),
        may("queue", Form::Table(&QUEUE), "the bounds of its queue"),
        may(
            "sign",
            Form::Word(&Profile::NAMES),
            "the way to sign its deliveries (default standard-webhooks)",
        ),
        may("timeout", Form::Duration, "the longest time of an attempt (default 8s)"),
        may("retry", Form::Table(&RETRY), "when a failed attempt is retried"),
        may(
            "breaker",
            Form::Table(&BREAKER),
            "when a failing endpoint is paused (default: as the sender decides)",
        ),
        may("coalesce", Form::Tables(&COALESCE), "events of which only the newest is delivered"),
        may(
            "dedupe",
            Form::Duration,
            "two events with one id within this time are the same event (default 10min)",
        ),
        may(
            "ordered",
            Form::Flag,
            "whether the first attempts of one key must arrive in order (default false)",
        ),
        may(
            "permission",
            Form::Table(&PERMISSION),
            "the permission that a sender asks its endpoint for (default: it needs none)",
        ),
        may("answers", Form::Durations, "the endpoint's answer time while it behaves (default 5ms)"),
        may("behaviour", Form::Tables(&BEHAVIOUR), "its misbehaviour; the first that matches wins"),
    ],
};

const PERMISSION: Section = Section {
    about: "The handshake of CloudEvents HTTP WebHook 1.0.2: by OPTIONS the endpoint permits one origin, at any rate.",
    fields: &[
        must("origin", Form::Text, "the sender's name in DNS"),
        may("refusals", Form::Count, "how many requests for it are refused first (default 0)"),
    ],
};

const COALESCE: Section = Section {
    about: "Of several events with one type and key inside a window, only the newest is delivered.",
    fields: &[
        must("type", Form::Text, "the event type"),
        must("window", Form::Duration, "how long the first event waits for newer ones"),
    ],
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscriber {
    /// Unique in the scenario: `ingest`, or `ingest-3` for one of several.
    pub name: String,
    pub group: String,
    pub events: Vec<Pattern>,
    pub limit: Limit,
    pub queue: Queue,
    pub sign: Profile,
    pub timeout: Duration,
    pub retry: Retry,
    pub breaker: Option<Breaker>,
    pub handling: Handling,
    pub permission: Option<Permission>,
    pub answers: Range<Duration>,
    /// The first match wins.
    pub behaviours: Vec<Behaviour>,
    pub written: BTreeSet<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handling {
    pub coalesce: Vec<Coalesce>,
    /// How long an equal event id counts as the same event.
    pub dedupe: Duration,
    pub ordered: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    pub origin: String,
    pub refusals: u64,
}

/// Within a window, only the newest event of a type and key is delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coalesce {
    pub kind: String,
    /// From the first event.
    pub window: Duration,
}

/// `*`, `video.trending`, `video.*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `video.*` matches everything below `video`, at any depth, but not `video`.
    #[must_use]
    pub fn matches(&self, kind: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(prefix) => kind.starts_with(prefix),
            None => self.0 == kind,
        }
    }

    fn is_sound(&self) -> bool {
        let fixed = self.0.strip_suffix('*').unwrap_or(&self.0);
        let whole = self.0 == "*" || (self.0.ends_with('*') && fixed.ends_with('.')) || !self.0.contains('*');
        whole && !self.0.is_empty() && !fixed.contains('*')
    }
}

impl Subscriber {
    #[must_use]
    pub fn is_owed(&self, kind: &str) -> bool {
        self.events.iter().any(|pattern| pattern.matches(kind))
    }

    /// Their numbers are then unknown.
    #[must_use]
    pub fn hides_attempts(&self) -> bool {
        self.behaviours.iter().any(|behaviour| behaviour.answer.hides_attempts())
    }

    /// Unique to it, so that a misdirected request is noticed.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/hooks/{}", self.name)
    }

    pub const TIMEOUT: Duration = Duration::from_secs(8);

    /// All groups together.
    pub const COUNT_MAX: u64 = 100_000;

    /// The subscribers of one `[[subscriber]]`; more than `room` are a problem.
    pub(super) fn read(reader: &Reader<'_>, room: u64) -> Vec<Self> {
        let Some(one) = Self::read_one(reader) else { return Vec::new() };
        match reader.or("count", 1_u64) {
            0 => {
                reader.wrong("count", "expected at least 1");
                Vec::new()
            }
            count if count > room => {
                reader.wrong("count", format!("expected at most {}, all groups together", Self::COUNT_MAX));
                Vec::new()
            }
            1 => vec![one],
            count => {
                let numbered = |at| Self { name: format!("{}-{at}", one.group), ..one.clone() };
                (1..=count).map(numbered).collect()
            }
        }
    }

    fn read_one(reader: &Reader<'_>) -> Option<Self> {
        let name: String = reader.get("name")?;
        let fine = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        if name.is_empty() || name.len() > 64 || !name.chars().all(fine) {
            reader.wrong("name", "expected 1 to 64 letters, digits, dots, dashes or underscores");
        }
        let timeout = reader.or("timeout", Self::TIMEOUT);
        if timeout == Duration(0) {
            reader.wrong("timeout", "expected more than 0s");
        }
        Some(Self {
            group: name.clone(),
            name,
            events: patterns(reader),
            limit: reader.table("limit").map_or_else(Limit::default, |limit| Limit::read(&limit)),
            queue: reader.table("queue").map_or_else(Queue::default, |queue| Queue::read(&queue)),
            sign: reader.word("sign", &Profile::NAMED).unwrap_or(Profile::STANDARD_WEBHOOKS),
            timeout,
            retry: reader.table("retry").map_or_else(Retry::default, |retry| Retry::read(&retry)),
            breaker: reader.table("breaker").map(|breaker| Breaker::read(&breaker)),
            handling: Handling {
                coalesce: reader.tables("coalesce").iter().filter_map(coalesce).collect(),
                dedupe: reader.or("dedupe", Duration::from_secs(600)),
                ordered: reader.or("ordered", false),
            },
            permission: reader.table("permission").and_then(|table| {
                Some(Permission { origin: table.get("origin")?, refusals: table.or("refusals", 0) })
            }),
            answers: reader.or("answers", Range::just(Duration::from_millis(5))),
            behaviours: Behaviour::read_all(&reader.tables("behaviour")),
            written: reader.written(),
        })
    }
}

fn patterns(reader: &Reader<'_>) -> Vec<Pattern> {
    let texts: Vec<String> = reader.or("events", vec!["*".to_owned()]);
    let patterns: Vec<Pattern> = texts.into_iter().map(Pattern).collect();
    if patterns.is_empty() {
        reader.wrong("events", "expected at least one pattern");
    }
    for pattern in patterns.iter().filter(|pattern| !pattern.is_sound()) {
        let what = format!("{:?} is not a pattern; expected *, video.trending or video.*", pattern.as_str());
        reader.wrong("events", what);
    }
    patterns
}

fn coalesce(reader: &Reader<'_>) -> Option<Coalesce> {
    Some(Coalesce { kind: reader.get("type")?, window: reader.get("window")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_its_types_and_no_others() {
        let rows = [
            ("*", "video.trending", true),
            ("video.trending", "video.trending", true),
            ("video.trending", "video.trending.now", false),
            ("video.*", "video.rank.updated", true),
            ("video.*", "video", false),
            ("video.*", "videos.new", false),
        ];
        for (pattern, kind, expected) in rows {
            assert_eq!(Pattern(pattern.to_owned()).matches(kind), expected, "{pattern} {kind}");
        }
    }

    #[test]
    fn only_a_last_part_may_be_a_star() {
        for (pattern, sound) in
            [("*", true), ("a.*", true), ("a", true), ("a*", false), ("*.a", false), ("", false)]
        {
            assert_eq!(Pattern(pattern.to_owned()).is_sound(), sound, "{pattern}");
        }
    }
}
