use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ed25519_dalek::SigningKey;
use ed25519_dalek::ed25519::signature::MultipartSigner as _;
use hmac::{Hmac, KeyInit, Mac as _};
use p256::ecdsa;
use p256::pkcs8::{DecodePrivateKey as _, EncodePrivateKey as _, EncodePublicKey as _};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::profile::{KeyForm, Profile};
use crate::engine::time::StoreTime;
use crate::store::command::SECRETS_MAX;

/// A subscriber's keys; few, since each one signs.
#[derive(Clone, Debug)]
pub struct Keys {
    current: Secret,
    /// The most recent first.
    retiring: Vec<Retiring>,
}

/// A former key, which still signs until it retires.
#[derive(Clone, Debug)]
pub struct Retiring {
    secret: Secret,
    until: StoreTime,
}

impl Retiring {
    /// A key that signs until `until`, exclusive.
    #[must_use]
    pub const fn new(secret: Secret, until: StoreTime) -> Self {
        Self { secret, until }
    }

    #[must_use]
    pub const fn secret(&self) -> &Secret {
        &self.secret
    }

    #[must_use]
    pub const fn until(&self) -> StoreTime {
        self.until
    }
}

impl Keys {
    /// The most keys that sign at once. A rotation beyond it is refused.
    pub const COUNT_MAX: usize = SECRETS_MAX;

    /// Drops all other keys, as when one was exposed.
    #[must_use]
    pub const fn new(current: Secret) -> Self {
        Self { current, retiring: Vec::new() }
    }

    /// Stored keys. The most recent of `retiring` must be first.
    pub fn from_parts(current: Secret, retiring: Vec<Retiring>) -> Result<Self, KeysError> {
        if retiring.len() >= Self::COUNT_MAX {
            return Err(KeysError::TooMany { count: retiring.len() + 1 });
        }
        Ok(Self { current, retiring })
    }

    /// The former key signs until `until`; keys that have retired by `now` are removed.
    pub fn rotate(&mut self, now: StoreTime, new: Secret, until: StoreTime) -> Result<(), KeysError> {
        let staying = self.retiring.iter().filter(|key| now < key.until).count();
        if staying + 2 > Self::COUNT_MAX && now < until {
            return Err(KeysError::TooMany { count: staying + 2 });
        }
        self.retiring.retain(|key| now < key.until);
        let before = std::mem::replace(&mut self.current, new);
        if now < until {
            self.retiring.insert(0, Retiring { secret: before, until });
        }
        Ok(())
    }

    #[must_use]
    pub const fn current(&self) -> &Secret {
        &self.current
    }

    #[must_use]
    pub fn retiring(&self) -> &[Retiring] {
        &self.retiring
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    #[error("{count} keys would sign at once; expected at most {}: wait until one retires", Keys::COUNT_MAX)]
    TooMany { count: usize },
}

/// Hashed in advance. As secret as the key; wiped when dropped.
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

/// A key that signs. As secret as its text; wiped when dropped.
#[derive(Clone)]
pub(super) struct Key {
    kind: Kind,
    name: Box<str>,
}

#[derive(Clone)]
enum Kind {
    Hmac(Mac),
    Sha1(Hmac<Sha1>),
    Ed25519(Box<SigningKey>),
    P256(Box<ecdsa::SigningKey>),
    /// Its signatures are two numbers side by side.
    P256Pair(Box<ecdsa::SigningKey>),
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

impl Key {
    pub(super) fn sign(&self, parts: &[&[u8]]) -> Signature {
        match &self.kind {
            Kind::Hmac(mac) => Signature::Hmac(mac.tag(parts)),
            Kind::Sha1(hash) => {
                let mut hash = hash.clone();
                parts.iter().for_each(|part| hash.update(part));
                Signature::Sha1(hash.finalize().into_bytes().into())
            }
            Kind::Ed25519(key) => Signature::Ed25519(key.multipart_sign(parts).to_bytes()),
            // Its nonce comes from the message (RFC 6979), so that nothing here draws a random number.
            Kind::P256(key) => {
                let signature: ecdsa::Signature = key.multipart_sign(parts);
                Signature::P256(signature.to_der())
            }
            Kind::P256Pair(key) => {
                let signature: ecdsa::Signature = key.multipart_sign(parts);
                Signature::Pair(signature.to_bytes().into())
            }
        }
    }

