//! A secret that a subscriber and the sender share.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::mac::Mac;
use super::profile::KeyForm;

/// What a secret in the form of Standard Webhooks begins with.
const PREFIX: &str = "whsec_";

/// A secret. It cannot be printed; [`Secret::reveal`] is the one way to its text. Wiped when dropped.
///
/// New ones have the form of Standard Webhooks: `whsec_` and the base64 of 24 to 64 bytes. A subscriber that comes
/// from elsewhere may bring a plain text along, for the profiles that sign with a secret's text.
#[derive(Clone)]
pub struct Secret {
    text: Zeroizing<String>,
}

impl Secret {
    /// How many random bytes a new one takes.
    pub const RANDOM_BYTES: usize = 32;
    /// The fewest and the most bytes that base64 after `whsec_` may stand for.
    pub const BYTES: (usize, usize) = (24, 64);
    /// The shortest and the longest plain text.
    pub const TEXT_BYTES: (usize, usize) = (16, 256);

    /// A new secret from bytes that nobody can guess.
    #[must_use]
    pub fn generate(random: &[u8; Self::RANDOM_BYTES]) -> Self {
        // Encoded in place: a buffer that grows would leave pieces of the secret behind.
        let mut text = Zeroizing::new(String::with_capacity(PREFIX.len() + 2 * Self::RANDOM_BYTES));
        text.push_str(PREFIX);
        STANDARD.encode_string(random, &mut text);
        Self { text }
    }

    /// Reads a secret of either form.
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

    /// The secret itself. For the store, and for the one answer in which its owner learns it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// The secret as a key for something else than signing.
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
    // The decoder's own error would tell which character stands where.
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

/// A text that is no secret, or the wrong kind of one. None of these says anything of what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Not base64.
    #[error("the secret is not standard base64 with its padding after {PREFIX}")]
    Encoding,
    /// Too few or too many bytes.
    #[error("the secret has {bytes} bytes after {PREFIX}; expected {} to {}", Secret::BYTES.0, Secret::BYTES.1)]
    Length {
        /// How many there are.
        bytes: usize,
    },
    /// A plain text too short or too long.
    #[error(
        "the secret has {bytes} bytes; expected {PREFIX} and base64, or a plain text of {} to {}",
        Secret::TEXT_BYTES.0,
        Secret::TEXT_BYTES.1
    )]
    TextLength {
        /// How many there are.
        bytes: usize,
    },
    /// A plain text with something in it that is not visible ASCII.
    #[error("the secret has a character at byte {at} that is not visible ASCII")]
    TextCharacter {
        /// Where.
        at: usize,
    },
    /// A plain text, where the profile signs with decoded bytes.
    #[error("the secret is a plain text; this signing profile needs {PREFIX} and base64")]
    PlainText,
}
