//! JSON that is checked once and then kept as text.
//!
//! Content is found by walking the text ([`Json::fields`], [`Json::elements`]), because parsing into a value
//! would lose digits, escapes and repeated keys. The depth is counted on the raw bytes before parsing,
//! without recursion.

mod walk;

use std::borrow::Cow;
use std::fmt;

use serde::de::IgnoredAny;

pub(super) use walk::Walk;
pub use walk::{Elements, Fields};

use super::limits::Depth;

/// The text of one JSON value, without surrounding blanks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<'a>(&'a str);

/// The kind of a value.
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
    /// `null`.
    pub const NULL: Json<'static> = Json("null");

    /// Checks for one JSON value in UTF-8 within the depth limit.
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

    pub(super) fn known(text: &'a str) -> Self {
        Self(text.trim_matches(walk::BLANKS))
    }

    /// The original text.
    #[must_use]
    pub const fn text(self) -> &'a str {
        self.0
    }

    /// Its kind.
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

    /// The fields in order, with repeated keys. Empty for other kinds.
    #[must_use]
    pub fn fields(self) -> Fields<'a> {
        Fields::of(self)
    }

    /// The elements in order. Empty for other kinds.
    #[must_use]
    pub fn elements(self) -> Elements<'a> {
        Elements::of(self)
    }

    /// Where the first lone surrogate escape begins. Other parsers refuse or replace it.
    #[must_use]
    pub fn lone_surrogate(self) -> Option<usize> {
        walk::lone_surrogate(self.0)
    }

    /// An unescaped string. `None` for other kinds and lone surrogates.
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

/// The bytes are not one JSON value, or nested too deeply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// Not UTF-8.
    #[error("it is not UTF-8 from byte {at} on")]
    NotUtf8 {
        /// The first invalid byte.
        at: usize,
    },
    /// Nested too deeply.
    #[error("it is nested more than {max} levels deep at byte {at}")]
    TooDeep {
        /// The limit.
        max: Depth,
        /// The first bracket beyond it.
        at: usize,
    },
    /// Not JSON.
    #[error("it is not JSON: {problem}")]
    Syntax {
        /// The parser's error, which quotes nothing of the text.
        problem: Box<str>,
    },
}

#[cfg(test)]
mod tests;
