//! HMAC-SHA256 with its key already worked in.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac as _};
use sha2::Sha256;

/// A key made ready: both blocks of the key are hashed, so that a tag costs the message and two blocks. As secret as
/// the key itself; wiped when dropped.
#[derive(Clone)]
pub(crate) struct Mac(Hmac<Sha256>);

impl Mac {
    pub(crate) fn new(key: &[u8]) -> Self {
        Self(Hmac::new_from_slice(key).expect("HMAC takes a key of any length"))
    }

    /// The tag of these parts, one after another.
    pub(crate) fn tag(&self, parts: &[&[u8]]) -> Tag {
        let mut hash = self.0.clone();
        for part in parts {
            hash.update(part);
        }
        Tag(hash.finalize().into_bytes().into())
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mac(…)")
    }
}

/// The result of an HMAC: what a signature encodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag(pub [u8; 32]);

impl Tag {
    /// The two hexadecimal digits of each byte, in lower case.
    pub(crate) fn hex(&self) -> impl Iterator<Item = char> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        self.0
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .map(|digit| char::from(DIGITS[usize::from(digit)]))
    }
}
