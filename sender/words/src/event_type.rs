//! Event types, `video.trending`, and their patterns: `*`, `video.trending`, `video.*`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::text_form;

text_form!(EventType, "an event type, such as \"video.trending\"");

/// Its characters are safe in a header, a log line and a metric.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventType(Box<str>);

impl EventType {
    pub const BYTES_MAX: usize = 128;
    /// Types below this are the sender's own: no emitter may use them.
    pub const RESERVED: &str = "hookproof.";

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    #[must_use]
    pub fn is_reserved(&self) -> bool {
        self.0.starts_with(Self::RESERVED)
    }
}

impl FromStr for EventType {
    type Err = EventTypeError;

    fn from_str(text: &str) -> Result<Self, EventTypeError> {
        check(text)?;
        Ok(Self(text.into()))
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn check(text: &str) -> Result<(), EventTypeError> {
    if text.is_empty() {
        return Err(EventTypeError::Empty);
    }
    if text.len() > EventType::BYTES_MAX {
        return Err(EventTypeError::TooLong { bytes: text.len() });
    }
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '-');
    match text.char_indices().find(|(_, letter)| !allowed(*letter)) {
        Some((at, letter)) => Err(EventTypeError::Character { letter, at }),
        None => Ok(()),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventTypeError {
    #[error("the event type is empty; expected one such as video.trending")]
    Empty,
    #[error("the event type has {bytes} bytes; at most {} are accepted", EventType::BYTES_MAX)]
    TooLong { bytes: usize },
    #[error("the event type has {letter:?} at byte {at}; expected letters, digits, '_', '.' and '-'")]
    Character { letter: char, at: usize },
}

text_form!(Pattern, "an event pattern, such as \"*\", \"video.trending\" or \"video.*\"");

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// All types but reserved ones: `*`.
    All,
    Exactly(EventType),
    /// `video.*` matches `video.trending` and `video.rank.updated`, but neither `video` nor `videos.new`.
    /// Ends in a dot.
    Below(Box<str>),
}

impl Pattern {
    #[must_use]
    pub fn matches(&self, event_type: &EventType) -> bool {
        match self {
            Self::All => !event_type.is_reserved(),
            Self::Exactly(wanted) => wanted == event_type,
            Self::Below(prefix) => event_type.as_str().starts_with(&**prefix),
        }
    }

    #[must_use]
    pub fn is_reserved(&self) -> bool {
        match self {
            Self::All => false,
            Self::Exactly(event_type) => event_type.is_reserved(),
            Self::Below(prefix) => prefix.starts_with(EventType::RESERVED),
        }
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        if text == "*" {
            return Ok(Self::All);
        }
        let (fixed, below) = match text.strip_suffix('*') {
            Some(prefix) => (prefix.strip_suffix('.').ok_or(PatternError::Star)?, true),
            None => (text, false),
        };
        if fixed.contains('*') || (below && fixed.is_empty()) {
            return Err(PatternError::Star);
        }
        check(fixed)?;
        match below {
            true => Ok(Self::Below(format!("{fixed}.").into())),
            false => Ok(Self::Exactly(fixed.parse()?)),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::Exactly(event_type) => event_type.fmt(f),
            Self::Below(prefix) => write!(f, "{prefix}*"),
        }
    }
}

/// The union of a subscriber's patterns.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<Pattern>", into = "Vec<Pattern>")]
pub struct EventPatterns(Box<[Pattern]>);

impl EventPatterns {
    pub const COUNT_MAX: usize = 64;

    /// Every type but reserved ones.
    #[must_use]
    pub fn all() -> Self {
        Self(Box::new([Pattern::All]))
    }

    #[must_use]
    pub fn matches(&self, event_type: &EventType) -> bool {
        self.0.iter().any(|pattern| pattern.matches(event_type))
    }

    #[must_use]
    pub fn as_slice(&self) -> &[Pattern] {
        &self.0
    }
}

impl TryFrom<Vec<Pattern>> for EventPatterns {
    type Error = PatternError;

    fn try_from(patterns: Vec<Pattern>) -> Result<Self, PatternError> {
        match patterns.len() {
            0 => Err(PatternError::None),
            count if count > Self::COUNT_MAX => Err(PatternError::TooMany { count }),
            _ => Ok(Self(patterns.into())),
        }
    }
}

impl From<EventPatterns> for Vec<Pattern> {
    fn from(patterns: EventPatterns) -> Self {
        patterns.0.into()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("a star may only stand alone or after the last dot; expected *, video.trending or video.*")]
    Star,
    #[error("not an event pattern: {0}")]
    Type(#[from] EventTypeError),
    /// No pattern: nothing would ever be sent.
    #[error("there are no event patterns; expected at least one, such as *")]
    None,
    #[error("there are {count} event patterns; at most {} are accepted", EventPatterns::COUNT_MAX)]
    TooMany { count: usize },
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(pattern: &str, wanted: &[&str], others: &[&str]) {
        let pattern: Pattern = pattern.parse().unwrap();
        for (types, expected) in [(wanted, true), (others, false)] {
            for event_type in types {
                assert_eq!(pattern.matches(&event_type.parse().unwrap()), expected, "{pattern} {event_type}");
            }
        }
    }

    #[test]
    fn patterns_match_the_types_that_a_person_would_expect() {
        check("*", &["video.trending", "x", "hookproof"], &["hookproof.endpoint.failing"]);
        check("hookproof.*", &["hookproof.endpoint.failing"], &["hookproof", "video.trending"]);
        check("video.trending", &["video.trending"], &["video.trending.now", "video", "Video.trending"]);
        check("video.*", &["video.trending", "video.rank.updated"], &["video", "videos.new", "a.video.b"]);
        check("video.rank.*", &["video.rank.updated"], &["video.rank", "video.ranked", "video.trending"]);
    }

    #[test]
    fn other_patterns_are_refused_for_their_own_reason() {
        let problem = |text: &str| text.parse::<Pattern>().unwrap_err();
        for text in ["**", "video*", "*.trending", "video.*.new", ".*", "video.**", "*video", "*.*"] {
            assert_eq!(problem(text), PatternError::Star, "{text}");
        }
        assert_eq!(problem(""), PatternError::Type(EventTypeError::Empty));
        assert_eq!(
            problem("video trending"),
            PatternError::Type(EventTypeError::Character { letter: ' ', at: 5 })
        );
        assert_eq!(
            problem(&format!("{}.*", "x".repeat(129))),
            PatternError::Type(EventTypeError::TooLong { bytes: 129 })
        );
        assert_eq!(
            problem("a,b").to_string(),
            "not an event pattern: the event type has ',' at byte 1; expected letters, digits, '_', '.' and '-'"
        );
    }

    #[test]
    fn a_subscriber_has_one_to_sixty_four_patterns() {
        let read =
            |text: &str| serde_json::from_str::<EventPatterns>(text).map_err(|error| error.to_string());
        let some = read(r#"["video.*", "channel.new"]"#).unwrap();
        assert!(some.matches(&"channel.new".parse().unwrap()) && !some.matches(&"channel".parse().unwrap()));
        assert_eq!(serde_json::to_string(&some).unwrap(), r#"["video.*","channel.new"]"#);
        assert!(read("[]").unwrap_err().contains("expected at least one"));
        let many = serde_json::to_string(&vec!["*"; 65]).unwrap();
        assert!(read(&many).unwrap_err().contains("there are 65"));
        assert!(EventPatterns::all().matches(&"anything".parse().unwrap()));
    }

    proptest! {
        #[test]
        fn a_pattern_matches_by_its_definition(prefix in "[ab.]{1,4}", event_type in "[ab.]{1,6}") {
            let typed: EventType = event_type.parse().unwrap();
            let exact: Pattern = prefix.parse().unwrap();
            prop_assert_eq!(exact.matches(&typed), prefix == event_type);
            let below: Pattern = format!("{prefix}.*").parse().unwrap();
            prop_assert_eq!(below.matches(&typed), event_type.starts_with(&format!("{prefix}.")));
        }

        #[test]
        fn no_text_panics_and_what_is_read_prints_the_same(text in "\\PC*|[a.*]{0,6}") {
            if let Ok(pattern) = text.parse::<Pattern>() {
                prop_assert_eq!(pattern.to_string(), text);
            }
        }
    }
}
