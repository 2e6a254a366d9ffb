//! Signing: the headers of one attempt.

use super::digest::{base64, hex};
use super::profile::Profile;
use super::secret::Secret;

/// What one attempt is signed over, or goes along with.
#[derive(Clone, Copy, Debug)]
pub struct Signing<'a> {
    /// The delivery's id.
    pub id: &'a str,
    /// The timestamp, as it is to be written: a judge also signs texts that are no number.
    pub timestamp: &'a str,
    /// The event's type.
    pub event_type: &'a str,
    /// The body.
    pub body: &'a [u8],
}

impl Signing<'_> {
    /// The one signature by a secret, with what stands before it: `v1,…`, `sha256=…`.
    #[must_use]
    pub fn signature(&self, profile: Profile, secret: &Secret) -> String {
        encode(profile, &self.tag(profile, secret))
    }

    /// The bytes of that signature.
    #[must_use]
    pub fn tag(&self, profile: Profile, secret: &Secret) -> [u8; 32] {
        secret.tag(&self.parts(profile))
    }

    /// What is hashed, one after another.
    #[must_use]
    pub(super) fn parts(&self, profile: Profile) -> Vec<&[u8]> {
        let (id, timestamp) = (self.id.as_bytes(), self.timestamp.as_bytes());
        match profile {
            Profile::StandardWebhooks => vec![id, b".", timestamp, b".", self.body],
            Profile::VvvTimestamped | Profile::Stripe => vec![timestamp, b".", self.body],
            Profile::VvvFrozen | Profile::Github => vec![self.body],
        }
    }

    /// The headers of an attempt that carries these signatures, whatever they are.
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

/// The headers of an attempt that is signed as it should be, by each of these secrets where the profile has room for
/// several signatures, else by the first.
#[must_use]
pub fn sign(profile: Profile, secrets: &[&Secret], signing: &Signing<'_>) -> Vec<(String, String)> {
    let count = if profile.has_several_signatures() { secrets.len() } else { 1 };
    let signatures = secrets.iter().take(count).map(|secret| signing.signature(profile, secret));
    signing.headers(profile, &signatures.collect::<Vec<_>>())
}

/// A signature in the profile's text, with what stands before it.
#[must_use]
pub fn encode(profile: Profile, tag: &[u8]) -> String {
    let text = if profile.is_base64() { base64(tag) } else { hex(tag) };
    format!("{}{text}", profile.signature_prefix())
}
