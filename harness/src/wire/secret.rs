//! A secret that the judge shares with what it judges.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use zeroize::Zeroizing;

use super::profile::Profile;

/// What a secret of Standard Webhooks begins with.
const PREFIX: &str = "whsec_";

/// A secret, ready to sign by the profile that it was read for. It is never printed: its text leaves by
/// [`Secret::redact`] alone, which takes it out of other texts.
#[derive(Clone)]
pub struct Secret {
    text: Zeroizing<String>,
    key: hmac::Key,
}

impl Secret {
    /// Reads a secret. By Standard Webhooks the key is what the base64 after `whsec_` stands for (the prefix may be
    /// missing, as some libraries show it without); by every other profile it is the text's own bytes.
    pub fn parse(profile: Profile, text: &str) -> Result<Self, SecretError> {
        if text.is_empty() {
            return Err(SecretError::Empty);
        }
        let key = if profile == Profile::StandardWebhooks {
            let encoded = text.strip_prefix(PREFIX).unwrap_or(text);
            // The decoder's error would say which character stands where.
            let bytes = STANDARD.decode(encoded).map(Zeroizing::new).map_err(|_| SecretError::Encoding)?;
            if bytes.is_empty() {
                return Err(SecretError::Empty);
            }
            hmac::Key::new(hmac::HMAC_SHA256, &bytes)
        } else {
            hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes())
        };
        Ok(Self { text: Zeroizing::new(text.to_owned()), key })
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

    /// A text with the secret taken out of it, wherever it stands, with and without its prefix.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        let bare = self.text.strip_prefix(PREFIX).unwrap_or(&self.text);
        text.replace(self.text.as_str(), "(secret)").replace(bare, "(secret)")
    }

    /// Whether bytes hold the secret, with or without its prefix.
    #[must_use]
    pub fn is_in(&self, bytes: &[u8]) -> bool {
        let bare = self.text.strip_prefix(PREFIX).unwrap_or(&self.text).as_bytes();
        bytes.windows(bare.len()).any(|window| window == bare)
    }
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
