//! JSON that is checked once and then left alone.
//!
//! [`Json::parse`] makes sure that some bytes are one JSON value, not too deep, and keeps them as they are. What is
//! in it is then found by walking over its text ([`Json::fields`], [`Json::elements`]), never by building a value
//! from it: building loses large numbers' digits, escapes, and keys that come twice.
//!
//! Depth is counted on the raw bytes before anything parses them, without recursion: a hundred thousand opening
//! brackets cost a look at each.

mod walk;

use std::borrow::Cow;
use std::fmt;

use serde::de::IgnoredAny;

pub(super) use walk::Walk;
pub use walk::{Elements, Fields};

use super::limits::Depth;

/// The text of one JSON value, without blanks around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<'a>(&'a str);

/// What kind of value it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonKind {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
    /// `"…"`
    String,
    /// `1`
    Number,
    /// `true` or `false`
    Bool,
    /// `null`
    Null,
}

impl fmt::Display for JsonKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Object => "an object",
            Self::Array => "an array",
            Self::String => "a string",
            Self::Number => "a number",
            Self::Bool => "a boolean",
            Self::Null => "null",
        })
    }
}

impl<'a> Json<'a> {
    /// No value.
    pub const NULL: Json<'static> = Json("null");

    /// Checks that the bytes are one JSON value in UTF-8, nested at most so deep.
    pub fn parse(bytes: &'a [u8], depth_max: Depth) -> Result<Self, JsonError> {
        let text =
            std::str::from_utf8(bytes).map_err(|error| JsonError::NotUtf8 { at: error.valid_up_to() })?;
        if let Some(at) = walk::first_deeper_than(text, depth_max.get()) {
            return Err(JsonError::TooDeep { max: depth_max, at });
        }
        serde_json::from_str::<IgnoredAny>(text)
            .map_err(|error| JsonError::Syntax { problem: error.to_string().into() })?;
        Ok(Self::known(text))
    }

    /// A text that is known to be JSON.
    pub(super) fn known(text: &'a str) -> Self {
        Self(text.trim_matches(walk::BLANKS))
    }

    /// The text, exactly as it came.
    #[must_use]
    pub const fn text(self) -> &'a str {
        self.0
    }

    /// What kind of value it is.
    #[must_use]
    pub fn kind(self) -> JsonKind {
        match self.0.as_bytes().first() {
            Some(b'{') => JsonKind::Object,
            Some(b'[') => JsonKind::Array,
            Some(b'"') => JsonKind::String,
            Some(b't' | b'f') => JsonKind::Bool,
            Some(b'n') => JsonKind::Null,
            _ => JsonKind::Number,
        }
    }

    /// The fields of an object, in their order, those with the same key each for itself. None for another kind.
    #[must_use]
    pub fn fields(self) -> Fields<'a> {
        Fields::of(self)
    }

    /// The elements of an array, in their order. None for another kind.
    #[must_use]
    pub fn elements(self) -> Elements<'a> {
        Elements::of(self)
    }

    /// Where the first escape begins that is half of a surrogate pair, if there is one: parsers of other languages refuse it, or
    /// make some other letter of it.
    #[must_use]
    pub fn lone_surrogate(self) -> Option<usize> {
        walk::lone_surrogate(self.0)
    }

    /// What a string says, its escapes resolved. Nothing for another kind, nor for a string that is no text (half of
    /// a surrogate pair).
    #[must_use]
    pub fn string(self) -> Option<Cow<'a, str>> {
        let inside = self.0.strip_prefix('"')?.strip_suffix('"')?;
        if inside.contains('\\') {
            serde_json::from_str(self.0).ok().map(Cow::Owned)
        } else {
            Some(Cow::Borrowed(inside))
        }
    }
}

/// Bytes that are no JSON value, or too deep a one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// JSON is UTF-8.
    #[error("it is not UTF-8 from byte {at} on")]
    NotUtf8 {
        /// The first byte that is not.
        at: usize,
    },
    /// Nested too deep.
    #[error("it is nested more than {max} levels deep at byte {at}")]
    TooDeep {
        /// What is accepted.
        max: Depth,
        /// The first bracket beyond it.
        at: usize,
    },
    /// Not JSON.
    #[error("it is not JSON: {problem}")]
    Syntax {
        /// What the parser says; it quotes nothing of the text.
        problem: Box<str>,
    },
}

#[cfg(test)]
mod tests;
