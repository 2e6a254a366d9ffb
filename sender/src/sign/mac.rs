use std::fmt;

use hmac::{Hmac, KeyInit, Mac as _};
use sha2::Sha256;

/// HMAC-SHA256 with a key hashed in advance. As secret as the key; wiped when dropped.
#[derive(Clone)]
pub(crate) struct Mac(Hmac<Sha256>);

impl Mac {
    pub(crate) fn new(key: &[u8]) -> Self {
        Self(Hmac::new_from_slice(key).expect("HMAC takes a key of any length"))
    }

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

/// The result of an HMAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag(pub [u8; 32]);

impl Tag {
    /// In lower case.
    pub(crate) fn hex(&self) -> impl Iterator<Item = char> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        self.0
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .map(|digit| char::from(DIGITS[usize::from(digit)]))
    }
}
