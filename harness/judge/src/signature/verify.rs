//! Signing, and strict verification: reads the signature headers of a request and finds the keys that signed
//! it. A request that only a lenient receiver would accept is wrong, with a reason.

use std::borrow::Cow;

use ::base64::Engine as _;
use ::base64::engine::general_purpose::URL_SAFE;

use super::definition::{Algorithm, Definition, Encoding, KeyForm, Part, Stamp, Unit};
use super::key::{ForeignHash, Key, KeyError, Secret};
use super::profile::Profile;
use super::{base64, hex, unbase64, unbase64url, unhex};

/// Limit of examined signatures in a request.
const SIGNATURES_MAX: usize = 64;
/// Limit of a kept header value.
const TEXT_BYTES_MAX: usize = 4096;

/// The signature headers of a request, verbatim, and their verdict. Bytes outside UTF-8 show as U+FFFD; long
/// values are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedSignature {
    pub id: Option<String>,
    pub timestamp: Option<String>,
    pub attempt: Option<String>,
    pub signature: Option<String>,
    /// The places of the secrets that signed it.
    pub verdict: Result<Vec<usize>, Wrong>,
    /// How many of its signatures none of the secrets made, beside those that one made.
    pub surplus: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    #[error("there is no {0} header")]
    Missing(Cow<'static, str>),
    #[error("there are several {0} headers")]
    Several(Cow<'static, str>),
    #[error("the {0} header is empty or not visible ASCII")]
    Text(Cow<'static, str>),
    #[error("the timestamp {0:?} is not a number of seconds")]
    Timestamp(String),
    #[error("the {0} header holds no signature of the profile's kind")]
    NoSignature(Cow<'static, str>),
    #[error("signature {0} of the request is not in the profile's encoding")]
    Encoding(usize),
    #[error("there are more than {SIGNATURES_MAX} signatures")]
    TooMany,
    #[error("no signature was made with a known key")]
    NoKey,
}

/// A request, as far as a signature can cover it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Received<'a> {
    pub method: &'a str,
    pub url: &'a str,
    pub headers: &'a [(&'a str, &'a [u8])],
    pub body: &'a [u8],
}

impl<'a> Received<'a> {
    fn field(&self, name: &str) -> Field<'a> {
        Field::of(self.headers, name)
    }

    fn shown(&self, name: &str) -> Option<String> {
        let first = self.field(name).first?;
        Some(String::from_utf8_lossy(&first[..first.len().min(TEXT_BYTES_MAX)]).into_owned())
    }
}

impl Definition {
    /// A new secret of these bytes, in its text form.
    #[must_use]
    pub fn secret_of(&self, bytes: &[u8]) -> String {
        match self.key {
            // Else it would pass for a public key.
            _ if self.algorithm == Some(Algorithm::Ed25519) => format!("whsk_{}", base64(bytes)),
            KeyForm::Hex => hex(bytes),
            KeyForm::Base64 => base64(bytes),
            KeyForm::Text | KeyForm::Whsec | KeyForm::Pem => format!("whsec_{}", base64(bytes)),
        }
    }

    pub fn key(&self, text: &str) -> Result<Key, KeyError> {
        Key::parse(self, text)
    }

    /// Reads a request's headers, and finds the keys that signed it.
    #[must_use]
    pub fn verify(&self, keys: &[Key], request: &Received<'_>) -> CheckedSignature {
        let shown = |name: &str| request.shown(name);
        let signature = shown(&self.header);
        let timestamp = match &self.timestamp {
            None => None,
            Some(Stamp::Header(name)) => shown(name),
            Some(Stamp::Beside(prefix)) => {
                signature.as_deref().and_then(|values| self.value_after(values, prefix)).map(str::to_owned)
            }
            Some(Stamp::Field(name)) => member(request.body, name),
        };
        let (verdict, surplus) = match self.judge(keys, request) {
            Ok((keys, surplus)) => (Ok(keys), surplus),
            Err(wrong) => (Err(wrong), 0),
        };
        CheckedSignature {
            id: self.id.as_deref().and_then(shown),
            attempt: self.attempt.as_deref().and_then(shown),
            verdict,
            surplus,
            timestamp: timestamp.map(|text| self.in_seconds(text)),
            signature,
        }
    }

    /// The tag that a request should have had, as far as its headers say.
    #[must_use]
    pub fn expected_tag(&self, secret: &Secret, request: &Received<'_>) -> Vec<u8> {
        let first = |name: &str| request.shown(name).unwrap_or_default();
        let id = self.id.as_deref().map(first).unwrap_or_default();
        let timestamp = match &self.timestamp {
            None => String::new(),
            Some(Stamp::Header(name)) => first(name),
            Some(Stamp::Beside(prefix)) => {
                self.value_after(&first(&self.header), prefix).unwrap_or_default().to_owned()
            }
            Some(Stamp::Field(name)) => member(request.body, name).unwrap_or_default(),
        };
        secret.tag(&self.message(&id, &timestamp, request))
    }

    /// A timestamp in seconds; a text that is no number stays as it is.
    fn in_seconds(&self, text: String) -> String {
        match (self.unit, text.parse::<u64>()) {
            (Unit::Milliseconds, Ok(count)) => (count / 1_000).to_string(),
            _ => text,
        }
    }

    fn judge(&self, keys: &[Key], request: &Received<'_>) -> Result<Made, Wrong> {
        let value = |name: &str| one(name, request.field(name));
        let values = value(&self.header)?;
        let id = self.id.as_deref().map(value).transpose()?.unwrap_or_default();
        let field;
        let timestamp = match &self.timestamp {
            None => "",
            Some(Stamp::Field(name)) => {
                field = member(request.body, name).unwrap_or_default();
                &field
            }
            Some(Stamp::Header(name)) => value(name)?,
            Some(Stamp::Beside(prefix)) => {
                let named = || Cow::from(format!("{} {prefix}", self.header));
                if self.values(values).filter(|value| self.is_timestamp(value)).count() > 1 {
                    return Err(Wrong::Several(named()));
                }
                self.value_after(values, prefix).ok_or_else(|| Wrong::Missing(named()))?
            }
        };
        if self.timestamp.is_some() && self.timestamp_field().is_none() && !is_canonical(timestamp) {
            return Err(Wrong::Timestamp(timestamp.chars().take(64).collect()));
        }
        let signatures = self.signatures(values)?;
        for part in &self.signed {
            if let Part::Header(name) = part {
                value(name)?;
            }
        }
        let message = self.message(id, timestamp, request);
        made(signatures.len(), keys.len(), |at, key| keys[key].signed(&signatures[at], &message))
    }

    fn message(&self, id: &str, timestamp: &str, request: &Received<'_>) -> Vec<u8> {
        let mut message = Vec::with_capacity(request.body.len() + 128);
        for part in &self.signed {
            message.extend_from_slice(match part {
                Part::Id => id.as_bytes(),
                Part::Timestamp => timestamp.as_bytes(),
                Part::Body => request.body,
                Part::Url => request.url.as_bytes(),
                Part::Method => request.method.as_bytes(),
                Part::Header(name) => request.field(name).first.unwrap_or_default(),
                Part::Text(text) => text.as_bytes(),
            });
        }
        message
    }

    /// The bytes of every signature with the prefix. Other versions are ignored.
    fn signatures(&self, values: &str) -> Result<Vec<Vec<u8>>, Wrong> {
        if self.values(values).count() > SIGNATURES_MAX {
            return Err(Wrong::TooMany);
        }
        let mut signatures = Vec::new();
        for (place, text) in self.values(values).enumerate() {
            if self.is_timestamp(text) {
                continue;
            }
            let Some(text) = text.strip_prefix(self.prefix.as_str()) else { continue };
            let bytes = match self.encoding {
                Encoding::Hex => unhex(text),
                Encoding::HexUpper => {
                    let is_upper = !text.bytes().any(|byte| byte.is_ascii_lowercase());
                    unhex(&text.to_ascii_lowercase()).filter(|_| is_upper)
                }
                Encoding::Base64 => unbase64(text),
                Encoding::Base64Url => unbase64url(text),
            };
            let bytes = bytes.filter(|bytes| self.algorithm.is_some_and(|one| one.fits(bytes.len())));
            signatures.push(bytes.ok_or(Wrong::Encoding(place + 1))?);
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
        let several = self.separator.as_deref().map(|separator| values.split(separator));
        let whole = if several.is_none() { Some(values) } else { None };
        several.into_iter().flatten().chain(whole)
    }

    fn value_after<'a>(&'a self, values: &'a str, prefix: &str) -> Option<&'a str> {
        self.values(values).find_map(|value| value.strip_prefix(prefix))
    }
}

/// The secrets that signed a request, by place, and the number of signatures of no secret.
type Made = (Vec<usize>, usize);

/// `signs` is given the places of a signature and of a key.
fn made(signatures: usize, keys: usize, signs: impl Fn(usize, usize) -> bool) -> Result<Made, Wrong> {
    let (mut found, mut surplus) = (vec![false; keys], 0);
    for signature in 0..signatures {
        let mut is_known = false;
        for (_, found) in found.iter_mut().enumerate().filter(|(key, _)| signs(signature, *key)) {
            (is_known, *found) = (true, true);
        }
        surplus += usize::from(!is_known);
    }
    let keys: Vec<usize> = (0..keys).filter(|key| found[*key]).collect();
    if keys.is_empty() { Err(Wrong::NoKey) } else { Ok((keys, surplus)) }
}

#[derive(Clone, Copy)]
struct Field<'a> {
    /// Its value, or the first of several.
    first: Option<&'a [u8]>,
    is_alone: bool,
}

impl<'a> Field<'a> {
    fn of(headers: &[(&str, &'a [u8])], name: &str) -> Self {
        let mut named = headers.iter().filter(|(given, _)| given.eq_ignore_ascii_case(name));
        Self { first: named.next().map(|(_, value)| *value), is_alone: named.next().is_none() }
    }
}

/// A member of an object in JSON, as text.
fn member(body: &[u8], name: &str) -> Option<String> {
    match serde_json::from_slice::<serde_json::Value>(body).ok()?.get(name)? {
        serde_json::Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// The single value of a required header.
fn one<'a>(name: &str, field: Field<'a>) -> Result<&'a str, Wrong> {
    let name = || Cow::Owned(name.to_owned());
    let value = field.first.ok_or_else(|| Wrong::Missing(name()))?;
    if !field.is_alone {
        return Err(Wrong::Several(name()));
    }
    let visible = |byte: &u8| *byte == b' ' || byte.is_ascii_graphic();
    let text = std::str::from_utf8(value).ok().filter(|_| value.iter().all(visible));
    text.filter(|text| !text.is_empty()).ok_or_else(|| Wrong::Text(name()))
}

/// Whether a text is a canonical `i64` number of seconds: digits, no sign, no leading zero.
fn is_canonical(timestamp: &str) -> bool {
    timestamp.parse::<i64>().is_ok_and(|seconds| seconds >= 0 && seconds.to_string() == timestamp)
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Signing<'a> {
    pub id: &'a str,
    /// In its text form: the judge also signs timestamps that are no number.
    pub timestamp: &'a str,
    pub event_type: &'a str,
    pub method: &'a str,
    pub url: &'a str,
    pub body: &'a [u8],
}

impl Signing<'_> {
    /// The signature with the profile's prefix: `v1,…`, `sha256=…`.
    #[must_use]
    pub fn signature(&self, profile: Profile, secret: &Secret) -> String {
        encode(profile, &self.tag(profile, secret))
    }

    #[must_use]
    pub fn tag(&self, profile: Profile, secret: &Secret) -> Vec<u8> {
        secret.tag(&self.message(&profile))
    }

    /// Tags of other texts than the profile's, made of the same parts, each with its template.
    #[must_use]
    pub fn other_tags(&self, profile: Profile, secret: &Secret) -> Vec<(String, Vec<u8>)> {
        let mut messages = vec![self.message(&profile)];
        let mut tags = Vec::new();
        for signed in profile.other_parts() {
            let template = signed.iter().map(ToString::to_string).collect();
            let message = self.message(&Definition { signed, ..profile.definition().clone() });
            if !messages.contains(&message) {
                tags.push((template, secret.tag(&message)));
                messages.push(message);
            }
        }
        tags
    }

    /// A tag by a hash that the profile does not use.
    #[must_use]
    pub fn foreign_tag(&self, profile: Profile, secret: &Secret, hash: ForeignHash) -> Vec<u8> {
        secret.foreign_tag(hash, &self.message(&profile))
    }

    fn message(&self, profile: &Definition) -> Vec<u8> {
        let Self { method, url, body, .. } = *self;
        let headers: Vec<(&str, &[u8])> =
            self.written(profile).map(|(name, value)| (name, value.as_bytes())).collect();
        profile.message(self.id, self.timestamp, &Received { method, url, headers: &headers, body })
    }

    /// The headers of an attempt with these signatures, valid or not.
    #[must_use]
    pub fn headers(&self, profile: Profile, signatures: &[String]) -> Vec<(String, String)> {
        let stamp = match &profile.timestamp {
            Some(Stamp::Beside(prefix)) => Some(format!("{prefix}{}", self.timestamp)),
            _ => None,
        };
        let values: Vec<&str> = stamp.iter().chain(signatures).map(String::as_str).collect();
        let signature = values.join(profile.separator.as_deref().unwrap_or(" "));
        let signature = (profile.signature_header(), signature.as_str());
        let all = self.written(&profile).chain([signature]);
        all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// The headers beside the signature.
    fn written<'s>(&'s self, profile: &'s Definition) -> impl Iterator<Item = (&'s str, &'s str)> {
        let named = [
            (profile.id_header(), self.id),
            (profile.timestamp_header(), self.timestamp),
            (profile.event_type.as_deref(), self.event_type),
            (profile.attempt.as_deref(), "1"),
        ];
        let named = named.into_iter().filter_map(|(name, value)| Some((name?, value)));
        named.chain(profile.habits.headers.iter().map(|(name, value)| (&**name, &**value)))
    }
}

/// The headers of a correct attempt, signed with each secret if the profile allows several signatures, else
/// with the first.
#[must_use]
pub fn sign(profile: Profile, secrets: &[&Secret], signing: &Signing<'_>) -> Vec<(String, String)> {
    let count = if profile.has_several_signatures() { secrets.len() } else { 1 };
    let signatures = secrets.iter().take(count).map(|secret| signing.signature(profile, secret));
    signing.headers(profile, &signatures.collect::<Vec<_>>())
}

#[must_use]
pub fn encode(profile: Profile, tag: &[u8]) -> String {
    let text = match profile.encoding {
        Encoding::Hex => hex(tag),
        Encoding::HexUpper => hex(tag).to_ascii_uppercase(),
        Encoding::Base64 => base64(tag),
        Encoding::Base64Url => URL_SAFE.encode(tag),
    };
    format!("{}{text}", profile.signature_prefix())
}
