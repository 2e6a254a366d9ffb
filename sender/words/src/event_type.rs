//! Event types: `video.trending`.

use std::fmt;
use std::str::FromStr;

use crate::text_form;

text_form!(EventType, "an event type, such as \"video.trending\"");

/// Its characters are safe in a header, a log line and a metric.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventType(Box<str>);

impl EventType {
    /// The longest type in bytes.
    pub const BYTES_MAX: usize = 128;

    /// The type as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
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

pub(super) fn check(text: &str) -> Result<(), EventTypeError> {
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

/// The text is not an event type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventTypeError {
    /// Empty.
    #[error("the event type is empty; expected something such as video.trending")]
    Empty,
    /// Longer than [`EventType::BYTES_MAX`].
    #[error("the event type has {bytes} bytes; at most {} are accepted", EventType::BYTES_MAX)]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// A character that no type may have.
    #[error("the event type has {letter:?} at byte {at}; expected letters, digits, '_', '.' and '-'")]
    Character {
        /// The character.
        letter: char,
        /// Its byte position.
        at: usize,
    },
}
