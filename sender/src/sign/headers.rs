use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::keys::Tag;

/// Lower case, as HTTP/2 requires; values are visible ASCII.
#[derive(Clone, Debug, Default)]
pub struct Headers {
    /// All values, concatenated.
    text: String,
    /// Each name, with the end of its value.
    ends: [(&'static str, usize); Self::COUNT_MAX],
    count: usize,
}

impl Headers {
    pub const COUNT_MAX: usize = 5;

    #[must_use]
    pub fn new() -> Self {
        Self { text: String::with_capacity(256), ..Self::default() }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let mut start = 0;
        self.ends[..self.count].iter().map(move |(name, end)| {
            let value = &self.text[start..*end];
            start = *end;
            (*name, value)
        })
    }

    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.count = 0;
    }

    pub(super) fn add(&mut self, name: &'static str) -> Value<'_> {
        debug_assert!(self.count < Self::COUNT_MAX, "the header {name} is one too many");
        self.ends[self.count] = (name, self.text.len());
        self.count += 1;
        self.extend()
    }

    pub(super) fn extend(&mut self) -> Value<'_> {
        let start = if self.count < 2 { 0 } else { self.ends[self.count - 2].1 };
        Value { start, headers: self }
    }
}

pub(super) struct Value<'a> {
    start: usize,
    headers: &'a mut Headers,
}

impl<'a> Value<'a> {
    pub(super) fn text(self, part: &str) -> Self {
        self.writing(|text| text.push_str(part))
    }

    pub(super) fn number(self, number: u64) -> Self {
        self.writing(|text| write!(text, "{number}").expect("writing to a String does not fail"))
    }

    pub(super) fn hex(self, tag: &Tag) -> Self {
        self.writing(|text| text.extend(tag.hex()))
    }

    pub(super) fn base64(self, tag: &Tag) -> Self {
        self.writing(|text| STANDARD.encode_string(tag.0, text))
    }

    pub(super) fn written(self) -> &'a str {
        &self.headers.text[self.start..]
    }

    fn writing(self, write: impl FnOnce(&mut String)) -> Self {
        write(&mut self.headers.text);
        self.headers.ends[self.headers.count - 1].1 = self.headers.text.len();
        self
    }
}
