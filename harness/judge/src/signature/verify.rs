//! Signing, and strict verification: reads the signature headers of a request and finds the keys that signed
//! it. A request that only a lenient receiver would accept is wrong, with a reason.

use std::borrow::Cow;

use super::key::{ForeignHash, Secret};
use super::profile::Profile;
use super::{base64, hex, unbase64, unhex};

/// Limit of examined signatures in a request.
pub(super) const SIGNATURES_MAX: usize = 64;
/// Limit of a kept header value.
pub(super) const TEXT_BYTES_MAX: usize = 4096;

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
    /// The header is empty, or not visible ASCII.
    #[error("the {0} header is empty or not visible ASCII")]
    Text(Cow<'static, str>),
    /// The timestamp is not a canonical number of seconds.
    #[error("the timestamp {0:?} is not a number of seconds")]
    Timestamp(String),
    /// The header holds no signature of the profile's kind and version.
    #[error("the {0} header holds no signature of the profile's kind")]
    NoSignature(Cow<'static, str>),
    #[error("signature {0} of the request is not in the profile's encoding")]
    Encoding(usize),
    #[error("there are more than {SIGNATURES_MAX} signatures")]
    TooMany,
    #[error("no signature was made with a known key")]
    NoKey,
}

#[must_use]
pub fn verify(
    profile: Profile,
    secrets: &[Secret],
    headers: &[(&str, &[u8])],
    body: &[u8],
) -> CheckedSignature {
    verify_by(profile, &secrets.iter().collect::<Vec<_>>(), headers, body)
}

pub(super) fn verify_by(
    profile: Profile,
    secrets: &[&Secret],
    headers: &[(&str, &[u8])],
    body: &[u8],
) -> CheckedSignature {
    let find = |name: Option<&'static str>| name.map(|name| Field::of(headers, name));
    let shown = |field: Option<Field<'_>>| {
        let first = field?.first?;
        Some(String::from_utf8_lossy(&first[..first.len().min(TEXT_BYTES_MAX)]).into_owned())
    };
    let signature = find(Some(profile.signature_header()));
    let id = find(profile.id_header());
    let timestamp = find(profile.timestamp_header());
    let stripe_timestamp = || Some(stripe_parts(shown(signature)?.as_str()).0?.to_owned());
    let (verdict, surplus) = split(judge(profile, secrets, [id, timestamp, signature], body));
    CheckedSignature {
        id: shown(id),
        timestamp: if profile == Profile::Stripe { stripe_timestamp() } else { shown(timestamp) },
        attempt: shown(find(profile.attempt_header())),
        signature: shown(signature),
        verdict,
        surplus,
    }
}

/// The secrets that signed a request, by place, and the number of signatures of no secret.
pub(super) type Made = (Vec<usize>, usize);

pub(super) fn split(made: Result<Made, Wrong>) -> (Result<Vec<usize>, Wrong>, usize) {
    match made {
        Ok((keys, surplus)) => (Ok(keys), surplus),
        Err(wrong) => (Err(wrong), 0),
    }
}

/// `signs` is given the places of a signature and of a key.
pub(super) fn made(
    signatures: usize,
    keys: usize,
    signs: impl Fn(usize, usize) -> bool,
) -> Result<Made, Wrong> {
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
pub(super) struct Field<'a> {
    /// Its value, or the first of several.
    first: Option<&'a [u8]>,
    is_alone: bool,
}

