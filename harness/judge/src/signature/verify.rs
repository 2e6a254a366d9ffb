//! Signing, and strict verification. A request that only a lenient receiver would accept is wrong, with a reason.

use std::borrow::Cow;

use ::base64::Engine as _;
use ::base64::engine::general_purpose::URL_SAFE;

use super::definition::{Algorithm, Definition, Encoding, INPUT, KeyForm, Stamp, Unit};
use super::key::{ForeignHash, Key, KeyError, Secret};
use super::part::Part;
use super::profile::Profile;
use super::small_order::signature_of_zeros;
use super::token::{self, ES256, Token};
use super::{base64, body, hex, sha256_hex, unbase64, unbase64url, unhex};

pub(super) const SIGNATURES_MAX: usize = 64;
const FORM: &[u8] = b"application/x-www-form-urlencoded";
const TEXT_BYTES_MAX: usize = 4096;

/// The signature headers of a request, verbatim, and their verdict. Bytes outside UTF-8 show as U+FFFD; long
/// values are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedSignature {
    pub id: Option<String>,
    pub timestamp: Option<String>,
    pub attempt: Option<String>,
    pub signature: Option<String>,
    /// Places of the secrets that signed it.
    pub verdict: Result<Vec<usize>, Wrong>,
    /// Signatures of none of the secrets, beside those that one made.
    pub surplus: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    #[error("there is no {0} header")]
    Missing(Cow<'static, str>),
    #[error("the body has no text at {0}")]
    Member(String),
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
    #[error("its target does not end with the digest of its body, {0:?}")]
    Digest(String),
    #[error(
        "the {0} header holds no token by ES256 with a name of its key, its members once and in base64url"
    )]
    Token(Cow<'static, str>),
    #[error("the claim {0} of the token is missing, or not that of the body")]
    Claim(String),
    #[error(
        "the signature-input header is not that of a request in canonical form with keyid, or has other labels than signature"
    )]
    Input,
    #[error("the signature does not cover {0}")]
    Uncovered(String),
    #[error("the signature expires before it was created")]
    Expired,
    #[error("the content-digest header lacks the SHA-256 of the body")]
    ContentDigest,
    #[error("no signature was made with a known key")]
    NoKey,
}

/// A request, as far as a signature can cover it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Received<'a> {
    pub method: &'a str,
    pub url: &'a str,
    /// Where it arrived, with its query, if that is known.
    pub target: Option<&'a str>,
    pub headers: &'a [(&'a str, &'a [u8])],
    pub body: &'a [u8],
}

impl<'a> Received<'a> {
    pub(super) fn field(&self, name: &str) -> Field<'a> {
        Field::of(self.headers, name)
    }

    fn is_form(&self) -> bool {
        let kind = self.field("content-type").first.unwrap_or_default();
        let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default();
        kind.trim_ascii().eq_ignore_ascii_case(FORM)
    }

    fn shown(&self, name: &str) -> Option<String> {
        let first = self.field(name).first?;
        Some(String::from_utf8_lossy(&first[..first.len().min(TEXT_BYTES_MAX)]).into_owned())
    }
}

impl Definition {
    #[must_use]
    pub fn secret_of(&self, bytes: &[u8]) -> String {
        match self.key {
            // Else it would pass for a public key.
            _ if self.algorithm == Some(Algorithm::Ed25519) => format!("whsk_{}", base64(bytes)),
            // A key is a number below the order of the group.
            _ if self.algorithm.is_some_and(Algorithm::is_p256) => {
                let mut number = bytes.to_vec();
                number.first_mut().into_iter().for_each(|first| *first &= 0x7f);
                format!("whsk_{}", base64(&number))
            }
            KeyForm::Hex => hex(bytes),
            KeyForm::Base64 => base64(bytes),
            KeyForm::Text | KeyForm::Whsec | KeyForm::Pem | KeyForm::Jwk => {
                format!("whsec_{}", base64(bytes))
            }
        }
    }

    pub fn key(&self, text: &str) -> Result<Key, KeyError> {
        Key::parse(self, text)
    }

