//! A sender's scheme: a profile, perhaps with other header names; its own scheme; or no signature.

use std::borrow::Cow;
use std::sync::Arc;

use super::key::{Algorithm, Key, KeyError, KeyForm, Secret};
use super::profile::Profile;
use super::verify::{
    CheckedSignature, Field, Made, SIGNATURES_MAX, TEXT_BYTES_MAX, Wrong, is_canonical, made, one, split,
    verify_by,
};
use super::{base64, hex, unbase64, unbase64url, unhex};

const STANDARD_PREFIX: &str = "webhook-";

/// Clones are cheap: they share their data.
#[derive(Clone, Debug)]
pub enum Scheme {
    Profile {
        profile: Profile,
        /// Replaces `webhook-` in its header names; in lower case.
        header_prefix: Option<String>,
    },
    /// The sender's own scheme, or none.
    Own(Arc<OwnScheme>),
}

impl From<Profile> for Scheme {
    fn from(profile: Profile) -> Self {
        Self::Profile { profile, header_prefix: None }
    }
}

impl Scheme {
    /// A new secret of these bytes, in the scheme's text form.
    #[must_use]
    pub fn secret_of(&self, bytes: &[u8]) -> String {
        match self {
            Self::Profile { .. } => format!("whsec_{}", base64(bytes)),
            Self::Own(own) => own.secret_of(bytes),
        }
    }

    /// Whether requests carry a signature.
    #[must_use]
    pub fn is_signed(&self) -> bool {
        match self {
            Self::Profile { .. } => true,
            Self::Own(own) => own.is_signed(),
        }
    }

    pub fn key(&self, text: &str) -> Result<Key, KeyError> {
        match self {
            Self::Profile { profile, .. } => Ok(Key::from(Secret::parse(*profile, text)?)),
            Self::Own(own) => own.key(text),
        }
    }

    /// Reads a request's headers, and finds the keys that signed the body.
    #[must_use]
    pub fn verify(&self, keys: &[Key], headers: &[(&str, &[u8])], body: &[u8]) -> CheckedSignature {
        let (profile, prefix) = match self {
            Self::Own(own) => return own.verify(keys, headers, body),
            Self::Profile { profile, header_prefix } => (*profile, header_prefix.as_deref()),
        };
        let secrets: Vec<&Secret> = keys.iter().filter_map(Key::secret).collect();
        let Some(prefix) = prefix.filter(|prefix| *prefix != STANDARD_PREFIX) else {
            return verify_by(profile, &secrets, headers, body);
        };
        let renamed: Vec<_> =
            headers.iter().map(|(name, value)| (standard_name(name, prefix), *value)).collect();
        let headers: Vec<_> = renamed.iter().map(|(name, value)| (name.as_ref(), *value)).collect();
        let seen = verify_by(profile, &secrets, &headers, body);
        CheckedSignature {
            verdict: seen.verdict.map_err(|wrong| wrong.renaming(STANDARD_PREFIX, prefix)),
            ..seen
        }
    }
}

impl Wrong {
    /// The same with the sender's header names.
    fn renaming(self, from: &str, to: &str) -> Self {
        let renamed = |name: Cow<'static, str>| Cow::Owned(name.replacen(from, to, 1));
        match self {
            Self::Missing(name) => Self::Missing(renamed(name)),
            Self::Several(name) => Self::Several(renamed(name)),
            Self::Text(name) => Self::Text(renamed(name)),
            Self::NoSignature(name) => Self::NoSignature(renamed(name)),
            other => other,
        }
    }
}

/// The profile's name of a header, for a sender that uses `prefix` in place of `webhook-`. The sender may
/// also send the standard headers, which are ignored.
fn standard_name<'a>(name: &'a str, prefix: &str) -> Cow<'a, str> {
    let lower = name.to_ascii_lowercase();
    match lower.strip_prefix(prefix) {
        Some(rest) => Cow::Owned(format!("{STANDARD_PREFIX}{rest}")),
        None if lower.starts_with(STANDARD_PREFIX) => Cow::Borrowed("-"),
        None => Cow::Borrowed(name),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// In either case.
    Hex,
    /// With padding.
    Base64,
    /// URL-safe, with or without padding.
    Base64Url,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The id, as in its header.
    Id,
    /// The timestamp, as in its header.
    Timestamp,
    Body,
    /// The value of another header.
    Header(String),
    /// Literal text.
    Text(String),
}

/// The unit of a timestamp since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    Milliseconds,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// In a header of its own.
    Header(String),
    /// In the signature's header, after this prefix.
    Beside(String),
}

#[derive(Clone, Debug)]
pub struct OwnScheme {
    /// The algorithm; none if the sender does not sign.
    pub algorithm: Option<Algorithm>,
    pub encoding: Encoding,
    pub key: KeyForm,
    /// The header of the signature; empty if the sender does not sign.
    pub header: String,
    pub prefix: String,
    /// Separates several values in the header; without it there is one.
    pub separator: Option<String>,
    /// The signed parts, in order.
    pub signed: Vec<Part>,
    pub timestamp: Option<Stamp>,
    pub unit: Unit,
    pub id: Option<String>,
    pub attempt: Option<String>,
}

