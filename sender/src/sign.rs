//! A [`Profile`] defines the signed content and the headers. [`Keys`] are the current key, and during a rotation the
//! retiring ones. A [`Signer`], built once per subscriber, writes each attempt's headers.
//!
//! Linear is missing: its receivers read the time in the body, and a retry repeats the body to the byte.
//!
//! Only [`Secret::reveal`] exposes a secret; no error, `Debug` or `Display` does.

mod extra_header;
mod headers;
mod keys;
mod profile;

pub use extra_header::{ExtraHeader, HeaderError};
pub use headers::Headers;
pub(crate) use keys::Mac;
pub use keys::{Keys, KeysError, Retiring, Secret, SecretError, Tag};
pub use profile::{AcrossRetries, KeyForm, Profile, SignatureCount, UnknownProfile};

use crate::engine::time::{Nanos, StoreTime};
use crate::event::{EventType, PublicId};

#[derive(Clone, Debug)]
pub struct Signer {
    profile: Profile,
    /// Empty unless the profile signs it.
    url: Box<str>,
    current: Mac,
    /// The most recent first.
    retiring: Vec<(Mac, StoreTime)>,
}

#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// The endpoint recognises retries by it.
    pub id: &'a PublicId,
    /// The event's type.
    pub event_type: &'a EventType,
    /// The subscriber.
    pub subscriber: &'a PublicId,
    /// The attempt number, from 1.
    pub number: u32,
    /// The signature from the emission, if the profile freezes it.
    pub frozen: Option<Tag>,
    /// The body.
    pub body: &'a [u8],
}

impl Signer {
    pub fn new(profile: Profile, keys: &Keys) -> Result<Self, SecretError> {
        let ready = |secret: &Secret| Ok(Mac::new(&secret.key(profile.key_form())?));
        let retiring = keys.retiring().iter().map(|key| Ok((ready(key.secret())?, key.until())));
        Ok(Self {
            profile,
            url: Box::default(),
            current: ready(keys.current())?,
            retiring: retiring.collect::<Result<_, SecretError>>()?,
        })
    }

    /// With the URL that its requests go to.
    #[must_use]
    pub fn with_url(self, url: &str) -> Self {
        let url =
            if matches!(self.profile, Profile::Hubspot | Profile::Square) { url.into() } else { self.url };
        Self { url, ..self }
    }

    /// Its profile.
    #[must_use]
    pub const fn profile(&self) -> Profile {
        self.profile
    }

    /// Stored at emission; `None` for profiles that sign each attempt.
    #[must_use]
    pub fn freeze(&self, at: StoreTime, body: &[u8]) -> Option<Tag> {
        (self.profile == Profile::VvvFrozen).then(|| self.only(at).tag(&[body]))
    }

    /// Replaces the content of `headers`. Hashes the body once for each key.
    pub fn sign(&self, at: StoreTime, attempt: &Attempt<'_>, headers: &mut Headers) {
        let seconds = at.0 / Nanos::SECOND.0;
        let (id, body) = (attempt.id.as_str(), attempt.body);
        headers.clear();
        match self.profile {
            Profile::StandardWebhooks => {
                headers.add("webhook-id").text(id);
                let timestamp = headers.add("webhook-timestamp").number(seconds).written();
                let signed = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body];
                let tags = Tags::of(self, at, &signed);
                let mut signature = headers.add("webhook-signature");
                for (place, tag) in tags.iter().enumerate() {
                    signature = signature.text(if place == 0 { "v1," } else { " v1," }).base64(tag);
                }
            }
            Profile::VvvFrozen => {
                // The profile changed after the emission. The signature depends only on body and key.
                let tag = attempt.frozen.unwrap_or_else(|| self.only(at).tag(&[body]));
                headers.add("x-vvv-signature").hex(&tag);
                headers.add("x-vvv-event").text(attempt.event_type.as_str());
                headers.add("x-vvv-attempt").number(attempt.number.into());
                headers.add("x-vvv-delivery-id").text(id);
                headers.add("x-vvv-subscriber").text(attempt.subscriber.as_str());
            }
            Profile::Stripe => {
                let value = headers.add("stripe-signature").text("t=").number(seconds);
                let timestamp = value.written().trim_start_matches("t=");
                let tags = Tags::of(self, at, &[timestamp.as_bytes(), b".", body]);
                let mut signature = headers.extend();
                for tag in tags.iter() {
                    signature = signature.text(",v1=").hex(tag);
                }
            }
            Profile::Paddle => {
                let value = headers.add("paddle-signature").text("ts=").number(seconds);
                let timestamp = value.written().trim_start_matches("ts=");
                let tag = self.only(at).tag(&[timestamp.as_bytes(), b":", body]);
                headers.extend().text(";h1=").hex(&tag);
            }
            _ => self.sign_once(at, attempt, headers),
        }
    }

    /// For profiles with one signature in a header of its own.
    fn sign_once(&self, at: StoreTime, attempt: &Attempt<'_>, headers: &mut Headers) {
        let mut names = self.profile.headers().iter().map(|(name, _)| *name);
        let stamp = match self.profile {
            Profile::VvvTimestamped | Profile::Slack | Profile::Zoom => Some(at.0 / Nanos::SECOND.0),
            Profile::Hubspot => Some(at.0 / Nanos::from_millis(1).0),
            _ => None,
        };
        let (key, url, body) = (self.only(at), self.url.as_bytes(), attempt.body);
        let timestamp = match (stamp, if stamp.is_some() { names.next() } else { None }) {
            (Some(stamp), Some(name)) => headers.add(name).number(stamp).written().as_bytes(),
            _ => b"",
        };
        let tag = match self.profile {
            Profile::VvvTimestamped => key.tag(&[timestamp, b".", body]),
            Profile::Slack | Profile::Zoom => key.tag(&[b"v0:", timestamp, b":", body]),
            Profile::Hubspot => key.tag(&[b"POST", url, body, timestamp]),
            Profile::Square => key.tag(&[url, body]),
            _ => key.tag(&[body]),
        };
        let Some(name) = names.next() else { return };
        let signature = headers.add(name);
        match self.profile {
            Profile::Hubspot | Profile::Line | Profile::Shopify | Profile::Square => signature.base64(&tag),
            Profile::Slack | Profile::Zoom => signature.text("v0=").hex(&tag),
            _ => signature.text("sha256=").hex(&tag),
        };
        let named = [attempt.event_type.as_str(), attempt.id.as_str()];
        for (name, value) in names.zip(named) {
            headers.add(name).text(value);
        }
    }

    fn all(&self, at: StoreTime) -> impl Iterator<Item = &Mac> {
        let retiring = self.retiring.iter().filter(move |(_, until)| at < *until);
        std::iter::once(&self.current).chain(retiring.map(|(mac, _)| mac))
    }

    /// The oldest that has not retired: the endpoint knows it, and has until its retirement to learn the new one.
    fn only(&self, at: StoreTime) -> &Mac {
        self.all(at).last().unwrap_or(&self.current)
    }
}

struct Tags {
    tags: [Option<Tag>; Keys::COUNT_MAX],
}

impl Tags {
    fn of(signer: &Signer, at: StoreTime, parts: &[&[u8]]) -> Self {
        let mut tags = [None; Keys::COUNT_MAX];
        for (place, mac) in tags.iter_mut().zip(signer.all(at)) {
            *place = Some(mac.tag(parts));
        }
        Self { tags }
    }

    fn iter(&self) -> impl Iterator<Item = &Tag> {
        self.tags.iter().flatten()
    }
}

#[cfg(test)]
mod tests;