    /// The first part of its tokens, or the parameters of its HTTP Message Signatures; else empty.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

pub(super) enum Signature {
    Hmac(Tag),
    Sha1([u8; 20]),
    Ed25519([u8; 64]),
    P256(ecdsa::DerSignature),
    Pair([u8; 64]),
}

impl Signature {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Hmac(Tag(bytes)) => bytes,
            Self::Sha1(bytes) => bytes,
            Self::Ed25519(bytes) => bytes,
            Self::P256(der) => der.as_bytes(),
            Self::Pair(bytes) => bytes,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag(pub [u8; 32]);

impl Tag {
    /// In lower case.
    pub(crate) fn hex(&self) -> impl Iterator<Item = char> {
        hex(&self.0)
    }

    /// From 64 digits in lower case.
    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; 32];
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != bytes.len() || !rest.is_empty() {
            return None;
        }
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Some(Self(bytes))
    }
}

pub(crate) fn hex(bytes: &[u8]) -> impl Iterator<Item = char> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)]))
}

const PREFIX: &str = "whsec_";
const PRIVATE_PREFIX: &str = "whsk_";

/// Only [`Secret::reveal`] exposes its text. Wiped when dropped. New secrets have the form of Standard Webhooks:
/// `whsec_` and base64, or `whsk_` for a private key. Migrated subscribers may bring plain text.
#[derive(Clone)]
pub struct Secret {
    text: Zeroizing<String>,
}

impl Secret {
    pub const RANDOM_BYTES: usize = 32;
    /// The fewest and the most bytes encoded after `whsec_`.
    pub const BYTES: (usize, usize) = (24, 64);
    /// The shortest and the longest.
    pub const TEXT_BYTES: (usize, usize) = (16, 256);

    #[must_use]
    pub fn generate(profile: Profile, random: &[u8; Self::RANDOM_BYTES]) -> Self {
        let form = profile.form().key;
        let prefix = if form.is_private() { PRIVATE_PREFIX } else { PREFIX };
        if form.is_p256() { Self::of(prefix, &*below_order(random)) } else { Self::of(prefix, random) }
    }

    /// Of the old one's kind, where the profile takes several.
    pub fn after(
        old: Option<&str>,
        profile: Profile,
        random: &[u8; Self::RANDOM_BYTES],
    ) -> Result<Self, SecretError> {
        let takes_several = profile.form().key == KeyForm::Message;
        let old = old.filter(|old| takes_several && old.starts_with(PRIVATE_PREFIX));
        let Some(old) = old.and_then(|old| Self::parse(old).ok()) else {
            return Ok(Self::generate(profile, random));
        };
        if old.pkcs8().is_none() {
            return Ok(Self::of(PRIVATE_PREFIX, random));
        }
        let key = ecdsa::SigningKey::from_slice(&*below_order(random)).ok();
        let der = key.and_then(|key| key.to_pkcs8_der().ok()).ok_or(SecretError::Message)?;
        Ok(Self::of(PRIVATE_PREFIX, der.as_bytes()))
    }

    fn of(prefix: &str, bytes: &[u8]) -> Self {
        // A growing buffer would leave copies of the secret in memory.
        let mut text = Zeroizing::new(String::with_capacity(prefix.len() + 2 * bytes.len()));
        text.push_str(prefix);
        STANDARD.encode_string(bytes, &mut text);
        Self { text }
    }

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

