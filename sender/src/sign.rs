//! A [`Profile`] defines the signed content and the headers. [`Keys`] are the current key, and during a rotation the
//! retiring ones. A [`Signer`], built once per subscriber, writes each attempt's headers.
//!
//! Linear and Adyen are missing: the time or the signature is in the body, and a retry repeats the body to the byte. So is
//! PayPal, which signs by RSA.
//!
//! Only [`Secret::reveal`] exposes a secret; no error, `Debug` or `Display` does.

mod extra_header;
mod headers;
mod keys;
mod profile;

pub use extra_header::{ExtraHeader, HeaderError};
pub use headers::Headers;
use keys::{Key, Signature};
pub use keys::{Keys, KeysError, Retiring, Secret, SecretError, Tag};
pub(crate) use keys::{Mac, hex};
use profile::{Content, Form, MESSAGE_COVERED, PARTS_MAX, Part};
pub use profile::{KeyForm, Profile, UnknownProfile};

use crate::engine::time::StoreTime;
use crate::event::{EventType, PublicId};

#[derive(Clone, Debug)]
pub struct Signer {
    profile: Profile,
    /// Empty unless the profile signs it. With the method and the authority of an HTTP message, each in its line.
    url: Box<str>,
    current: Key,
    /// The most recent first.
    retiring: Vec<(Key, StoreTime)>,
}

#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// The endpoint recognises retries by it.
    pub id: &'a PublicId,
    pub event_type: &'a EventType,
    pub subscriber: &'a PublicId,
    /// Attempt number, from 1.
    pub number: u32,
    /// The signature from the emission, if the profile freezes it.
    pub frozen: Option<Tag>,
    pub body: &'a [u8],
}

impl Signer {
    pub fn new(profile: Profile, keys: &Keys) -> Result<Self, SecretError> {
        let ready = |secret: &Secret| secret.key(profile.form().key);
        let retiring = keys.retiring().iter().map(|key| Ok((ready(key.secret())?, key.until())));
        Ok(Self {
            profile,
            url: Box::default(),
            current: ready(keys.current())?,
            retiring: retiring.collect::<Result<_, SecretError>>()?,
        })
    }

    /// With the URL that its requests go to, in its normal form.
    #[must_use]
    pub fn with_url(self, url: &str) -> Self {
        if self.profile == Profile::Rfc9421 {
            let (_, rest) = url.split_once("://").unwrap_or(("", url));
            let authority = rest.split(['/', '?']).next().unwrap_or_default();
            let lines = format!("\"@method\": POST\n\"@target-uri\": {url}\n\"@authority\": {authority}");
            return Self { url: lines.into(), ..self };
        }
        let is_signed = self.profile.form().signed.contains(&Part::Url);
        Self { url: if is_signed { url.into() } else { self.url }, ..self }
    }

    #[must_use]
    pub const fn profile(&self) -> Profile {
        self.profile
    }

    /// Stored at emission; `None` for profiles that sign each attempt.
    #[must_use]
    pub fn freeze(&self, at: StoreTime, body: &[u8]) -> Option<Tag> {
        let oldest = self.all(at).last().filter(|_| self.profile.form().is_frozen);
        match oldest.map(|key| key.sign(&[body])) {
            Some(Signature::Hmac(tag)) => Some(tag),
            Some(Signature::Ed25519(_) | Signature::P256(_) | Signature::Pair(_) | Signature::Sha1(_))
            | None => None,
        }
    }

    /// Replaces the content of `headers`. Hashes the body once for each key.
    pub fn sign(&self, at: StoreTime, attempt: &Attempt<'_>, headers: &mut Headers) {
        let form = self.profile.form();
        let timestamp = at.0 / form.unit.0;
        headers.clear();
        if let Some(name) = form.digest {
            headers.set_query(if self.url.contains('?') { '&' } else { '?' }, name, attempt.body);
        }
        for (name, content) in self.profile.headers() {
            headers.add(name);
            match content {
                Content::Text(text) => headers.text(text),
                Content::Id => headers.text(attempt.id.as_str()),
                Content::EventType => headers.text(attempt.event_type.as_str()),
                Content::Subscriber => headers.text(attempt.subscriber.as_str()),
                Content::Attempt => headers.number(attempt.number.into()),
                Content::Timestamp => headers.timestamp(timestamp),
                Content::Digest => headers.digest(attempt.body),
                Content::Input => {
                    let name = self.all(at).last().map_or("", Key::name);
                    headers.text("sig1=").text(MESSAGE_COVERED).text(";created=").number(timestamp).text(name)
                }
                Content::Signature => {
                    if let Some(key) = self.all(at).last().filter(|_| form.key == KeyForm::PrivateEs256) {
                        headers.token(key.name(), timestamp, attempt.body, |signed| key.sign(&[signed]));
                        continue;
                    }
                    if let Some(prefix) = form.beside {
                        headers.text(prefix).timestamp(timestamp);
                    }
                    let signatures = self.signatures(&form, at, attempt, headers);
                    for (place, signature) in signatures.iter().flatten().enumerate() {
                        let separator = form.separator.filter(|_| place > 0 || form.beside.is_some());
                        headers.text(separator.unwrap_or_default()).text(form.prefix);
                        headers.signature(signature, form.is_base64).text(form.suffix);
                    }
                    &mut *headers
                }
            };
        }
    }

    fn signatures(&self, form: &Form, at: StoreTime, attempt: &Attempt<'_>, headers: &Headers) -> Signatures {
        let mut signatures = [const { None }; Keys::COUNT_MAX];
        // None if the profile changed after the emission; the signature depends only on body and key.
        if let Some(frozen) = attempt.frozen.filter(|_| form.is_frozen) {
            signatures[0] = Some(Signature::Hmac(frozen));
            return signatures;
        }
        let mut parts: [&[u8]; PARTS_MAX] = [&[]; PARTS_MAX];
        for (place, part) in parts.iter_mut().zip(form.signed) {
            *place = match part {
                Part::Text(text) => text.as_bytes(),
                Part::Id => attempt.id.as_str().as_bytes(),
                Part::Timestamp => headers.written_timestamp().as_bytes(),
                Part::Body => attempt.body,
                Part::Url => self.url.as_bytes(),
                Part::Query => headers.query().as_bytes(),
                Part::Header(name) => {
                    let value = headers.get(name).unwrap_or_default();
                    value.strip_prefix("sig1=").unwrap_or(value).as_bytes()
                }
            };
        }
        // A single signature is of the oldest key that has not retired: the endpoint knows it, and has until its
        // retirement to learn the new one.
        let unused = if form.separator.is_some() { 0 } else { self.all(at).count() - 1 };
        for (place, key) in signatures.iter_mut().zip(self.all(at).skip(unused)) {
            *place = Some(key.sign(&parts));
        }
        signatures
    }

    fn all(&self, at: StoreTime) -> impl Iterator<Item = &Key> {
        let retiring = self.retiring.iter().filter(move |(_, until)| at < *until);
        std::iter::once(&self.current).chain(retiring.map(|(key, _)| key))
    }
}

type Signatures = [Option<Signature>; Keys::COUNT_MAX];

#[cfg(test)]
mod tests;
