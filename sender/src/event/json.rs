//! JSON is kept as text: a value would lose digits, escapes and repeated keys. The depth is counted on the raw bytes
//! before parsing, without recursion.

use std::borrow::Cow;
use std::fmt;

use serde::de::IgnoredAny;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Depth(usize);

impl Depth {
    /// Many parsers stop at 128 levels; applications may wrap the body.
    pub const MAX: Self = Self(120);
    /// Deeper than handwritten events.
    pub const DEFAULT: Self = Self(64);

    pub const fn new(levels: usize) -> Result<Self, DepthError> {
        if levels >= 1 && levels <= Self::MAX.0 { Ok(Self(levels)) } else { Err(DepthError { levels }) }
    }

    #[must_use]
    pub const fn get(self) -> usize {
        self.0
    }
}

impl fmt::Display for Depth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the limit on JSON's depth is {levels}; expected 1 to {}", Depth::MAX)]
pub struct DepthError {
    levels: usize,
}

#[cfg(test)]
mod tests;

/// The text of one value, without surrounding blanks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<'a>(&'a str);

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

    /// One JSON value in UTF-8 within the depth limit.
    pub fn parse(bytes: &'a [u8], depth_max: Depth) -> Result<Self, JsonError> {
        let text =
            std::str::from_utf8(bytes).map_err(|error| JsonError::NotUtf8 { at: error.valid_up_to() })?;
        if let Some(at) = first_deeper_than(text, depth_max.get()) {
            return Err(JsonError::TooDeep { max: depth_max, at });
        }
        serde_json::from_str::<IgnoredAny>(text)
            .map_err(|error| JsonError::Syntax { problem: error.to_string().into() })?;
        Ok(Self::known(text))
    }

    pub(super) fn known(text: &'a str) -> Self {
        Self(text.trim_matches(BLANKS))
    }

    #[must_use]
    pub const fn text(self) -> &'a str {
        self.0
    }

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
        lone_surrogate(self.0)
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

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    #[error("it is not UTF-8 from byte {at} on")]
    NotUtf8 {
        /// The first invalid byte.
        at: usize,
    },
    #[error("it is nested more than {max} levels deep at byte {at}")]
    TooDeep {
        max: Depth,
        /// The first bracket beyond it.
        at: usize,
    },
    #[error("it is not JSON: {problem}")]
    Syntax {
        /// The parser's error, which quotes nothing of the text.
        problem: Box<str>,
    },
}

// It never panics or recurses: on invalid text it ends early.

const BLANKS: [char; 4] = [' ', '\n', '\r', '\t'];

fn first_deeper_than(text: &str, levels_max: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, bracket) in brackets(text.as_bytes()) {
        match bracket {
            b'{' | b'[' => depth += 1,
            _ => depth = depth.saturating_sub(1),
        }
        if depth > levels_max {
            return Some(at);
        }
    }
    None
}

fn lone_surrogate(text: &str) -> Option<usize> {
    let unit = |at: usize| {
        let digits = text.get(at..)?.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    // Backslashes stand only inside strings.
    let mut at = text.find("\\u").map_or(text.len(), |_| 0);
    while let Some(next) = text.get(at..).and_then(|rest| rest.find('\\')) {
        at += next;
        at += match (unit(at), unit(at + 6)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
            (Some(0xD800..=0xDFFF), _) => return Some(at),
            _ => 2,
        };
    }
    None
}

#[derive(Clone, Debug)]
pub struct Fields<'a>(Walk<'a>);

impl<'a> Fields<'a> {
    fn of(object: Json<'a>) -> Self {
        Self(Walk::inside(object, JsonKind::Object))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (Json<'a>, Json<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let key = self.0.value()?;
        Some((key, self.0.value()?))
    }
}

#[derive(Clone, Debug)]
pub struct Elements<'a>(Walk<'a>);

impl<'a> Elements<'a> {
    fn of(array: Json<'a>) -> Self {
        Self(Walk::inside(array, JsonKind::Array))
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Json<'a>;

    fn next(&mut self) -> Option<Json<'a>> {
        self.0.value()
    }
}

/// In an object, keys and values alternate. The cost is linear, however deep the nesting.
#[derive(Clone, Debug)]
pub(in crate::event) struct Walk<'a> {
    rest: &'a str,
}

impl<'a> Walk<'a> {
    pub(in crate::event) fn before(json: Json<'a>) -> Self {
        Self { rest: json.0 }
    }

    fn inside(json: Json<'a>, kind: JsonKind) -> Self {
        let mut walk = Self::before(json);
        if json.kind() == kind {
            walk.enter();
        } else {
            walk.rest = "";
        }
        walk
    }

    pub(in crate::event) fn kind(&mut self) -> JsonKind {
        self.skip_separators();
        Json(self.rest).kind()
    }

    pub(in crate::event) fn enter(&mut self) {
        self.skip_separators();
        self.rest = self.rest.strip_prefix(['{', '[']).unwrap_or(self.rest);
    }

    /// Returns whether the container has no more values. The end of the text closes everything.
    pub(in crate::event) fn leave(&mut self) -> bool {
        self.skip_separators();
        match self.rest.strip_prefix(['}', ']']) {
            Some(rest) => self.rest = rest,
            None => return self.rest.is_empty(),
        }
        true
    }

    /// `None` at the container's end.
    pub(in crate::event) fn value(&mut self) -> Option<Json<'a>> {
        self.skip_separators();
        let (value, rest) = self.rest.split_at(end_of_value(self.rest.as_bytes()));
        self.rest = rest;
        if value.is_empty() { None } else { Some(Json(value)) }
    }

    /// The text was checked, so separators carry no information.
    fn skip_separators(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\n', '\r', '\t', ',', ':']);
    }
}

/// Zero at a closing bracket.
fn end_of_value(bytes: &[u8]) -> usize {
    match bytes.first() {
        None => 0,
        Some(b'"') => end_of_string(bytes, 0),
        Some(b'{' | b'[') => end_of_container(bytes),
        Some(_) => {
            let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t');
            bytes.iter().position(ends).unwrap_or(bytes.len())
        }
    }
}

fn end_of_container(bytes: &[u8]) -> usize {
    let mut depth = 0_usize;
    for (at, bracket) in brackets(bytes) {
        match bracket {
            b'{' | b'[' => depth += 1,
            _ => depth = depth.saturating_sub(1),
        }
        if depth == 0 {
            return at + 1;
        }
    }
    bytes.len()
}

fn brackets(bytes: &[u8]) -> impl Iterator<Item = (usize, u8)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'"' => at = end_of_string(bytes, at),
                b'{' | b'[' | b'}' | b']' => {
                    at += 1;
                    return Some((at - 1, *byte));
                }
                _ => at += 1,
            }
        }
        None
    })
}

fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            // It does not close the string.
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}
