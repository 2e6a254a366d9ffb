//! A secret that the judge shares with the program under test.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use zeroize::Zeroizing;

use super::digest::hex;
use super::profile::Profile;

/// The prefix of secrets of Standard Webhooks.
const PREFIX: &str = "whsec_";
/// From this length on, the bytes of a key, and their hexadecimal form, count as the secret.
const KEY_BYTES_KNOWN_MIN: usize = 8;

/// A secret, ready to sign by its profile. It is never printed; [`Secret::redact`] removes its text from
/// other texts.
#[derive(Clone)]
pub struct Secret {
    text: Zeroizing<String>,
    /// The bytes of the key.
    bytes: Zeroizing<Vec<u8>>,
    key: hmac::Key,
}

impl Secret {
    /// For Standard Webhooks, the key is the decoded base64 after `whsec_` (which may be missing, as some
    /// libraries omit it). For every other profile, the key is the text's own bytes.
    pub fn parse(profile: Profile, text: &str) -> Result<Self, SecretError> {
        // A prefix alone is a template without a value, and no profile's secret.
        if text.is_empty() || text == PREFIX {
            return Err(SecretError::Empty);
        }
        let bytes = if profile == Profile::StandardWebhooks {
            let encoded = text.strip_prefix(PREFIX).unwrap_or(text);
            // The decoder's error would quote a character of the secret.
            let bytes = STANDARD.decode(encoded).map(Zeroizing::new).map_err(|_| SecretError::Encoding)?;
            if bytes.is_empty() {
                return Err(SecretError::Empty);
            }
            bytes
        } else {
            Zeroizing::new(text.as_bytes().to_vec())
        };
        let key = hmac::Key::new(hmac::HMAC_SHA256, &bytes);
        Ok(Self { text: Zeroizing::new(text.to_owned()), bytes, key })
    }

    /// The HMAC-SHA256 of the concatenated parts.
    #[must_use]
    pub fn tag(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.key);
        for part in parts {
            context.update(part);
        }
        let mut tag = [0; 32];
        tag.copy_from_slice(context.sign().as_ref());
        tag
    }

    /// Whether `tag` is the HMAC-SHA256 of the parts; takes constant time.
    pub(super) fn made(&self, tag: &[u8], parts: &[&[u8]]) -> bool {
        hmac::verify(&self.key, &parts.concat(), tag).is_ok()
    }

    /// The text without the secret in any form that [`Secret::is_in`] knows.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.redact_bytes(text.as_bytes())).into_owned()
    }

    /// The same for bytes.
    #[must_use]
    pub fn redact_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        self.forms().iter().fold(bytes.to_vec(), |bytes, form| without(&bytes, form))
    }

    /// Whether the bytes contain the secret: with or without its prefix, as the key's bytes, or as their
    /// hexadecimal form.
    #[must_use]
    pub fn is_in(&self, bytes: &[u8]) -> bool {
        self.forms().iter().any(|form| bytes.windows(form.len()).any(|window| window == form.as_slice()))
    }

    /// The forms of the secret, a longer one before those inside it. None is empty.
    fn forms(&self) -> Vec<Zeroizing<Vec<u8>>> {
        let bare = self.text.strip_prefix(PREFIX).unwrap_or(&self.text);
        let mut forms = vec![self.text.as_bytes().to_vec()];
        if bare != self.text.as_str() {
            forms.push(bare.as_bytes().to_vec());
        }
        // A few bytes can occur by chance.
        if self.bytes.len() >= KEY_BYTES_KNOWN_MIN {
            let spelled = hex(&self.bytes);
            forms.extend([spelled.to_uppercase().into_bytes(), spelled.into_bytes(), self.bytes.to_vec()]);
        }
        forms.into_iter().map(Zeroizing::new).collect()
    }
}

/// The bytes without each occurrence of `form`.
fn without(bytes: &[u8], form: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = rest.windows(form.len()).position(|window| window == form) {
        kept.extend_from_slice(&rest[..at]);
        kept.extend_from_slice(b"(secret)");
        rest = &rest[at + form.len()..];
    }
    kept.extend_from_slice(rest);
    kept
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// An invalid secret. The messages do not quote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    #[error("the secret is empty")]
    Empty,
    #[error(
        "the secret is not standard base64 with its padding; standard-webhooks expects {PREFIX} and base64"
    )]
    Encoding,
}
