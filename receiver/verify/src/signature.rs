use base64::Engine as _;
use base64::engine::general_purpose::{GeneralPurpose, STANDARD, URL_SAFE_NO_PAD};
use ed25519_dalek::VerifyingKey;
use hmac::{Hmac, KeyInit as _};
use p256::ecdsa;
use p256::ecdsa::signature::Verifier as _;
use sha1::Sha1;
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq as _};

use super::rejection::Rejection;

const TAG_BYTES: usize = 32;
const BASE64_BYTES: usize = 44;
const SHA1_BYTES: usize = 20;
const SHA1_BASE64_BYTES: usize = 28;
const ED25519_BYTES: usize = 64;
/// The longest signature of P-256 in DER, and its base64.
const DER_BYTES_MAX: usize = 72;
const DER_BASE64_BYTES_MAX: usize = 96;

pub(super) const HEX: &str = "64 hexadecimal digits in lower case";
pub(super) const LONG_HEX: &str = "128 hexadecimal digits in lower case";
pub(super) const BASE64: &str = "standard base64 of 32 bytes, with its padding";
pub(super) const DER_BASE64: &str = "standard base64 of DER, with its padding";
pub(super) const SHA1_BASE64: &str = "standard base64 of 20 bytes, with its padding";

/// As secret as the key; wiped when dropped.
#[derive(Clone)]
pub(super) enum Mac {
    Sha256(Hmac<Sha256>),
    Sha1(Hmac<Sha1>),
}

impl Mac {
    pub(super) fn new(key: &[u8]) -> Self {
        Self::Sha256(Hmac::new_from_slice(key).expect("hmac takes a key of any length"))
    }

    pub(super) fn sha1(key: &[u8]) -> Self {
        Self::Sha1(Hmac::new_from_slice(key).expect("hmac takes a key of any length"))
    }

    /// In hex, for a message whose tag is no secret.
    pub(super) fn hex(&self, message: &[u8]) -> String {
        let Tag(bytes) = self.tag(&[message]);
        bytes
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .filter_map(|half| char::from_digit(half.into(), 16))
            .collect()
    }

    fn tag(&self, parts: &[&[u8]]) -> Tag {
        match self {
            Self::Sha256(hash) => Tag(finished(hash, parts).into()),
            Self::Sha1(hash) => Tag::short(finished(hash, parts).into()),
        }
    }
}

fn finished<M: hmac::Mac + Clone>(hash: &M, parts: &[&[u8]]) -> hmac::digest::Output<M> {
    let mut hash = hash.clone();
    for part in parts {
        hash.update(part);
    }
    hash.finalize().into_bytes()
}

/// Comparable only in constant time, and not printable. One of SHA-1 ends with zeros.
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

    pub(super) fn of_sha1(text: &str) -> Option<Self> {
        decode_base64::<SHA1_BYTES, SHA1_BASE64_BYTES>(text).map(Self::short)
    }

    fn short(bytes: [u8; SHA1_BYTES]) -> Self {
        let mut whole = [0; TAG_BYTES];
        whole[..SHA1_BYTES].copy_from_slice(&bytes);
        Self(whole)
    }
}

pub(super) type Ed25519 = [u8; ED25519_BYTES];

/// DER has one form of each signature, of which other readers take many.
pub(super) fn decode_der(text: &str) -> Option<ecdsa::Signature> {
    let mut bytes = [0; DER_BYTES_MAX];
    let length =
        STANDARD.decode_slice(text, &mut bytes).ok().filter(|_| text.len() <= DER_BASE64_BYTES_MAX)?;
    ecdsa::Signature::from_der(&bytes[..length]).ok()
}

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
    decode_by::<BYTES, WRITTEN>(&STANDARD, text)
}

/// The same in the alphabet of URLs, without padding.
pub(super) fn decode_base64url<const BYTES: usize, const WRITTEN: usize>(text: &str) -> Option<[u8; BYTES]> {
    decode_by::<BYTES, WRITTEN>(&URL_SAFE_NO_PAD, text)
}

fn decode_by<const BYTES: usize, const WRITTEN: usize>(
    by: &GeneralPurpose,
    text: &str,
) -> Option<[u8; BYTES]> {
    if text.len() != WRITTEN {
        return None;
    }
    let mut bytes = [0; WRITTEN];
    let length = by.decode_slice(text, &mut bytes).ok()?;
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
    fitting(publics, parts, signatures, |public, message, bytes| {
        public.verify_strict(message, &ed25519_dalek::Signature::from_bytes(bytes)).is_ok()
    })
}

/// The same for P-256.
pub(super) fn fitting_point(
    points: &[ecdsa::VerifyingKey],
    parts: &[&[u8]],
    signatures: impl Iterator<Item = ecdsa::Signature> + Clone,
) -> Option<usize> {
    fitting(points, parts, signatures, |point, message, signature| point.verify(message, signature).is_ok())
}

fn fitting<K, S>(
    keys: &[K],
    parts: &[&[u8]],
    signatures: impl Iterator<Item = S> + Clone,
    fits: impl Fn(&K, &[u8], &S) -> bool,
) -> Option<usize> {
    let message = parts.concat();
    keys.iter().position(|key| signatures.clone().any(|signature| fits(key, &message, &signature)))
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