impl<'a> Field<'a> {
    pub(super) fn of(headers: &[(&str, &'a [u8])], name: &str) -> Self {
        let mut named = headers.iter().filter(|(given, _)| given.eq_ignore_ascii_case(name));
        Self { first: named.next().map(|(_, value)| *value), is_alone: named.next().is_none() }
    }
}

fn judge(
    profile: Profile,
    secrets: &[&Secret],
    [id, timestamp, signature]: [Option<Field<'_>>; 3],
    body: &[u8],
) -> Result<Made, Wrong> {
    let id = one(profile.id_header(), id)?;
    let timestamp = one(profile.timestamp_header(), timestamp)?;
    let header = one(Some(profile.signature_header()), signature)?;
    let (timestamp, signatures) = match profile {
        Profile::StandardWebhooks => (timestamp, header.split(' ').collect()),
        Profile::Stripe => {
            let (timestamp, signatures) = stripe_parts(header);
            if header.split(',').filter(|part| part.starts_with("t=")).count() > 1 {
                return Err(Wrong::Several("stripe-signature t=".into()));
            }
            (timestamp.ok_or(Wrong::Missing("stripe-signature t=".into()))?, signatures)
        }
        Profile::VvvTimestamped | Profile::VvvFrozen | Profile::Github => (timestamp, vec![header]),
    };
    if profile.signs_timestamp() && !is_canonical(timestamp) {
        return Err(Wrong::Timestamp(timestamp.chars().take(64).collect()));
    }
    if signatures.len() > SIGNATURES_MAX {
        return Err(Wrong::TooMany);
    }
    let tags = tags(profile, &signatures)?;
    let parts = Signing { id, timestamp, event_type: "", body };
    let parts = parts.parts(profile);
    made(tags.len(), secrets.len(), |tag, key| secrets[key].authenticates(&tags[tag], &parts))
}

/// The bytes of every signature of the profile's version. Signatures of other versions are ignored, as the
/// profiles demand.
fn tags(profile: Profile, signatures: &[&str]) -> Result<Vec<Vec<u8>>, Wrong> {
    let mut tags = Vec::new();
    for (place, signature) in signatures.iter().enumerate() {
        let Some(text) = signature.strip_prefix(profile.signature_prefix()) else { continue };
        let bytes = if profile.is_base64() { unbase64(text) } else { unhex(text) };
        tags.push(bytes.filter(|bytes| bytes.len() == 32).ok_or(Wrong::Encoding(place + 1))?);
    }
    if tags.is_empty() { Err(Wrong::NoSignature(profile.signature_header().into())) } else { Ok(tags) }
}

/// The single value of a required header; empty if the profile has no such header.
pub(super) fn one<'a>(name: Option<&str>, field: Option<Field<'a>>) -> Result<&'a str, Wrong> {
    let (Some(name), Some(field)) = (name, field) else { return Ok("") };
    let name = || Cow::Owned(name.to_owned());
    let value = field.first.ok_or_else(|| Wrong::Missing(name()))?;
    if !field.is_alone {
        return Err(Wrong::Several(name()));
    }
    let visible = |byte: &u8| *byte == b' ' || byte.is_ascii_graphic();
    let text = std::str::from_utf8(value).ok().filter(|_| value.iter().all(visible));
    text.filter(|text| !text.is_empty()).ok_or_else(|| Wrong::Text(name()))
}

/// The timestamp and the versioned parts (`v1=`) of a `Stripe-Signature` header.
fn stripe_parts(header: &str) -> (Option<&str>, Vec<&str>) {
    let mut parts = header.split(',');
    let timestamp = parts.clone().find_map(|part| part.strip_prefix("t="));
    (timestamp, parts.by_ref().filter(|part| !part.starts_with("t=")).collect())
}

/// Whether a text is a canonical `i64` number of seconds: digits, no sign, no leading zero.
pub(super) fn is_canonical(timestamp: &str) -> bool {
    timestamp.parse::<i64>().is_ok_and(|seconds| seconds >= 0 && seconds.to_string() == timestamp)
}

#[derive(Clone, Copy, Debug)]
pub struct Signing<'a> {
    pub id: &'a str,
    /// In its text form: the judge also signs timestamps that are no number.
    pub timestamp: &'a str,
    pub event_type: &'a str,
    pub body: &'a [u8],
}

impl Signing<'_> {
    /// The signature with the profile's prefix: `v1,…`, `sha256=…`.
    #[must_use]
    pub fn signature(&self, profile: Profile, secret: &Secret) -> String {
        encode(profile, &self.tag(profile, secret))
    }

    #[must_use]
    pub fn tag(&self, profile: Profile, secret: &Secret) -> [u8; 32] {
        secret.tag(&self.parts(profile))
    }

    /// A tag by a hash that the profile does not use.
    #[must_use]
    pub fn foreign_tag(&self, profile: Profile, secret: &Secret, hash: ForeignHash) -> Vec<u8> {
        secret.foreign_tag(hash, &self.parts(profile).concat())
    }

    #[must_use]
    pub(super) fn parts(&self, profile: Profile) -> Vec<&[u8]> {
        let (id, timestamp) = (self.id.as_bytes(), self.timestamp.as_bytes());
        match profile {
            Profile::StandardWebhooks => vec![id, b".", timestamp, b".", self.body],
            Profile::VvvTimestamped | Profile::Stripe => vec![timestamp, b".", self.body],
            Profile::VvvFrozen | Profile::Github => vec![self.body],
        }
    }

    /// The headers of an attempt with these signatures, valid or not.
    #[must_use]
    pub fn headers(&self, profile: Profile, signatures: &[String]) -> Vec<(String, String)> {
        let signature = match profile {
            Profile::Stripe => {
                let parts =
                    std::iter::once(format!("t={}", self.timestamp)).chain(signatures.iter().cloned());
                parts.collect::<Vec<_>>().join(",")
            }
            _ => signatures.join(" "),
        };
        let named = [
            (profile.id_header(), self.id),
            (profile.timestamp_header(), self.timestamp),
            (profile.type_header(), self.event_type),
            (profile.attempt_header(), "1"),
            (Some(profile.signature_header()), &signature),
        ];
        named.into_iter().filter_map(|(name, value)| Some((name?.to_owned(), value.to_owned()))).collect()
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
    let text = if profile.is_base64() { base64(tag) } else { hex(tag) };
    format!("{}{text}", profile.signature_prefix())
}
