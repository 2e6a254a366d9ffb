//! Verifying: what a request carries, and which keys signed it. Strict: what only a lenient receiver would take is
//! wrong, and the reason is said.

use std::borrow::Cow;

use super::digest::{unbase64, unhex};
use super::profile::Profile;
use super::secret::Secret;
use super::sign::Signing;

/// The most signatures of one request that are looked at.
pub(super) const SIGNATURES_MAX: usize = 64;
/// The most of a header's value that is kept to be shown.
pub(super) const TEXT_BYTES_MAX: usize = 4096;

/// What a request carries of its profile, word for word, and the verdict on it. Bytes that are no UTF-8 show as
/// U+FFFD; long values are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The delivery's id.
    pub id: Option<String>,
    /// The timestamp.
    pub timestamp: Option<String>,
    /// The attempt's number.
    pub attempt: Option<String>,
    /// The whole signature header.
    pub signature: Option<String>,
    /// The places among the secrets of those that signed it, or why none did.
    pub verdict: Result<Vec<usize>, Wrong>,
}

/// Why a request is not signed as it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// A header of the profile is missing.
    #[error("there is no {0} header")]
    Missing(Cow<'static, str>),
    /// A header of the profile is there several times.
    #[error("there are several {0} headers")]
    Several(Cow<'static, str>),
    /// A header of the profile is empty, or not visible ASCII.
    #[error("the {0} header is empty or not visible ASCII")]
    Text(Cow<'static, str>),
    /// The timestamp is not a number of seconds in its one right spelling.
    #[error("the timestamp {0:?} is not a number of seconds")]
    Timestamp(String),
    /// There is no signature of the profile's kind and version in the header.
    #[error("the {0} header holds no signature of the profile's kind")]
    NoSignature(Cow<'static, str>),
    /// A signature is not written as the profile has it.
    #[error("signature {0} of the request is not written as the profile has it")]
    Encoding(usize),
    /// More signatures than anybody would look at.
    #[error("there are more than {SIGNATURES_MAX} signatures")]
    TooMany,
    /// No known key made any of them.
    #[error("no known key made any of the signatures")]
    NoKey,
}

/// Reads a request's headers by the profile, and says which of the secrets signed the body.
#[must_use]
pub fn verify(profile: Profile, secrets: &[Secret], headers: &[(&str, &[u8])], body: &[u8]) -> Seen {
    verify_by(profile, &secrets.iter().collect::<Vec<_>>(), headers, body)
}

/// The same by secrets that lie apart.
pub(super) fn verify_by(
    profile: Profile,
    secrets: &[&Secret],
    headers: &[(&str, &[u8])],
    body: &[u8],
) -> Seen {
    let find = |name: Option<&'static str>| name.map(|name| Field::of(headers, name));
    let shown = |field: Option<Field<'_>>| {
        let first = field?.first?;
        Some(String::from_utf8_lossy(&first[..first.len().min(TEXT_BYTES_MAX)]).into_owned())
    };
    let signature = find(Some(profile.signature_header()));
    let id = find(profile.id_header());
    let timestamp = find(profile.timestamp_header());
    let stripe_timestamp = || Some(stripe_parts(shown(signature)?.as_str()).0?.to_owned());
    Seen {
        id: shown(id),
        timestamp: if profile == Profile::Stripe { stripe_timestamp() } else { shown(timestamp) },
        attempt: shown(find(profile.attempt_header())),
        signature: shown(signature),
        verdict: judge(profile, secrets, [id, timestamp, signature], body),
    }
}

/// What a request has of a header.
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
) -> Result<Vec<usize>, Wrong> {
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
    let made = |secret: &Secret| tags.iter().any(|tag| secret.made(tag, &parts));
    let keys: Vec<usize> = (0..secrets.len()).filter(|at| made(secrets[*at])).collect();
    if keys.is_empty() { Err(Wrong::NoKey) } else { Ok(keys) }
}

/// The bytes of every signature of the profile's version. Those of other versions are left alone, as the profiles want.
fn tags(profile: Profile, signatures: &[&str]) -> Result<Vec<Vec<u8>>, Wrong> {
    let mut tags = Vec::new();
    for (place, signature) in signatures.iter().enumerate() {
        let Some(text) = signature.strip_prefix(profile.signature_prefix()) else { continue };
        let bytes = if profile.is_base64() { unbase64(text) } else { unhex(text) };
        tags.push(bytes.filter(|bytes| bytes.len() == 32).ok_or(Wrong::Encoding(place + 1))?);
    }
    if tags.is_empty() { Err(Wrong::NoSignature(profile.signature_header().into())) } else { Ok(tags) }
}

/// The one value of a header that has to be there; nothing to read where the profile has no such header.
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

/// The timestamp and the parts with a `v1=` or another version in a `Stripe-Signature` header.
fn stripe_parts(header: &str) -> (Option<&str>, Vec<&str>) {
    let mut parts = header.split(',');
    let timestamp = parts.clone().find_map(|part| part.strip_prefix("t="));
    (timestamp, parts.by_ref().filter(|part| !part.starts_with("t=")).collect())
}

/// Whether a text is a number of seconds as everybody writes it: digits, no sign, no leading zero; an `i64`.
pub(super) fn is_canonical(timestamp: &str) -> bool {
    timestamp.parse::<i64>().is_ok_and(|seconds| seconds >= 0 && seconds.to_string() == timestamp)
}
