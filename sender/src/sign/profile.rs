//! Signing profiles: the signed content and the headers.

use std::fmt;
use std::fmt::Write as _;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hookproof_words::text_form;

use super::keys::Tag;
use crate::excerpt::Excerpt;
use crate::word_form::word_form;

text_form!(Profile, "a signing profile, such as \"standard-webhooks\"");

word_form! {
    /// A signing profile.
    pub enum Profile {
        /// Standard Webhooks 1.0: over `id.timestamp.body`, by every key, anew for each attempt.
        StandardWebhooks = "standard-webhooks",
        /// Over `timestamp.body`, in hex, anew for each attempt.
        VvvTimestamped = "vvv-timestamped",
        /// Over the body alone, in hex, once, when the event is emitted: a retry repeats the signature to the byte, so
        /// that an auditor sees one proof for one delivery.
        VvvFrozen = "vvv-frozen",
        /// As Stripe signs: over `timestamp.body`, in hex, by every key, anew for each attempt.
        Stripe = "stripe",
        /// As GitHub signs: over the body alone, in hex.
        Github = "github",
    }
}

/// How a header's value changes on retries. The body never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AcrossRetries {
    /// The same on every attempt.
    Identical,
    /// The same as long as the same key signs.
    IdenticalPerKey,
    /// New for each attempt.
    Fresh,
}

/// The part of a secret that is the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyForm {
    /// The decoded base64.
    Decoded,
    /// The text itself: libraries of these profiles use a secret as it is.
    Text,
}

/// The number of signatures in an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SignatureCount {
    /// One. During a rotation, the old key makes it until it retires.
    One,
    /// One for each key, so that the endpoint may know any of them.
    OnePerKey,
}

impl Profile {
    /// The headers in order, and how each changes on retries.
    #[must_use]
    pub const fn headers(self) -> &'static [(&'static str, AcrossRetries)] {
        use AcrossRetries::{Fresh, Identical, IdenticalPerKey};
        match self {
            Self::StandardWebhooks => {
                &[("webhook-id", Identical), ("webhook-timestamp", Fresh), ("webhook-signature", Fresh)]
            }
            Self::VvvTimestamped => &[("x-vvv-timestamp", Fresh), ("x-vvv-signature", Fresh)],
            Self::VvvFrozen => &[
                ("x-vvv-signature", Identical),
                ("x-vvv-event", Identical),
                ("x-vvv-attempt", Fresh),
                ("x-vvv-delivery-id", Identical),
                ("x-vvv-subscriber", Identical),
            ],
            Self::Stripe => &[("stripe-signature", Fresh)],
            Self::Github => &[
                ("x-hub-signature-256", IdenticalPerKey),
                ("x-github-event", Identical),
                ("x-github-delivery", Identical),
            ],
        }
    }

    /// The part of a secret that is the key.
    #[must_use]
    pub const fn key_form(self) -> KeyForm {
        match self {
            Self::StandardWebhooks => KeyForm::Decoded,
            Self::VvvTimestamped | Self::VvvFrozen | Self::Stripe | Self::Github => KeyForm::Text,
        }
    }

    /// The number of signatures in an attempt.
    #[must_use]
    pub const fn signature_count(self) -> SignatureCount {
        match self {
            Self::StandardWebhooks | Self::Stripe => SignatureCount::OnePerKey,
            Self::VvvTimestamped | Self::VvvFrozen | Self::Github => SignatureCount::One,
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(text: &str) -> Result<Self, UnknownProfile> {
        let found = Self::ALL.into_iter().find(|profile| profile.name() == text);
        found.ok_or_else(|| UnknownProfile { given: Excerpt::of(text) })
    }
}

/// The name is not a profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given} is no signing profile; expected one of {}", Profile::ALL.map(Profile::name).join(", "))]
pub struct UnknownProfile {
    given: Excerpt,
}

/// Names are in lower case, as HTTP/2 requires; values are visible ASCII.
#[derive(Clone, Debug, Default)]
pub struct Headers {
    /// All values, concatenated.
    text: String,
    /// Each name, with the end of its value.
    ends: [(&'static str, usize); Self::COUNT_MAX],
    count: usize,
}

impl Headers {
    /// The most headers of any profile.
    pub const COUNT_MAX: usize = 5;

    /// Allocates enough for most profiles.
    #[must_use]
    pub fn new() -> Self {
        Self { text: String::with_capacity(256), ..Self::default() }
    }

    /// Names and values, in the order written.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let mut start = 0;
        self.ends[..self.count].iter().map(move |(name, end)| {
            let value = &self.text[start..*end];
            start = *end;
            (*name, value)
        })
    }

    /// The value of a header.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.count = 0;
    }

    pub(super) fn add(&mut self, name: &'static str) -> Value<'_> {
        debug_assert!(self.count < Self::COUNT_MAX, "{name} is one header too many");
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
