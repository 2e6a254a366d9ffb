//! Signing: proof to an endpoint that a body came from here, untouched.
//!
//! A subscriber has a [`Profile`], which says what is signed and in which headers, and [`Keys`]: a current one, and
//! during a rotation those that are still to retire. A [`Signer`] is both made ready; it is made once per subscriber
//! and then signs each attempt into a [`Headers`] that its caller uses again and again.
//!
//! Pure: the time and random bytes are arguments. Secrets leave this module through [`Secret::reveal`] alone, which
//! is for the store and for the one answer that hands a new secret to its owner; no error, `Debug` or `Display` shows
//! one.

mod headers;
mod keys;
pub(crate) mod mac;
mod profile;
mod secret;

pub use headers::Headers;
pub use keys::{Keys, KeysError, Retiring};
pub use mac::Tag;
pub use profile::{AcrossRetries, KeyForm, Profile, SignatureCount, UnknownProfile};
pub use secret::{Secret, SecretError};

use crate::engine::time::{Nanos, StoreTime};
use crate::event::{EventType, PublicId};
use mac::Mac;

/// Signs one subscriber's attempts. The keys have been worked into the hash beforehand; an attempt starts from a copy
/// of that.
#[derive(Clone, Debug)]
pub struct Signer {
    profile: Profile,
    current: Mac,
    /// In the order in which they were current, the latest first.
    retiring: Vec<(Mac, StoreTime)>,
}

/// What a signature is made over, or goes along with.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// The id by which the endpoint tells a retry from another delivery.
    pub id: &'a PublicId,
    /// What happened.
    pub event_type: &'a EventType,
    /// Whom it is sent to.
    pub subscriber: &'a PublicId,
    /// Which attempt of the delivery this is, from 1.
    pub number: u32,
    /// The signature made when the event was emitted, for a profile that has one.
    pub frozen: Option<Tag>,
    /// The body.
    pub body: &'a [u8],
}

impl Signer {
    /// Makes a profile and its keys ready.
    pub fn new(profile: Profile, keys: &Keys) -> Result<Self, SecretError> {
        let ready = |secret: &Secret| Ok(Mac::new(&secret.key(profile.key_form())?));
        let retiring = keys.retiring().iter().map(|key| Ok((ready(key.secret())?, key.until())));
        Ok(Self {
            profile,
            current: ready(keys.current())?,
            retiring: retiring.collect::<Result<_, SecretError>>()?,
        })
    }

    /// The profile it signs by.
    #[must_use]
    pub const fn profile(&self) -> Profile {
        self.profile
    }

    /// The signature to keep with a delivery from its emission on; nothing for a profile that signs each attempt.
    #[must_use]
    pub fn freeze(&self, at: StoreTime, body: &[u8]) -> Option<Tag> {
        (self.profile == Profile::VvvFrozen).then(|| self.only(at).tag(&[body]))
    }

    /// Writes the headers of one attempt, in place of what they held. The work is a hash over the body for each key,
    /// and no allocation once `headers` has grown to its size.
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
            Profile::VvvTimestamped => {
                let timestamp = headers.add("x-vvv-timestamp").number(seconds).written();
                let tag = self.only(at).tag(&[timestamp.as_bytes(), b".", body]);
                headers.add("x-vvv-signature").text("sha256=").hex(&tag);
            }
            Profile::VvvFrozen => {
                // Without a kept signature (the profile was changed after the event was emitted) it is made now; it
                // depends on nothing but body and key.
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
            Profile::Github => {
                let tag = self.only(at).tag(&[body]);
                headers.add("x-hub-signature-256").text("sha256=").hex(&tag);
                headers.add("x-github-event").text(attempt.event_type.as_str());
                headers.add("x-github-delivery").text(id);
            }
        }
    }

    /// All keys that sign at a moment, the current one first.
    fn all(&self, at: StoreTime) -> impl Iterator<Item = &Mac> {
        let retiring = self.retiring.iter().filter(move |(_, until)| at < *until);
        std::iter::once(&self.current).chain(retiring.map(|(mac, _)| mac))
    }

    /// The key that signs where there is room for one signature: the oldest that has not retired. The endpoint surely
    /// has that one, and has until its retirement to learn of the new one.
    fn only(&self, at: StoreTime) -> &Mac {
        self.all(at).last().unwrap_or(&self.current)
    }
}

/// The signatures by all keys over the same parts; there are never many.
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