    #[must_use]
    pub fn verify(&self, keys: &[Key], request: &Received<'_>) -> CheckedSignature {
        let shown = |name: &str| request.shown(name);
        let signature = match &self.habits.signature_field {
            Some(pointer) => {
                member(request.body, pointer).map(|text| text.chars().take(TEXT_BYTES_MAX).collect())
            }
            None => shown(&self.header),
        };
        let timestamp = match &self.timestamp {
            None => None,
            Some(Stamp::Header(name)) => shown(name),
            Some(Stamp::Beside(prefix)) => {
                signature.as_deref().and_then(|values| self.value_after(values, prefix)).map(str::to_owned)
            }
            Some(Stamp::Field(name)) => at_top(request.body, name),
            Some(Stamp::Claim(name)) => {
                signature.as_deref().and_then(Token::read).and_then(|token| token.number(name))
            }
            Some(Stamp::Parameter(_)) => request.created(),
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
        if self.is_token() {
            let token = first(&self.header);
            return secret.tag(token.rsplit_once('.').map_or("", |(signed, _)| signed).as_bytes());
        }
        if self.is_message() {
            return secret.tag(&request.message().unwrap_or_default());
        }
        let id = self.id.as_deref().map(first).unwrap_or_default();
        let timestamp = match &self.timestamp {
            None => String::new(),
            Some(Stamp::Header(name)) => first(name),
            Some(Stamp::Beside(prefix)) => {
                self.value_after(&first(&self.header), prefix).unwrap_or_default().to_owned()
            }
            Some(Stamp::Field(name)) => at_top(request.body, name).unwrap_or_default(),
            Some(Stamp::Claim(_) | Stamp::Parameter(_)) => String::new(),
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
        if self.is_message() {
            return self.judge_message(keys, request);
        }
        let value = |name: &str| one(name, request.field(name));
        let own;
        let values = match &self.habits.signature_field {
            Some(pointer) => {
                own = member(request.body, pointer).filter(|text| !text.is_empty());
                own.as_deref().ok_or_else(|| Wrong::Member(pointer.clone()))?
            }
            None => value(&self.header)?,
        };
        let id = self.id.as_deref().map(value).transpose()?.unwrap_or_default();
        if let Some(digest) = &self.habits.digest_claim {
            return self.judge_token(keys, values, digest, request.body);
        }
        let field;
        let timestamp = match &self.timestamp {
            None | Some(Stamp::Claim(_) | Stamp::Parameter(_)) => "",
            Some(Stamp::Field(name)) => {
                field = at_top(request.body, name).unwrap_or_default();
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
        if let Cow::Owned(url) = self.addressed(request.url, request.body, request.is_form()) {
            let digest = &url[request.url.len()..];
            if request.target.is_some_and(|target| !target.ends_with(digest)) {
                return Err(Wrong::Digest(digest.to_owned()));
            }
        }
        let mut messages = vec![self.message(id, timestamp, request)];
        // Such providers leave the port out, or add it, as it comes.
        if let Some(url) = self.habits.body_digest.as_ref().and_then(|_| other_port(request.url)) {
            messages.push(self.message(id, timestamp, &Received { url: &url, ..*request }));
        }
        let signed =
            |at: usize, key: usize| messages.iter().any(|message| keys[key].signed(&signatures[at], message));
        made(signatures.len(), keys.len(), signed)
    }

    fn judge_token(&self, keys: &[Key], text: &str, digest: &str, body: &[u8]) -> Result<Made, Wrong> {
        let token = Token::read(text).ok_or_else(|| Wrong::Token(self.header.clone().into()))?;
        let signed = |_: usize, key: usize| {
            keys[key].kid() == token.kid && keys[key].signed(&token.signature, token.signed.as_bytes())
        };
        let made = made(1, keys.len(), signed)?;
        if let Some(Stamp::Claim(name)) = &self.timestamp {
            let seconds = token.number(name).unwrap_or_default();
            if !is_canonical(&seconds) {
                return Err(Wrong::Timestamp(seconds.chars().take(64).collect()));
            }
        }
        if token.text(digest) != Some(&sha256_hex(body)) {
            return Err(Wrong::Claim(digest.to_owned()));
        }
        Ok(made)
    }

    /// The URL, or path, with the digest of a body that is no form.
    #[must_use]
    pub fn addressed<'u>(&self, url: &'u str, body: &[u8], is_form: bool) -> Cow<'u, str> {
        self.addressed_by(url, || sha256_hex(body), is_form)
    }

    pub(crate) fn addressed_by<'u>(
        &self,
        url: &'u str,
        sha256: impl FnOnce() -> String,
        is_form: bool,
    ) -> Cow<'u, str> {
        let Some(name) = self.habits.body_digest.as_ref().filter(|_| !is_form) else { return url.into() };
        let joint = if url.contains('?') { '&' } else { '?' };
        format!("{url}{joint}{name}={}", sha256()).into()
    }

