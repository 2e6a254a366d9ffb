use std::fmt::Write as _;
use std::io::Write as _;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use base64::write::EncoderStringWriter;
use sha2::{Digest as _, Sha256};

use super::keys::{Signature, hex};

/// Lower case, as HTTP/2 requires; values are visible ASCII.
#[derive(Clone, Debug, Default)]
pub struct Headers {
    /// All values, concatenated.
    text: String,
    /// Each name, with the end of its value.
    ends: [(&'static str, usize); Self::COUNT_MAX],
    count: usize,
    /// Its place in the text.
    timestamp: Range<usize>,
    query: String,
}

impl Headers {
    /// Those of a profile, and `traceparent`.
    pub const COUNT_MAX: usize = 7;

    #[must_use]
    pub fn new() -> Self {
        Self { text: String::with_capacity(384), ..Self::default() }
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
        self.timestamp = 0..0;
        self.query.clear();
    }

    /// The end of the URL's query, which only this request has; mostly empty.
    #[must_use]
    pub fn query(&self) -> &str {
        &self.query
    }

    pub(super) fn set_query(&mut self, joint: char, name: &str, body: &[u8]) {
        self.query.extend([joint]);
        self.query.extend([name, "="]);
        self.query.extend(hex(&Sha256::digest(body)));
    }

    pub(crate) fn add(&mut self, name: &'static str) -> &mut Self {
        debug_assert!(self.count < Self::COUNT_MAX, "the header {name} is one too many");
        self.ends[self.count] = (name, self.text.len());
        self.count += 1;
        self
    }

    pub(crate) fn text(&mut self, part: &str) -> &mut Self {
        self.write(|text| text.push_str(part))
    }

    pub(super) fn number(&mut self, number: u64) -> &mut Self {
        self.write(|text| write!(text, "{number}").expect("writing to a String does not fail"))
    }

    /// A number that [`Self::written_timestamp`] returns.
    pub(super) fn timestamp(&mut self, number: u64) -> &mut Self {
        let start = self.text.len();
        self.number(number);
        self.timestamp = start..self.text.len();
        self
    }

    /// In base64, else in hex.
    pub(super) fn signature(&mut self, signature: &Signature, is_base64: bool) -> &mut Self {
        let bytes = signature.bytes();
        self.write(
            |text| if is_base64 { STANDARD.encode_string(bytes, text) } else { text.extend(hex(bytes)) },
        )
    }

    /// RFC 9530.
    pub(super) fn digest(&mut self, body: &[u8]) -> &mut Self {
        let write = |text: &mut String| STANDARD.encode_string(Sha256::digest(body), text);
        self.text("sha-256=:").write(write).text(":")
    }

    /// A JWT (RFC 7519), whose first part is `head`.
    pub(super) fn token(
        &mut self,
        head: &str,
        seconds: u64,
        body: &[u8],
        sign: impl FnOnce(&[u8]) -> Signature,
    ) {
        self.write(|text| {
            let start = text.len();
            text.extend([head, "."]);
            let mut claims = EncoderStringWriter::from_consumer(&mut *text, &URL_SAFE_NO_PAD);
            let written = write!(claims, r#"{{"iat":{seconds},"request_body_sha256":""#);
            let mut written = written
                .and_then(|()| hex(&Sha256::digest(body)).try_for_each(|digit| write!(claims, "{digit}")));
            written = written.and_then(|()| write!(claims, r#""}}"#));
            written.expect("writing to a String does not fail");
            claims.into_inner();
            let signature = sign(&text.as_bytes()[start..]);
            text.push('.');
            URL_SAFE_NO_PAD.encode_string(signature.bytes(), text);
        });
    }

    /// Empty unless there is one.
    pub(super) fn written_timestamp(&self) -> &str {
        &self.text[self.timestamp.clone()]
    }

    fn write(&mut self, write: impl FnOnce(&mut String)) -> &mut Self {
        write(&mut self.text);
        self.ends[self.count - 1].1 = self.text.len();
        self
    }
}
