//! Signing: the headers of one attempt.

use super::digest::{base64, hex};
use super::profile::Profile;
use super::secret::Secret;

/// The input of a signature, and the type of the event.
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

    /// The bytes of that signature.
    #[must_use]
    pub fn tag(&self, profile: Profile, secret: &Secret) -> [u8; 32] {
        secret.tag(&self.parts(profile))
    }

    /// The hashed parts, in order.
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

/// The profile's text form of a signature, with its prefix.
#[must_use]
pub fn encode(profile: Profile, tag: &[u8]) -> String {
    let text = if profile.is_base64() { base64(tag) } else { hex(tag) };
    format!("{}{text}", profile.signature_prefix())
}