    pub(super) fn key(&self, form: KeyForm) -> Result<Key, SecretError> {
        let mut name = Box::default();
        let kind = match form {
            KeyForm::Text => Kind::Hmac(self.mac()),
            KeyForm::TextSha1 => {
                let hash =
                    Hmac::new_from_slice(self.text.as_bytes()).expect("HMAC takes a key of any length");
                Kind::Sha1(hash)
            }
            KeyForm::Decoded => Kind::Hmac(Mac::new(&self.shared()?)),
            KeyForm::Private => Kind::Ed25519(Box::new(self.private()?)),
            KeyForm::PrivateP256 => Kind::P256(Box::new(self.private_p256()?)),
            KeyForm::PrivateEs256 => {
                let key = self.private_p256()?;
                let head = format!(r#"{{"alg":"ES256","kid":"{}","typ":"JWT"}}"#, Jwk::of(&key).kid());
                name = URL_SAFE_NO_PAD.encode(head).into();
                Kind::P256Pair(Box::new(key))
            }
            KeyForm::Message => {
                let (alg, jwk, kind) = if self.text.starts_with(PREFIX) {
                    let bytes = self.shared()?;
                    ("hmac-sha256", Jwk::of_secret(&bytes), Kind::Hmac(Mac::new(&bytes)))
                } else if let Some(key) = self.pkcs8() {
                    ("ecdsa-p256-sha256", Jwk::of(&key), Kind::P256Pair(Box::new(key)))
                } else {
                    let key = self.private().map_err(|_| SecretError::Message)?;
                    ("ed25519", Jwk::of_ed25519(&key), Kind::Ed25519(Box::new(key)))
                };
                name = format!(";keyid=\"{}\";alg=\"{alg}\"", jwk.kid()).into();
                kind
            }
        };
        Ok(Key { kind, name })
    }

    fn shared(&self) -> Result<Zeroizing<Vec<u8>>, SecretError> {
        decode(self.text.strip_prefix(PREFIX).ok_or(SecretError::PlainText)?)
    }

    /// Of P-256, which has as many bytes as an Ed25519 key without it.
    fn pkcs8(&self) -> Option<ecdsa::SigningKey> {
        let der = STANDARD.decode(self.text.strip_prefix(PRIVATE_PREFIX)?).map(Zeroizing::new).ok()?;
        ecdsa::SigningKey::from_pkcs8_der(&der).ok()
    }

    fn private_bytes(&self) -> Option<Zeroizing<Vec<u8>>> {
        self.text.strip_prefix(PRIVATE_PREFIX).and_then(|encoded| decode(encoded).ok())
    }

    fn private_p256(&self) -> Result<ecdsa::SigningKey, SecretError> {
        let key = self.private_bytes().and_then(|bytes| ecdsa::SigningKey::from_slice(&bytes).ok());
        key.ok_or(SecretError::PrivateP256)
    }

    fn private(&self) -> Result<SigningKey, SecretError> {
        let bytes = self.private_bytes();
        let bytes = bytes.as_ref().map(|bytes| bytes.as_slice()).unwrap_or_default();
        let key = bytes.try_into().ok().map(SigningKey::from_bytes);
        // As Svix writes it: the public key follows, and must be of this one.
        let pair = || SigningKey::from_keypair_bytes(bytes.try_into().ok()?).ok();
        key.or_else(pair).ok_or(SecretError::Private)
    }

    /// As the endpoint's library wants it; none if the endpoint needs the secret itself.
    #[must_use]
    pub fn public_key(&self, profile: Profile) -> Option<String> {
        match profile.form().key {
            KeyForm::Private => Some(hex(self.private().ok()?.verifying_key().as_bytes()).collect()),
            KeyForm::PrivateP256 => {
                let der = self.private_p256().ok()?.verifying_key().to_public_key_der().ok()?;
                Some(STANDARD.encode(der.as_bytes()))
            }
            KeyForm::PrivateEs256 => Some(Jwk::of(&self.private_p256().ok()?).to_string()),
            KeyForm::Message => {
                let of_p256 = self.pkcs8().map(|key| Jwk::of(&key));
                let jwk = of_p256.or_else(|| Some(Jwk::of_ed25519(&self.private().ok()?)));
                jwk.map(|jwk| jwk.to_string())
            }
            KeyForm::Decoded | KeyForm::Text | KeyForm::TextSha1 => None,
        }
    }
}

/// A key in JSON.
struct Jwk {
    alg: &'static str,
    /// Those that are the key, in the order of their names.
    members: Zeroizing<String>,
}

impl Jwk {
    fn of(key: &ecdsa::SigningKey) -> Self {
        let point = key.verifying_key().to_sec1_point(false);
        // SEC 1, section 2.3.3: a byte, then both coordinates.
        let (x, y) = point.as_bytes()[1..].split_at(point.len() / 2);
        let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
        let members = format!(r#""crv":"P-256","kty":"EC","x":"{x}","y":"{y}""#).into();
        Self { alg: "ES256", members }
    }

    fn of_ed25519(key: &SigningKey) -> Self {
        let x = URL_SAFE_NO_PAD.encode(key.verifying_key().as_bytes());
        Self { alg: "EdDSA", members: format!(r#""crv":"Ed25519","kty":"OKP","x":"{x}""#).into() }
    }

    fn of_secret(bytes: &[u8]) -> Self {
        // A growing buffer would leave copies of the secret in memory.
        let mut members = Zeroizing::new(String::with_capacity(32 + 2 * bytes.len()));
        members.push_str(r#""k":""#);
        URL_SAFE_NO_PAD.encode_string(bytes, &mut members);
        members.push_str(r#"","kty":"oct""#);
        Self { alg: "HS256", members }
    }

    /// Its thumbprint (RFC 7638), so that a key has one name wherever it is known.
    fn kid(&self) -> String {
        let mut hash = Sha256::new();
        for part in ["{", &self.members, "}"] {
            hash.update(part);
        }
        URL_SAFE_NO_PAD.encode(hash.finalize())
    }
}

impl fmt::Display for Jwk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self { alg, members }, kid) = (self, self.kid());
        write!(f, r#"{{{},"alg":"{alg}","kid":"{kid}","use":"sig"}}"#, &**members)
    }
}

/// A private key of P-256 is a number below the order of the group.
fn below_order(random: &[u8; Secret::RANDOM_BYTES]) -> Zeroizing<[u8; Secret::RANDOM_BYTES]> {
    let mut bytes = Zeroizing::new(*random);
    bytes[0] &= 0x7f;
    bytes
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
    #[error("the secret is not standard base64 with its padding after {PREFIX}")]
    Encoding,
    #[error("the secret has {bytes} bytes after {PREFIX}; expected {} to {}", Secret::BYTES.0, Secret::BYTES.1)]
    Length { bytes: usize },
    #[error(
        "the secret has {bytes} bytes; expected {PREFIX} and base64, or a plain text of {} to {}",
        Secret::TEXT_BYTES.0,
        Secret::TEXT_BYTES.1
    )]
    TextLength { bytes: usize },
    #[error("the secret has a character at byte {at} that is not visible ASCII")]
    TextCharacter { at: usize },
    #[error("the secret is a plain text; this signing profile needs {PREFIX} and base64")]
    PlainText,
    #[error(
        "the secret is no private key of ed25519; expected {PRIVATE_PREFIX} and base64 of 32 bytes, or of 64 with the public key"
    )]
    Private,
    #[error("the secret is no private key of P-256; expected {PRIVATE_PREFIX} and base64 of 32 bytes")]
    PrivateP256,
    #[error(
        "the secret is neither {PREFIX} and base64 nor a private key; expected {PRIVATE_PREFIX} and base64 of 32 bytes (Ed25519), or of \
         PKCS #8 (P-256)"
    )]
    Message,
}
