use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::mac::Mac;
use super::profile::KeyForm;

const PREFIX: &str = "whsec_";

/// A secret. Only [`Secret::reveal`] exposes its text. Wiped when dropped.
///
/// New secrets have the form of Standard Webhooks: `whsec_` and base64. Migrated subscribers may bring plain
/// text, for profiles that sign with the text.
#[derive(Clone)]
pub struct Secret {
    text: Zeroizing<String>,
}

impl Secret {
    /// The random bytes of a new secret.
    pub const RANDOM_BYTES: usize = 32;
    /// The fewest and the most bytes encoded after `whsec_`.
    pub const BYTES: (usize, usize) = (24, 64);
    /// The shortest and the longest plain text in bytes.
    pub const TEXT_BYTES: (usize, usize) = (16, 256);

    /// A new secret from random bytes.
    #[must_use]
    pub fn generate(random: &[u8; Self::RANDOM_BYTES]) -> Self {
        // A growing buffer would leave copies of the secret in memory.
        let mut text = Zeroizing::new(String::with_capacity(PREFIX.len() + 2 * Self::RANDOM_BYTES));
        text.push_str(PREFIX);
        STANDARD.encode_string(random, &mut text);
        Self { text }
    }

    /// Parses either form.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        if let Some(encoded) = text.strip_prefix(PREFIX) {
            decode(encoded)?;
        } else {
            let (min, max) = Self::TEXT_BYTES;
            if !(min..=max).contains(&text.len()) {
                return Err(SecretError::TextLength { bytes: text.len() });
            }
            let visible = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
            if let Some(at) = text.bytes().position(|byte| !visible(byte)) {
                return Err(SecretError::TextCharacter { at });
            }
        }
        Ok(Self { text: Zeroizing::new(text.to_owned()) })
    }

    /// Only for the store, and for the answer that shows it to its owner.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.text
    }

    pub(crate) fn mac(&self) -> Mac {
        Mac::new(self.text.as_bytes())
    }

    pub(super) fn key(&self, form: KeyForm) -> Result<Zeroizing<Vec<u8>>, SecretError> {
        match form {
            KeyForm::Text => Ok(Zeroizing::new(self.text.as_bytes().to_vec())),
            KeyForm::Decoded => decode(self.text.strip_prefix(PREFIX).ok_or(SecretError::PlainText)?),
        }
    }
}

fn decode(encoded: &str) -> Result<Zeroizing<Vec<u8>>, SecretError> {
    // The decoder's error would reveal a character.
    let bytes = STANDARD.decode(encoded).map(Zeroizing::new).map_err(|_| SecretError::Encoding)?;
    let (min, max) = Secret::BYTES;
    if !(min..=max).contains(&bytes.len()) {
        return Err(SecretError::Length { bytes: bytes.len() });
    }
    Ok(bytes)
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// An invalid secret. Reveals nothing of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Not base64.
    #[error("the secret is not standard base64 with its padding after {PREFIX}")]
    Encoding,
    /// Too few or too many bytes.
    #[error("the secret has {bytes} bytes after {PREFIX}; expected {} to {}", Secret::BYTES.0, Secret::BYTES.1)]
    Length {
        /// Their number.
        bytes: usize,
    },
    /// The plain text is too short or too long.
    #[error(
        "the secret has {bytes} bytes; expected {PREFIX} and base64, or a plain text of {} to {}",
        Secret::TEXT_BYTES.0,
        Secret::TEXT_BYTES.1
    )]
    TextLength {
        /// Its length.
        bytes: usize,
    },
    /// The plain text has a character that is not visible ASCII.
    #[error("the secret has a character at byte {at} that is not visible ASCII")]
    TextCharacter {
        /// Its byte position.
        at: usize,
    },
    /// Plain text, but the profile needs decoded bytes.
    #[error("the secret is a plain text; this signing profile needs {PREFIX} and base64")]
    PlainText,
}