type Headers<'a> = &'a [(&'a str, &'a [u8])];

impl OwnScheme {
    #[must_use]
    pub const fn is_signed(&self) -> bool {
        self.algorithm.is_some()
    }

    pub(super) fn secret_of(&self, bytes: &[u8]) -> String {
        match self.key {
            KeyForm::Hex => hex(bytes),
            KeyForm::Base64 => base64(bytes),
            KeyForm::Text | KeyForm::Pem => format!("whsec_{}", base64(bytes)),
        }
    }

    pub(super) fn key(&self, text: &str) -> Result<Key, KeyError> {
        Key::parse(self.algorithm.unwrap_or(Algorithm::HmacSha256), self.key, text)
    }

    pub(super) fn verify(&self, keys: &[Key], headers: Headers<'_>, body: &[u8]) -> CheckedSignature {
        let shown = |name: &str| {
            let (_, value) = headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name))?;
            Some(String::from_utf8_lossy(&value[..value.len().min(TEXT_BYTES_MAX)]).into_owned())
        };
        let signature = shown(&self.header);
        let timestamp = match &self.timestamp {
            None => None,
            Some(Stamp::Header(name)) => shown(name),
            Some(Stamp::Beside(prefix)) => {
                signature.as_deref().and_then(|values| self.value_after(values, prefix)).map(str::to_owned)
            }
        };
        let (verdict, surplus) = split(self.judge(keys, headers, body));
        CheckedSignature {
            id: self.id.as_deref().and_then(shown),
            attempt: self.attempt.as_deref().and_then(shown),
            verdict,
            surplus,
            timestamp: timestamp.map(|text| self.in_seconds(text)),
            signature,
        }
    }

    /// A timestamp in seconds; a text that is no number stays as it is.
    fn in_seconds(&self, text: String) -> String {
        match (self.unit, text.parse::<u64>()) {
            (Unit::Milliseconds, Ok(count)) => (count / 1_000).to_string(),
            _ => text,
        }
    }

    fn judge(&self, keys: &[Key], headers: Headers<'_>, body: &[u8]) -> Result<Made, Wrong> {
        let value = |name: &str| one(Some(name), Some(Field::of(headers, name)));
        let values = value(&self.header)?;
        let id = self.id.as_deref().map(value).transpose()?.unwrap_or_default();
        let timestamp = match &self.timestamp {
            None => "",
            Some(Stamp::Header(name)) => value(name)?,
            Some(Stamp::Beside(prefix)) => {
                let missing = || Wrong::Missing(format!("{} {prefix}", self.header).into());
                self.value_after(values, prefix).ok_or_else(missing)?
            }
        };
        if self.timestamp.is_some() && !is_canonical(timestamp) {
            return Err(Wrong::Timestamp(timestamp.chars().take(64).collect()));
        }
        let signatures = self.signatures(values)?;
        let mut message = Vec::with_capacity(body.len() + 128);
        for part in &self.signed {
            message.extend_from_slice(match part {
                Part::Id => id.as_bytes(),
                Part::Timestamp => timestamp.as_bytes(),
                Part::Body => body,
                Part::Header(name) => value(name)?.as_bytes(),
                Part::Text(text) => text.as_bytes(),
            });
        }
        made(signatures.len(), keys.len(), |at, key| keys[key].signed(&signatures[at], &message))
    }

    fn signatures(&self, values: &str) -> Result<Vec<Vec<u8>>, Wrong> {
        let mut signatures = Vec::new();
        for (place, text) in self.values(values).enumerate() {
            if place >= SIGNATURES_MAX {
                return Err(Wrong::TooMany);
            }
            if self.is_timestamp(text) {
                continue;
            }
            let Some(text) = text.strip_prefix(self.prefix.as_str()) else { continue };
            let bytes = match self.encoding {
                Encoding::Hex => unhex(&text.to_ascii_lowercase()),
                Encoding::Base64 => unbase64(text),
                Encoding::Base64Url => unbase64url(text),
            };
            signatures.push(bytes.filter(|bytes| !bytes.is_empty()).ok_or(Wrong::Encoding(place + 1))?);
        }
        if signatures.is_empty() {
            return Err(Wrong::NoSignature(self.header.clone().into()));
        }
        Ok(signatures)
    }

    /// Whether a value of the signature's header is the timestamp: it has the timestamp's prefix, and not a
    /// longer prefix of a signature.
    fn is_timestamp(&self, value: &str) -> bool {
        let Some(Stamp::Beside(prefix)) = &self.timestamp else { return false };
        let is_signature = self.prefix.len() > prefix.len() && value.starts_with(&self.prefix);
        value.starts_with(prefix) && !is_signature
    }

    fn values<'a>(&'a self, values: &'a str) -> impl Iterator<Item = &'a str> {
        let several = self.separator.as_deref().map(|separator| values.split(separator).map(str::trim));
        let whole = if several.is_none() { Some(values) } else { None };
        several.into_iter().flatten().chain(whole)
    }

    fn value_after<'a>(&'a self, values: &'a str, prefix: &str) -> Option<&'a str> {
        self.values(values).find_map(|value| value.strip_prefix(prefix))
    }
}
