use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, VerifyingKey};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq as _};

use super::rejection::Rejection;

const TAG_BYTES: usize = 32;
const BASE64_BYTES: usize = 44;
const ED25519_BYTES: usize = 64;

pub(super) const HEX: &str = "64 hexadecimal digits in lower case";
pub(super) const LONG_HEX: &str = "128 hexadecimal digits in lower case";
pub(super) const BASE64: &str = "standard base64 of 32 bytes, with its padding";

/// As secret as the key; wiped when dropped.
#[derive(Clone)]
pub(super) struct Mac(Hmac<Sha256>);

impl Mac {
    pub(super) fn new(key: &[u8]) -> Self {
        Self(Hmac::new_from_slice(key).expect("hmac takes a key of any length"))
    }

    fn tag(&self, parts: &[&[u8]]) -> Tag {
        let mut hash = self.0.clone();
        for part in parts {
            hash.update(part);
        }
        Tag(hash.finalize().into_bytes().into())
    }
}

/// Comparable only in constant time, and not printable.
#[derive(Clone, Copy)]
pub(super) struct Tag([u8; TAG_BYTES]);

impl Tag {
    /// From canonical base64 with padding.
    pub(super) fn from_base64(text: &str) -> Option<Self> {
        decode_base64::<TAG_BYTES, BASE64_BYTES>(text).map(Self)
    }

    pub(super) fn from_hex(text: &str) -> Option<Self> {
        decode_hex(text).map(Self)
    }
}

pub(super) type Ed25519 = [u8; ED25519_BYTES];

/// Need not take constant time, since the text came over the wire.
pub(super) fn decode_hex<const BYTES: usize>(text: &str) -> Option<[u8; BYTES]> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != BYTES || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; BYTES];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

/// Exactly `BYTES` bytes from exactly `WRITTEN` characters.
pub(super) fn decode_base64<const BYTES: usize, const WRITTEN: usize>(text: &str) -> Option<[u8; BYTES]> {
    if text.len() != WRITTEN {
        return None;
    }
    let mut bytes = [0; WRITTEN];
    let length = STANDARD.decode_slice(text, &mut bytes).ok()?;
    bytes[..length].try_into().ok()
}

fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}

/// The first matching key's index. Each key costs one hash, and every signature is compared in full.
pub(super) fn fitting_key(
    macs: &[Mac],
    parts: &[&[u8]],
    signatures: impl Iterator<Item = Tag> + Clone,
) -> Option<usize> {
    macs.iter().position(|mac| {
        let expected = mac.tag(parts);
        let fits = signatures.clone().map(|tag| tag.0.ct_eq(&expected.0));
        fits.fold(Choice::from(0), |any, this| any | this).into()
    })
}

/// The first matching key's index. Allocates the message once.
pub(super) fn fitting_public(
    publics: &[VerifyingKey],
    parts: &[&[u8]],
    signatures: impl Iterator<Item = Ed25519> + Clone,
) -> Option<usize> {
    let message = parts.concat();
    publics.iter().position(|public| {
        signatures.clone().any(|bytes| public.verify_strict(&message, &Signature::from_bytes(&bytes)).is_ok())
    })
}

pub(super) fn fitting_key_hex(
    macs: &[Mac],
    parts: &[&[u8]],
    signature: &str,
    name: &'static str,
) -> Result<usize, Rejection> {
    let tag = Tag::from_hex(signature).ok_or(Rejection::Encoding { name, expected: HEX })?;
    fitting_key(macs, parts, std::iter::once(tag)).ok_or(Rejection::Signature)
}
