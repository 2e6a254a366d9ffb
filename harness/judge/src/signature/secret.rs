//! A secret that the judge shares with what it judges.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use zeroize::Zeroizing;

use super::digest::hex;
use super::profile::Profile;

/// What a secret of Standard Webhooks begins with.
const PREFIX: &str = "whsec_";
/// From how many bytes on a key is known by its bytes, and by these in hexadecimal.
const KEY_BYTES_KNOWN_MIN: usize = 8;

/// A secret, ready to sign by the profile that it was read for. It is never printed: its text leaves by
/// [`Secret::redact`] alone, which takes it out of other texts.
#[derive(Clone)]
pub struct Secret {
    text: Zeroizing<String>,
    /// What the key is made of.
    bytes: Zeroizing<Vec<u8>>,
    key: hmac::Key,
}

impl Secret {
    /// Reads a secret. By Standard Webhooks the key is what the base64 after `whsec_` stands for (the prefix may be
    /// missing, as some libraries show it without); by every other profile it is the text's own bytes.
    pub fn parse(profile: Profile, text: &str) -> Result<Self, SecretError> {
        // No profile's secret is the prefix alone: it is what is left where nothing was filled in.
        if text.is_empty() || text == PREFIX {
            return Err(SecretError::Empty);
        }
        let bytes = if profile == Profile::StandardWebhooks {
            let encoded = text.strip_prefix(PREFIX).unwrap_or(text);
            // The decoder's error would say which character stands where.
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

    /// The HMAC-SHA256 of these parts, one after another.
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

    /// Whether `tag` is the HMAC-SHA256 of these parts; takes the same time wherever they differ.
    pub(super) fn made(&self, tag: &[u8], parts: &[&[u8]]) -> bool {
        hmac::verify(&self.key, &parts.concat(), tag).is_ok()
    }

    /// A text with the secret taken out of it, wherever it stands, in every form that [`Secret::is_in`] knows.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.redact_bytes(text.as_bytes())).into_owned()
    }

    /// The same for bytes.
    #[must_use]
    pub fn redact_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        self.forms().iter().fold(bytes.to_vec(), |bytes, form| without(&bytes, form))
    }

    /// Whether bytes hold the secret: with or without its prefix, or as the key's own bytes, or these in hexadecimal.
    #[must_use]
    pub fn is_in(&self, bytes: &[u8]) -> bool {
        self.forms().iter().any(|form| bytes.windows(form.len()).any(|window| window == form.as_slice()))
    }

    /// The forms in which it may stand somewhere, the longest first where one holds another. None is empty.
    fn forms(&self) -> Vec<Zeroizing<Vec<u8>>> {
        let bare = self.text.strip_prefix(PREFIX).unwrap_or(&self.text);
        let mut forms = vec![self.text.as_bytes().to_vec()];
        if bare != self.text.as_str() {
            forms.push(bare.as_bytes().to_vec());
        }
        // A few bytes stand anywhere, by chance.
        if self.bytes.len() >= KEY_BYTES_KNOWN_MIN {
            let spelled = hex(&self.bytes);
            forms.extend([spelled.to_uppercase().into_bytes(), spelled.into_bytes(), self.bytes.to_vec()]);
        }
        forms.into_iter().map(Zeroizing::new).collect()
    }
}

/// Bytes with every place taken out where these stand.
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

/// A text that is no secret. Neither of these says anything of what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// There is nothing.
    #[error("the secret is empty")]
    Empty,
    /// Not base64, where it has to be.
    #[error(
        "the secret is not standard base64 with its padding; standard-webhooks expects {PREFIX} and base64"
    )]
    Encoding,
}
