use std::fmt;
use std::str::FromStr;

use hookproof_words::text_form;

use crate::excerpt::is_hidden;

text_form!(EventKey, "an event key as text");

/// Readable text, stored and never sent in a header.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventKey(Box<str>);

impl EventKey {
    pub const BYTES_MAX: usize = 256;

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for EventKey {
    type Err = EventKeyError;

    fn from_str(text: &str) -> Result<Self, EventKeyError> {
        match text.len() {
            0 => Err(EventKeyError::Empty),
            bytes if bytes > Self::BYTES_MAX => Err(EventKeyError::TooLong { bytes }),
            _ => match text.char_indices().find(|(_, letter)| is_hidden(*letter)) {
                Some((at, letter)) => Err(EventKeyError::Character { letter, at }),
                None => Ok(Self(text.into())),
            },
        }
    }
}

impl fmt::Display for EventKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventKeyError {
    /// It would equate all events without a key.
    #[error("the event key is empty; leave it out instead")]
    Empty,
    #[error("the event key has {bytes} bytes; at most {} are accepted", EventKey::BYTES_MAX)]
    TooLong { bytes: usize },
    #[error(
        "the event key has {letter:?} at byte {at}; expected no control characters, line breaks or direction \
         marks"
    )]
    Character { letter: char, at: usize },
}
