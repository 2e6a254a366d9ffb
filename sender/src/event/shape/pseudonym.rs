//! Pseudonyms for ids of persons. A partner can tell that two events concern the same person, but neither
//! which one, nor match pseudonyms with another partner.

use std::fmt;
use std::str::FromStr;

use crate::event::json::{Json, JsonKind};
use crate::event::public_id::PublicId;
use crate::excerpt::Excerpt;
use crate::sign::mac::Mac;
use crate::sign::{Secret, Tag};
use hookproof_words::text_form;

text_form!(Region, "a region, such as \"DE\"");

/// HMAC-SHA256 with a key derived from the region's secret, for one subscriber. Equal values have equal
/// pseudonyms only there.
#[derive(Clone, Debug)]
pub struct Pseudonyms {
    mac: Mac,
}

impl Pseudonyms {
    /// Digits and quotes.
    pub(super) const BYTES: usize = 66;

    /// For a subscriber in a region.
    #[must_use]
    pub fn new(region: &Region, secret: &Secret, subscriber: &PublicId) -> Self {
        // Neither part contains NUL.
        let parts = [b"hookproof pseudonym\0", region.0.as_bytes(), b"\0", subscriber.as_str().as_bytes()];
        Self { mac: Mac::new(&secret.mac().tag(&parts).0) }
    }

    /// As a JSON string of 64 hexadecimal digits. Strings are compared unescaped, other values by their text.
    pub(super) fn write(&self, value: Json<'_>, out: &mut String) {
        let string = if value.kind() == JsonKind::String { value.string() } else { None };
        let tag = match &string {
            Some(string) => self.mac.tag(&[b"string\0", string.as_bytes()]),
            None => self.mac.tag(&[b"json\0", value.text().as_bytes()]),
        };
        out.push('"');
        out.extend(tag.hex());
        out.push('"');
    }

    /// Does not reveal the key.
    pub(super) fn fingerprint(&self) -> Tag {
        self.mac.tag(&[b"fingerprint\0"])
    }
}

/// A region with its own secret, such as a country.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Region(Box<str>);

impl Region {
    /// The longest name in bytes.
    pub const BYTES_MAX: usize = 32;

    /// The region as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Region {
    type Err = RegionError;

    fn from_str(text: &str) -> Result<Self, RegionError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if text.is_empty() || text.len() > Self::BYTES_MAX || !text.bytes().all(allowed) {
            return Err(RegionError { given: Excerpt::of(text) });
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The text is not a region.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given} is no region; expected 1 to {} letters, digits, '_' and '-'", Region::BYTES_MAX)]
pub struct RegionError {
    given: Excerpt,
}