    fn message(&self, id: &str, timestamp: &str, request: &Received<'_>) -> Vec<u8> {
        let mut message = Vec::with_capacity(request.body.len() + 128);
        let is_form = self.signs_forms() && request.is_form();
        let url = self.addressed(request.url, request.body, is_form);
        let form = if is_form { pairs(request.body).concat() } else { Vec::new() };
        let json = self.json(request.body);
        for part in &self.signed {
            message.extend_from_slice(match part {
                Part::Id => id.as_bytes(),
                Part::Timestamp => timestamp.as_bytes(),
                Part::Body => request.body,
                Part::Url => url.as_bytes(),
                Part::Form => &form,
                Part::Method => request.method.as_bytes(),
                Part::Header(name) => request.field(name).first.unwrap_or_default(),
                Part::Audience => self.habits.audience.as_deref().unwrap_or_default().as_bytes(),
                Part::Crc32 => {
                    message.extend(crc32(request.body).to_string().bytes());
                    continue;
                }
                Part::Member(pointer) => {
                    message.extend(body::text(&json, pointer).iter());
                    continue;
                }
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

    /// It has the timestamp's prefix, and not a longer prefix of a signature.
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

/// Places of the secrets, and the number of signatures of no secret.
pub(super) type Made = (Vec<usize>, usize);

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
    fn of(headers: &[(&str, &'a [u8])], name: &str) -> Self {
        let mut named = headers.iter().filter(|(given, _)| given.eq_ignore_ascii_case(name));
        Self { first: named.next().map(|(_, value)| *value), is_alone: named.next().is_none() }
    }
}

fn at_top(body: &[u8], name: &str) -> Option<String> {
    member(body, &format!("/{}", name.replace('~', "~0").replace('/', "~1")))
}

fn member(body: &[u8], pointer: &str) -> Option<String> {
    match serde_json::from_slice::<serde_json::Value>(body).ok()?.pointer(pointer)? {
        serde_json::Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// CRC-32 of ISO 3309.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |rest: u32, _: u32| (rest >> 1) ^ (0xedb8_8320 * (rest & 1));
    !bytes.iter().fold(!0, |rest, byte| (0..8).fold(rest ^ u32::from(*byte), step))
}

/// The names of a form, each followed by its value, sorted. Of equal pairs one stays.
fn pairs(form: &[u8]) -> Vec<Vec<u8>> {
    let pairs = form.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).map(|pair| {
        let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        (plain(&pair[..at]), plain(pair.get(at + 1..).unwrap_or_default()))
    });
    let mut pairs: Vec<_> = pairs.collect();
    pairs.sort();
    pairs.dedup();
    pairs.into_iter().map(|(name, value)| [name, value].concat()).collect()
}

/// A form's text: `+` is a space, `%2B` a plus.
fn plain(text: &[u8]) -> Vec<u8> {
    let (mut plain, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((byte, after)) = rest.split_first() {
        let escaped = after.get(..2).filter(|_| *byte == b'%').and_then(|digits| {
            unhex(&String::from_utf8_lossy(digits).to_ascii_lowercase())?.first().copied()
        });
        plain.push(escaped.unwrap_or(if *byte == b'+' { b' ' } else { *byte }));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    plain
}

/// The URL without its port, or with the port of its scheme.
fn other_port(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let port = authority.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let authority = match port {
        Some((host, _)) => host.to_owned(),
        None => format!("{authority}:{}", if scheme == "https" { 443 } else { 80 }),
    };
    Some(format!("{scheme}://{authority}{path}"))
}

pub(super) fn one<'a>(name: &str, field: Field<'a>) -> Result<&'a str, Wrong> {
    let name = || Cow::Owned(name.to_owned());
    let value = field.first.ok_or_else(|| Wrong::Missing(name()))?;
    if !field.is_alone {
        return Err(Wrong::Several(name()));
    }
    let visible = |byte: &u8| *byte == b' ' || byte.is_ascii_graphic();
    let text = std::str::from_utf8(value).ok().filter(|_| value.iter().all(visible));
    text.filter(|text| !text.is_empty()).ok_or_else(|| Wrong::Text(name()))
}

/// An `i64` of digits, without sign or leading zero.
pub(super) fn is_canonical(timestamp: &str) -> bool {
    timestamp.parse::<i64>().is_ok_and(|seconds| seconds >= 0 && seconds.to_string() == timestamp)
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Signing<'a> {
    pub id: &'a str,
    /// In its text form: the judge also signs timestamps that are no number.
    pub timestamp: &'a str,
    pub event_type: &'a str,
    /// Of the timestamp, as RFC 3339 writes it.
    pub date: &'a str,
    pub method: &'a str,
    pub url: &'a str,
    pub body: &'a [u8],
    /// Whether it is sent as application/x-www-form-urlencoded.
    pub is_form: bool,
}

impl Signing<'_> {
    /// Has the profile's prefix: `v1,…`, `sha256=…`.
    #[must_use]
    pub fn signature(&self, profile: Profile, secret: &Secret) -> String {
        self.encoded(&profile, secret, &self.tag(profile, secret))
    }

    #[must_use]
    pub fn tag(&self, profile: Profile, secret: &Secret) -> Vec<u8> {
        secret.tag(&self.message(&profile, secret))
    }

    /// The text before a signature: the profile's, or the rest of the token by this key.
    #[must_use]
    pub fn prefix(&self, profile: &Definition, secret: &Secret) -> String {
        if profile.is_token() {
            token::signed(&token::head(ES256, &secret.kid()), &self.claims(profile))
        } else if profile.is_message() {
            let input = self.input(profile, &secret.kid(), secret.message_algorithm());
            format!("{input}\n{}", profile.prefix)
        } else {
            profile.prefix.clone()
        }
    }

    /// By a stranger. In a token under the name of this key.
    #[must_use]
    pub fn forged(&self, profile: Profile, secret: &Secret, stranger: &Secret) -> String {
        self.encoded(&profile, secret, &stranger.tag(&self.message(&profile, secret)))
    }

    /// A tag as this key's signature is written.
    #[must_use]
    pub fn encoded(&self, profile: &Definition, secret: &Secret, tag: &[u8]) -> String {
        format!("{}{}", self.prefix(profile, secret), encode_bare(profile, tag))
    }

    /// Without those that the definition does not sign, and without an empty time.
    pub(super) fn claims(&self, profile: &Definition) -> String {
        let time = match &profile.timestamp {
            Some(Stamp::Claim(name)) if !self.timestamp.is_empty() => {
                Some((Part::Timestamp, format!("\"{name}\":{}", self.timestamp)))
            }
            _ => None,
        };
        let digest = profile.habits.digest_claim.as_ref();
        let digest = digest.map(|name| (Part::Body, format!("\"{name}\":\"{}\"", sha256_hex(self.body))));
        let signed = time.into_iter().chain(digest).filter(|(part, _)| profile.signed.contains(part));
        format!("{{{}}}", signed.map(|(_, member)| member).collect::<Vec<_>>().join(","))
    }

    /// Of P-256 two zeros, which a careless verifier takes for any message; of ed25519 a signature that the public key of
    /// 32 zero bytes verifies, and none for some messages.
    #[must_use]
    pub fn signature_of_zeros(&self, profile: Profile, secret: &Secret) -> Option<String> {
        const TWO_ZEROS: [u8; 8] = [0x30, 6, 2, 1, 0, 2, 1, 0];
        let tag = match secret.public_algorithm()? {
            Algorithm::Ed25519 => signature_of_zeros(&self.message(&profile, secret))?,
            Algorithm::JwtEs256 => vec![0; 64],
            Algorithm::RsaSha256 => vec![0; self.tag(profile, secret).len()],
            _ => TWO_ZEROS.to_vec(),
        };
        Some(self.encoded(&profile, secret, &tag))
    }

    /// Signatures of texts made of the same parts, each with its template.
    #[must_use]
    pub fn other_signatures(&self, profile: Profile, secret: &Secret) -> Vec<(String, String)> {
        let mut messages = vec![self.message(&profile, secret)];
        let mut signatures = Vec::new();
        let with = |signed| Definition { signed, ..profile.definition().clone() };
        let others = profile
            .other_parts()
            .into_iter()
            .map(|signed| (signed.iter().map(ToString::to_string).collect::<String>(), with(signed)));
        let elsewhere = profile.habits.audience.as_ref().map(|audience| {
            let mut other = with(profile.signed.clone());
            other.habits.audience = Some(format!("{audience}2"));
            ("another {audience}".to_owned(), other)
        });
        for (template, other) in others.chain(elsewhere) {
            // A signature may cover less than ours.
            if profile.is_message() && other.uncovered(self.url.contains('?')).is_none() {
                continue;
            }
            let message = self.message(&other, secret);
            if !messages.contains(&message) {
                signatures.push((template, self.encoded(&other, secret, &secret.tag(&message))));
                messages.push(message);
            }
        }
        signatures
    }

    #[must_use]
    pub fn foreign_tag(&self, profile: Profile, secret: &Secret, hash: ForeignHash) -> Vec<u8> {
        secret.foreign_tag(hash, &self.message(&profile, secret))
    }

    fn message(&self, profile: &Definition, secret: &Secret) -> Vec<u8> {
        if profile.is_token() {
            return self.prefix(profile, secret).trim_end_matches('.').as_bytes().to_vec();
        }
        if profile.is_message() {
            return self.message_of(profile, secret);
        }
        let Self { method, url, body, .. } = *self;
        let form = self.is_form.then_some(("content-type", FORM));
        let written: Vec<_> = self.written(profile).collect();
        let headers = written.iter().map(|(name, value)| (*name, value.as_bytes()));
        let headers: Vec<(&str, &[u8])> = headers.chain(form).collect();
        profile.message(
            self.id,
            self.timestamp,
            &Received { method, url, headers: &headers, body, ..Received::default() },
        )
    }

    #[must_use]
    pub fn headers(&self, profile: Profile, signatures: &[String]) -> Vec<(String, String)> {
        let stamp = match &profile.timestamp {
            Some(Stamp::Beside(prefix)) => Some(format!("{prefix}{}", self.timestamp)),
            _ => None,
        };
        let values: Vec<&str> = stamp.iter().chain(signatures).map(String::as_str).collect();
        let joined = values.join(profile.separator.as_deref().unwrap_or(" "));
        let (own, in_header) = match profile.is_message() {
            true => {
                let (input, value) = profile.dictionaries(signatures);
                (vec![("content-digest", self.content_digest()), (INPUT, input)], value)
            }
            false => (Vec::new(), joined),
        };
        let own = own.into_iter().chain([(profile.signature_header(), in_header)]);
        let own = own.map(|(name, value)| (name, Cow::from(value)));
        self.written(&profile).chain(own).map(|(name, value)| (name.to_owned(), value.into_owned())).collect()
    }

    pub(super) const fn content_type(&self) -> &'static [u8] {
        if self.is_form { FORM } else { b"application/json" }
    }

    /// Beside the signature.
    pub(super) fn written<'s>(
        &'s self,
        profile: &'s Definition,
    ) -> impl Iterator<Item = (&'s str, Cow<'s, str>)> {
        let named = [
            (profile.id_header(), self.id),
            (profile.timestamp_header(), self.timestamp),
            (profile.event_type.as_deref(), self.event_type),
            (profile.attempt.as_deref(), "1"),
        ];
        let named = named.into_iter().filter_map(|(name, value)| Some((name?, value.into())));
        let filled = |value: &'s str| match value {
            "{timestamp}" => self.date.into(),
            "{id}" => self.id.into(),
            other => other.into(),
        };
        named.chain(profile.habits.headers.iter().map(move |(name, value)| (&**name, filled(value))))
    }
}

/// Signed with each secret if the profile allows several signatures, else with the first.
#[must_use]
pub fn sign(profile: Profile, secrets: &[&Secret], signing: &Signing<'_>) -> Vec<(String, String)> {
    let count = if profile.has_several_signatures() { secrets.len() } else { 1 };
    let signatures = secrets.iter().take(count).map(|secret| signing.signature(profile, secret));
    signing.headers(profile, &signatures.collect::<Vec<_>>())
}

#[must_use]
pub fn encode_bare(profile: &Definition, tag: &[u8]) -> String {
    match profile.encoding {
        Encoding::Hex => hex(tag),
        Encoding::HexUpper => hex(tag).to_ascii_uppercase(),
        Encoding::Base64 => base64(tag),
        Encoding::Base64Url if profile.is_token() => token::encode(tag),
        Encoding::Base64Url => URL_SAFE.encode(tag),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pairs_of_a_form_are_sorted_and_decoded() {
        let check = |form: &str, expected: &str| {
            let joined = pairs(form.as_bytes()).concat();
            assert_eq!(String::from_utf8_lossy(&joined), expected, "{form}");
        };
        check("To=%2B1&Body=a+b%26c&Digits=1", "Bodya b&cDigits1To+1");
        check("b=2&a=3&b=1&b=2", "a3b1b2");
        check("a&B=&%zz=%4", "%zz%4Ba");
        check("", "");
    }

    #[test]
    fn a_crc_is_that_of_the_check_value() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn a_url_has_its_port_or_has_it_not() {
        for (url, other) in [
            ("https://a.example/x?y=1", "https://a.example:443/x?y=1"),
            ("http://a.example", "http://a.example:80"),
            ("https://a.example:8443/x:9", "https://a.example/x:9"),
            ("http://[::1]:80/", "http://[::1]/"),
            ("http://[::1]/", "http://[::1]:80/"),
        ] {
            assert_eq!(other_port(url).as_deref(), Some(other), "{url}");
        }
    }
}
