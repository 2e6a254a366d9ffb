//! A secret shared with the sender, or the sender's public key.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use md5::{Digest as _, Md5};
use p256::ecdsa;
use p256::ecdsa::signature::Signer as _;
use p256::pkcs8::{DecodePrivateKey as _, EncodePublicKey as _};
use ring::rand::SystemRandom;
use ring::signature::{self, Ed25519KeyPair, KeyPair as _, RsaKeyPair, UnparsedPublicKey};
use ring::{digest, hmac};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};
use zeroize::Zeroizing;

use super::definition::{Algorithm, Definition, KeyForm};
use super::profile::Profile;
use super::small_order::is_small;
use super::token::{self, read_jwk};
use super::{base64, hex, unbase64, unbase64url, unhex};

/// The length of a P-256 signature as two numbers side by side; any other length is DER.
const P256_FIXED_BYTES: usize = 64;

/// It is never printed.
#[derive(Clone)]
pub struct Key {
    kind: Kind,
    /// Its name in a token; empty where keys have none.
    kid: Arc<str>,
    spellings: Arc<[Zeroizing<Vec<u8>>]>,
}

#[derive(Clone)]
enum Kind {
    Secret(Secret),
    Public(Algorithm, Vec<u8>),
}

impl Algorithm {
    /// None for a public key's algorithm.
    pub(super) const fn hmac(self) -> Option<hmac::Algorithm> {
        match self {
            Self::HmacSha1 => Some(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
            Self::HmacSha256 => Some(hmac::HMAC_SHA256),
            Self::HmacSha512 => Some(hmac::HMAC_SHA512),
            Self::Ed25519
            | Self::EcdsaP256
            | Self::EcdsaP256Der
            | Self::JwtEs256
            | Self::Message
            | Self::RsaSha256 => None,
        }
    }

    /// Whether a signature may have this length.
    pub(super) fn fits(self, bytes: usize) -> bool {
        match self.hmac() {
            Some(hmac) => hmac.digest_algorithm().output_len() == bytes,
            None => bytes > 0,
        }
    }
}

impl From<Secret> for Key {
    fn from(secret: Secret) -> Self {
        let spellings = long_spellings(&secret.text, &secret.bytes);
        Self { kid: secret.kid().into(), kind: Kind::Secret(secret), spellings }
    }
}

impl Key {
    pub(super) fn parse(definition: &Definition, text: &str) -> Result<Self, KeyError> {
        if definition.is_message() && !text.starts_with(PREFIX) && !text.starts_with(PRIVATE) {
            return Self::of_message(definition, text);
        }
        let Some(algorithm) = definition.algorithm.filter(|algorithm| algorithm.is_public()) else {
            return Ok(Secret::of(definition, text)?.into());
        };
        let mut kid = String::new();
        let bytes = match (after_prefix(text), algorithm) {
            (None, Algorithm::JwtEs256) => {
                let (name, found, point) = read_jwk(text).ok_or(KeyError::Jwk)?;
                kid = Some(name).filter(|_| found == algorithm).ok_or(KeyError::Jwk)?;
                point
            }
            (None, _) => public_key_of_der(key_bytes(definition.key, text)?),
            (Some((PRIVATE, _)), _) => return Ok(Secret::of(definition, text)?.into()),
            (Some((PUBLIC, encoded)), Algorithm::Ed25519) => unbase64(encoded).ok_or(KeyError::Public)?,
            (Some((prefix, _)), _) => return Err(KeyError::Prefix(prefix)),
        };
        if algorithm == Algorithm::Ed25519 && bytes.len() != ED25519_BYTES {
            return Err(KeyError::Public);
        }
        if algorithm == Algorithm::Ed25519 && is_small(&bytes) {
            return Err(KeyError::Small);
        }
        Ok(Self { kind: Kind::Public(algorithm, bytes), kid: kid.into(), spellings: Arc::default() })
    }

    /// In JSON.
    fn of_message(definition: &Definition, text: &str) -> Result<Self, KeyError> {
        let (kid, algorithm, bytes) = read_jwk(text).ok_or(KeyError::Jwk)?;
        match algorithm {
            Algorithm::HmacSha256 => {
                let secret = Secret::of(definition, &format!("{PREFIX}{}", base64(&bytes)))?;
                Ok(Self { kid: kid.into(), ..secret.into() })
            }
            Algorithm::Ed25519 if is_small(&bytes) => Err(KeyError::Small),
            _ => {
                Ok(Self { kind: Kind::Public(algorithm, bytes), kid: kid.into(), spellings: Arc::default() })
            }
        }
    }

    /// As RFC 9421, section 6.2.2, calls it.
    pub(super) fn message_algorithm(&self) -> &'static str {
        match &self.kind {
            Kind::Secret(secret) => secret.message_algorithm(),
            Kind::Public(Algorithm::Ed25519, _) => "ed25519",
            Kind::Public(..) => "ecdsa-p256-sha256",
        }
    }

    pub(super) fn signed(&self, signature: &[u8], message: &[u8]) -> bool {
        match &self.kind {
            Kind::Secret(secret) => secret.authenticates(signature, message),
            Kind::Public(algorithm, bytes) => verifies(*algorithm, bytes, message, signature),
        }
    }

    pub(super) fn kid(&self) -> &str {
        &self.kid
    }

    /// The text or the bytes of the secret, in hexadecimal or base64 too. Secrets below a fixed number of bytes are not
    /// looked for, as they may occur by chance; a public key is no secret.
    #[must_use]
    pub fn is_in(&self, bytes: &[u8]) -> bool {
        has_one(&self.spellings, bytes)
    }

    /// A value that two subscribers share only if they share a secret. None for a public key, which a sender
    /// may use for all.
    #[must_use]
    pub fn mark(&self) -> Option<[u8; 32]> {
        const OWNER: &[u8] = b"owner";
        match &self.kind {
            Kind::Secret(secret) => {
                digest::digest(&digest::SHA256, &secret.tag(OWNER)).as_ref().try_into().ok()
            }
            Kind::Public(..) => None,
        }
    }
}

fn verifies(algorithm: Algorithm, public: &[u8], message: &[u8], signature: &[u8]) -> bool {
    let by: &dyn signature::VerificationAlgorithm = match algorithm {
        Algorithm::RsaSha256 => &signature::RSA_PKCS1_2048_8192_SHA256,
        Algorithm::JwtEs256 => &signature::ECDSA_P256_SHA256_FIXED,
        Algorithm::EcdsaP256 if signature.len() == P256_FIXED_BYTES => &signature::ECDSA_P256_SHA256_FIXED,
        Algorithm::EcdsaP256 | Algorithm::EcdsaP256Der => &signature::ECDSA_P256_SHA256_ASN1,
        _ => &signature::ED25519,
    };
    UnparsedPublicKey::new(by, public).verify(message, signature).is_ok()
}

const SPELLING_BYTES_MIN: usize = 16;

fn long_spellings(text: &str, bytes: &[u8]) -> Arc<[Zeroizing<Vec<u8>>]> {
    spellings(text, bytes).into_iter().filter(|one| one.len() >= SPELLING_BYTES_MIN).collect()
}

/// The spellings that disclose a secret, a longer one before those inside it: its text with and without prefix and
/// padding, its bytes, and these in hexadecimal and base64. None is empty.
fn spellings(text: &str, bytes: &[u8]) -> Vec<Zeroizing<Vec<u8>>> {
    let bare = after_prefix(text).map_or(text, |(_, bare)| bare);
    let mut all: Vec<Vec<u8>> =
        [text, bare, bare.trim_end_matches('=')].iter().map(|one| one.as_bytes().to_vec()).collect();
    // A few bytes can occur by chance.
    if bytes.len() >= KEY_BYTES_KNOWN_MIN {
        let spelled = hex(bytes);
        all.extend([spelled.to_uppercase().into_bytes(), spelled.into_bytes(), bytes.to_vec()]);
        all.push(base64(bytes).trim_end_matches('=').as_bytes().to_vec());
        all.push(URL_SAFE_NO_PAD.encode(bytes).into_bytes());
    }
    all.retain(|one| !one.is_empty());
    all.sort_unstable_by(|one, other| (other.len(), one).cmp(&(one.len(), other)));
    all.dedup();
    all.into_iter().map(Zeroizing::new).collect()
}

fn has_one(spellings: &[Zeroizing<Vec<u8>>], bytes: &[u8]) -> bool {
    spellings.iter().any(|one| memchr::memmem::find(bytes, one).is_some())
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// PEM in an answer or in the environment may have its line ends as two letters.
fn unescaped(text: &str) -> Zeroizing<String> {
    Zeroizing::new(text.replace("\\n", "\n"))
}

fn public_key_of_pem(text: &str) -> Result<Vec<u8>, KeyError> {
    let whole = SubjectPublicKeyInfoDer::from_pem_slice(unescaped(text).as_bytes());
    Ok(whole.map_err(|_| KeyError::Form("PEM"))?.as_ref().to_vec())
}

/// Other texts could be public keys.
fn private_key(form: KeyForm, text: &str) -> Result<(Zeroizing<Vec<u8>>, Ed25519KeyPair), KeyError> {
    let (prefix, bare) = after_prefix(text).unwrap_or(("", text));
    if bare.is_empty() {
        return Err(KeyError::Empty);
    }
    let pair = match prefix {
        PRIVATE => {
            let mut bytes = Zeroizing::new(unbase64(bare).ok_or(KeyError::Private)?);
            if bytes.len() == 2 * ED25519_BYTES {
                // As Svix writes it: the public key follows, and must be of this one.
                let public = Zeroizing::new(bytes.split_off(ED25519_BYTES));
                Ed25519KeyPair::from_seed_and_public_key(&bytes, &public).map(|pair| (bytes, pair))
            } else {
                Ed25519KeyPair::from_seed_unchecked(&bytes).map(|pair| (bytes, pair))
            }
        }
        "" if form == KeyForm::Pem => {
            let der = PrivatePkcs8KeyDer::from_pem_slice(unescaped(text).as_bytes());
            let der = der.map_err(|_| KeyError::Private)?;
            let bytes = Zeroizing::new(der.secret_pkcs8_der().to_vec());
            Ed25519KeyPair::from_pkcs8_maybe_unchecked(&bytes).map(|pair| (bytes, pair))
        }
        _ => return Err(KeyError::Private),
    };
    pair.map_err(|_| KeyError::Private)
}

fn private_key_rsa(form: KeyForm, text: &str) -> Result<(Zeroizing<Vec<u8>>, RsaKeyPair), KeyError> {
    let bytes = private_bytes(form, text)?.ok_or(KeyError::PrivateRsa)?;
    let pair = RsaKeyPair::from_pkcs8(&bytes).map_err(|_| KeyError::PrivateRsa)?;
    Ok((bytes, pair))
}

fn private_bytes(form: KeyForm, text: &str) -> Result<Option<Zeroizing<Vec<u8>>>, KeyError> {
    let (prefix, bare) = after_prefix(text).unwrap_or(("", text));
    if bare.is_empty() {
        return Err(KeyError::Empty);
    }
    let bytes = match prefix {
        PRIVATE => unbase64(bare),
        "" if form == KeyForm::Pem => {
            let der = PrivatePkcs8KeyDer::from_pem_slice(unescaped(text).as_bytes());
            der.ok().map(|der| der.secret_pkcs8_der().to_vec())
        }
        _ => None,
    };
    Ok(bytes.map(Zeroizing::new))
}

fn private_key_p256(form: KeyForm, text: &str) -> Result<(Zeroizing<Vec<u8>>, ecdsa::SigningKey), KeyError> {
    let bytes = private_bytes(form, text)?.ok_or(KeyError::PrivateP256)?;
    let number = ecdsa::SigningKey::from_slice(&bytes).ok();
    let key = number.or_else(|| ecdsa::SigningKey::from_pkcs8_der(&bytes).ok());
    Ok((bytes, key.ok_or(KeyError::PrivateP256)?))
}

/// The key inside an X.509 `SubjectPublicKeyInfo`; other bytes stay as they are. The algorithm then checks
/// whether they are a key.
fn public_key_of_der(bytes: Vec<u8>) -> Vec<u8> {
    inside(&bytes).map(<[u8]>::to_vec).unwrap_or(bytes)
}

/// `SEQUENCE { SEQUENCE { … }, BIT STRING }`: the bits.
fn inside(bytes: &[u8]) -> Option<&[u8]> {
    const SEQUENCE: u8 = 0x30;
    const BIT_STRING: u8 = 0x03;
    let (content, rest) = element(SEQUENCE, bytes)?;
    let (_algorithm, bits) = element(SEQUENCE, content)?;
    let (bits, after) = element(BIT_STRING, bits)?;
    // The first byte counts the unused bits of the last byte: none.
    let (unused, key) = bits.split_first()?;
    (rest.is_empty() && after.is_empty() && *unused == 0).then_some(key)
}

fn element(tag: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (found, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match usize::from(*first) {
        short @ 0..=0x7f => (short, rest),
        long => {
            let (digits, rest) =
                rest.split_at_checked(long - 0x80).filter(|(digits, _)| digits.len() <= 3)?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
    };
    if *found == tag { rest.split_at_checked(length) } else { None }
}

fn key_bytes(form: KeyForm, text: &str) -> Result<Vec<u8>, KeyError> {
    // A prefix alone is a template without a value, and no secret.
    if text.is_empty() || text == PREFIX {
        return Err(KeyError::Empty);
    }
    let bare = text.strip_prefix(PREFIX).unwrap_or(text);
    let bytes = match form {
        KeyForm::Text => text.as_bytes().to_vec(),
        KeyForm::Hex => unhex(&text.to_ascii_lowercase()).ok_or(KeyError::Form("hexadecimal"))?,
        KeyForm::Base64 => unbase64(bare).or_else(|| unbase64url(bare)).ok_or(KeyError::Form("base64"))?,
        // The decoder's error would quote a character of the secret.
        KeyForm::Whsec => unbase64(bare).ok_or(KeyError::Encoding)?,
        KeyForm::Pem => public_key_of_pem(text)?,
        KeyForm::Jwk => read_jwk(text).ok_or(KeyError::Jwk)?.2,
    };
    if bytes.is_empty() { Err(KeyError::Empty) } else { Ok(bytes) }
}

/// An invalid key. The messages do not quote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("the secret is empty")]
    Empty,
    #[error("the secret is not standard base64 with padding; expected {PREFIX} and base64")]
    Encoding,
    #[error("the key is not {0}, which the signature's `key` declares")]
    Form(&'static str),
    #[error(
        "the private key is not one of ed25519; expected {PRIVATE} and base64 of its 32 bytes, or of 64 with the public key, or PKCS #8 where `key` is pem"
    )]
    Private,
    #[error(
        "the private key is not one of P-256; expected {PRIVATE} and base64 of its 32 bytes or of its PKCS #8, or PEM where `key` is pem"
    )]
    PrivateP256,
    #[error(
        "the private key is not one of RSA; expected PEM of its PKCS #8, or {PRIVATE} and base64 of that, with 2,048 to 4,096 bits"
    )]
    PrivateRsa,
    #[error(
        "the public key is not one of ed25519; expected its 32 bytes in the form of `key`, or {PUBLIC} and base64"
    )]
    Public,
    #[error(
        "the public key is not a JWK of P-256; expected JSON with kty, crv, kid, x and y, each once, and no private number. With rfc9421 also one of Ed25519, or kty oct with k, or whsec_ or whsk_ and base64"
    )]
    Jwk,
    #[error(
        "the public key is a point of small order, for which anybody can sign; expected another key pair"
    )]
    Small,
    #[error(
        "the key begins with {0}, which does not fit the signature's algorithm; expected a public key in the form of `key`, for ed25519 also {PUBLIC} (public) or {PRIVATE} (private) and base64, for ecdsa-p256 and jwt-es256 {PRIVATE}"
    )]
    Prefix(&'static str),
}

const PREFIX: &str = "whsec_";
const PRIVATE: &str = "whsk_";
const PUBLIC: &str = "whpk_";
const ED25519_BYTES: usize = 32;
/// A `SubjectPublicKeyInfo` of Ed25519, up to the key.
const ED25519_FRONT: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];

fn after_prefix(text: &str) -> Option<(&'static str, &str)> {
    [PREFIX, PRIVATE, PUBLIC].into_iter().find_map(|prefix| Some((prefix, text.strip_prefix(prefix)?)))
}

/// From this length on, the bytes of a key, and their encoded forms, count as the secret.
const KEY_BYTES_KNOWN_MIN: usize = 8;

/// A secret, ready to sign by its profile. It is never printed; [`Secret::redact`] removes its text from
/// other texts.
#[derive(Clone)]
pub struct Secret {
    text: Zeroizing<String>,
    bytes: Zeroizing<Vec<u8>>,
    signer: Signer,
}

#[derive(Clone)]
enum Signer {
    Hmac(hmac::Key),
    Ed25519(Arc<Ed25519KeyPair>),
    /// `ring` verifies, and does not sign: it derives no public key, and draws random numbers.
    P256(Arc<ecdsa::SigningKey>),
    /// The same, for tokens and messages: two numbers in place of DER.
    Es256(Arc<ecdsa::SigningKey>),
    Rsa(Arc<RsaKeyPair>),
}

/// Another key than any receiver's, and its certificate, which no authority signed.
const STRANGER: &str = include_str!("stranger.key");
pub const STRANGERS_CERTIFICATE: &str = include_str!("stranger.pem");

impl Signer {
    /// Its bytes and its text; none of a shared secret.
    fn public(&self) -> Option<(Vec<u8>, String)> {
        match self {
            Self::Hmac(_) => None,
            Self::Ed25519(pair) => {
                let bytes = pair.public_key().as_ref().to_vec();
                let text = hex(&bytes);
                Some((bytes, text))
            }
            Self::P256(key) | Self::Es256(key) => {
                let der = key.verifying_key().to_public_key_der().ok()?.as_bytes().to_vec();
                let text = base64(&der);
                Some((der, text))
            }
            Self::Rsa(pair) => {
                let bits = [&[0], pair.public_key().as_ref()].concat();
                let der = of_der(0x30, &[&RSA_ENCRYPTION[..], &of_der(3, &bits)].concat());
                let text = base64(&der);
                Some((der, text))
            }
        }
    }
}

/// The algorithm of a `SubjectPublicKeyInfo`.
const RSA_ENCRYPTION: [u8; 15] = [0x30, 13, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 13, 1, 1, 1, 5, 0];

/// With a length of two bytes.
fn of_der(tag: u8, content: &[u8]) -> Vec<u8> {
    let [.., high, low] = content.len().to_be_bytes();
    [&[tag, 0x82, high, low], content].concat()
}

impl Secret {
    pub fn parse(profile: Profile, text: &str) -> Result<Self, KeyError> {
        Self::of(&profile, text)
    }

    fn of(definition: &Definition, text: &str) -> Result<Self, KeyError> {
        let algorithm = definition.algorithm.map(|algorithm| algorithm.of(text));
        let (bytes, signer) = if algorithm == Some(Algorithm::Ed25519) {
            let (bytes, pair) = private_key(definition.key, text)?;
            (bytes, Signer::Ed25519(Arc::new(pair)))
        } else if algorithm == Some(Algorithm::RsaSha256) {
            let (bytes, pair) = private_key_rsa(definition.key, text)?;
            (bytes, Signer::Rsa(Arc::new(pair)))
        } else if algorithm.is_some_and(Algorithm::is_p256) {
            let (bytes, key) = private_key_p256(definition.key, text)?;
            let signs = if algorithm == Some(Algorithm::JwtEs256) { Signer::Es256 } else { Signer::P256 };
            (bytes, signs(Arc::new(key)))
        } else {
            let bytes = Zeroizing::new(key_bytes(definition.key, text)?);
            let hash = algorithm.and_then(Algorithm::hmac).unwrap_or(hmac::HMAC_SHA256);
            let key = hmac::Key::new(hash, &bytes);
            (bytes, Signer::Hmac(key))
        };
        Ok(Self { text: Zeroizing::new(text.to_owned()), bytes, signer })
    }

    /// Another one of the same kind; none if these bytes are no key of it. An HMAC pads keys with zeros, so that by zeros is one
    /// by an empty secret.
    #[must_use]
    pub fn sibling(&self, bytes: &[u8; 32]) -> Option<Self> {
        let number = || ecdsa::SigningKey::from_slice(bytes).ok().map(Arc::new);
        let signer = match &self.signer {
            Signer::Hmac(key) => Signer::Hmac(hmac::Key::new(key.algorithm(), bytes)),
            Signer::Ed25519(_) => Signer::Ed25519(Arc::new(Ed25519KeyPair::from_seed_unchecked(bytes).ok()?)),
            Signer::P256(_) => Signer::P256(number()?),
            Signer::Es256(_) => Signer::Es256(number()?),
            Signer::Rsa(_) if bytes == &[0; 32] => return None,
            Signer::Rsa(_) => Signer::Rsa(Arc::new(private_key_rsa(KeyForm::Pem, STRANGER).ok()?.1)),
        };
        Some(Self { text: Zeroizing::new(hex(bytes)), bytes: Zeroizing::new(bytes.to_vec()), signer })
    }

    /// None of a shared secret.
    pub(super) const fn public_algorithm(&self) -> Option<Algorithm> {
        match &self.signer {
            Signer::Hmac(_) => None,
            Signer::Ed25519(_) => Some(Algorithm::Ed25519),
            Signer::P256(_) => Some(Algorithm::EcdsaP256Der),
            Signer::Es256(_) => Some(Algorithm::JwtEs256),
            Signer::Rsa(_) => Some(Algorithm::RsaSha256),
        }
    }

    #[must_use]
    pub fn tag(&self, message: &[u8]) -> Vec<u8> {
        match &self.signer {
            Signer::Hmac(key) => hmac::sign(key, message).as_ref().to_vec(),
            Signer::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
            Signer::P256(key) => {
                let signature: ecdsa::DerSignature = key.sign(message);
                signature.as_bytes().to_vec()
            }
            Signer::Es256(key) => {
                let signature: ecdsa::Signature = key.sign(message);
                signature.to_bytes().to_vec()
            }
            Signer::Rsa(pair) => {
                let mut tag = vec![0; pair.public().modulus_len()];
                // It fails without random numbers alone; no receiver takes the zeros.
                let _signed =
                    pair.sign(&signature::RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut tag);
                tag
            }
        }
    }

    /// A tag that every receiver must refuse. A public key is the secret of an HMAC where a receiver lets the request
    /// choose the algorithm.
    pub(super) fn foreign_tag(&self, hash: ForeignHash, message: &[u8]) -> Vec<u8> {
        let public = self.signer.public();
        let key = match &public {
            None => self.bytes.as_slice(),
            Some((_, text)) if hash == ForeignHash::Sha256ByText => text.as_bytes(),
            Some((bytes, _)) => bytes,
        };
        let hmac = |algorithm| hmac::sign(&hmac::Key::new(algorithm, key), message).as_ref().to_vec();
        match hash {
            ForeignHash::Md5 => hmac_md5(key, message),
            ForeignHash::Sha1 => hmac(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
            ForeignHash::Sha256 | ForeignHash::Sha256ByText => hmac(hmac::HMAC_SHA256),
            ForeignHash::Sha512 => hmac(hmac::HMAC_SHA512),
            ForeignHash::Keyless => digest::digest(&digest::SHA256, message).as_ref().to_vec(),
        }
    }

    /// Takes constant time.
    fn authenticates(&self, tag: &[u8], message: &[u8]) -> bool {
        match &self.signer {
            Signer::Hmac(key) => hmac::verify(key, message, tag).is_ok(),
            Signer::Ed25519(pair) => verifies(Algorithm::Ed25519, pair.public_key().as_ref(), message, tag),
            Signer::P256(_) => self.verifies(Algorithm::EcdsaP256Der, tag, message),
            Signer::Es256(_) => self.verifies(Algorithm::JwtEs256, tag, message),
            Signer::Rsa(_) => self.verifies(Algorithm::RsaSha256, tag, message),
        }
    }

    fn verifies(&self, algorithm: Algorithm, tag: &[u8], message: &[u8]) -> bool {
        let public = self.signer.public();
        public.is_some_and(|(der, _)| verifies(algorithm, &public_key_of_der(der), message, tag))
    }

    /// Its thumbprint. Empty where keys have no name.
    pub(super) fn kid(&self) -> String {
        self.members().map(|members| token::kid(&members)).unwrap_or_default()
    }

    fn members(&self) -> Option<Zeroizing<String>> {
        match &self.signer {
            Signer::Hmac(_) => Some(token::members(Algorithm::HmacSha256, &self.bytes)),
            Signer::Ed25519(pair) => Some(token::members(Algorithm::Ed25519, pair.public_key().as_ref())),
            Signer::P256(_) | Signer::Rsa(_) => None,
            Signer::Es256(key) => {
                let point = key.verifying_key().to_sec1_point(false);
                Some(token::members(Algorithm::JwtEs256, point.as_bytes()))
            }
        }
    }

    /// As RFC 9421, section 6.2.2, calls it.
    pub(super) const fn message_algorithm(&self) -> &'static str {
        match &self.signer {
            Signer::Hmac(_) => "hmac-sha256",
            Signer::Ed25519(_) => "ed25519",
            Signer::P256(_) | Signer::Es256(_) => "ecdsa-p256-sha256",
            Signer::Rsa(_) => "rsa-v1_5-sha256",
        }
    }

    #[must_use]
    pub const fn is_private(&self) -> bool {
        !matches!(self.signer, Signer::Hmac(_))
    }

    /// Its name, and its public key in JSON.
    pub(super) fn jwk(&self) -> Option<(String, String)> {
        let members = self.members().filter(|_| self.is_private())?;
        let kid = token::kid(&members);
        // In the order of the names, as the docs write it.
        let named = members.replacen(r#""kty""#, &format!(r#""kid":"{kid}","kty""#), 1);
        Some((kid, format!("{{{named}}}")))
    }

    /// The public key's forms, as a receiver may hold them: bytes of Ed25519, DER, its base64, PEM, and JSON.
    pub(super) fn public_forms(&self) -> Vec<(&'static str, Vec<u8>)> {
        let Some(((bytes, digits), (_, jwk))) = self.signer.public().zip(self.jwk()) else {
            return Vec::new();
        };
        let is_raw = self.public_algorithm() == Some(Algorithm::Ed25519);
        let der = if is_raw { [&ED25519_FRONT[..], &bytes].concat() } else { bytes.clone() };
        let text = base64(&der);
        let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", lines.join("\n"));
        let raw = [("bytes", bytes), ("hexadecimal", digits.into_bytes())].into_iter().filter(|_| is_raw);
        let texts =
            [("base64", text), ("PEM", pem), ("JSON", jwk)].map(|(form, text)| (form, text.into_bytes()));
        raw.chain([("DER", der)]).chain(texts).collect()
    }

    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.redact_bytes(text.as_bytes())).into_owned()
    }

    #[must_use]
    pub fn redact_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let spellings = spellings(&self.text, &self.bytes);
        spellings.iter().fold(bytes.to_vec(), |bytes, form| redacted(bytes, form))
    }

    /// Finds short secrets, too.
    #[must_use]
    pub fn is_in(&self, bytes: &[u8]) -> bool {
        has_one(&spellings(&self.text, &self.bytes), bytes)
    }
}

/// A hash in place of the profile's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignHash {
    Md5,
    Sha1,
    Sha256,
    Sha512,
    /// In hexadecimal or base64, as a variable holds it.
    Sha256ByText,
    /// SHA-256 without the key.
    Keyless,
}

/// RFC 2104, with a block of 64 bytes.
fn hmac_md5(key: &[u8], message: &[u8]) -> Vec<u8> {
    const BLOCK: usize = 64;
    let key = if key.len() > BLOCK { Md5::digest(key).to_vec() } else { key.to_vec() };
    let mut padded = Zeroizing::new([0; BLOCK]);
    padded[..key.len()].copy_from_slice(&key);
    let around = |pad: u8, inner: &[u8]| {
        let outer = padded.map(|byte| byte ^ pad);
        Md5::digest([outer.as_slice(), inner].concat()).to_vec()
    };
    around(0x5c, &around(0x36, message))
}

/// The bytes without this text, which is not empty.
#[must_use]
pub fn redacted(bytes: Vec<u8>, form: &[u8]) -> Vec<u8> {
    let found: Vec<usize> = memchr::memmem::find_iter(&bytes, form).collect();
    if found.is_empty() {
        return bytes;
    }
    let (mut kept, mut from) = (Vec::with_capacity(bytes.len()), 0);
    for at in found {
        kept.extend_from_slice(&bytes[from..at]);
        kept.extend_from_slice(b"(secret)");
        from = at + form.len();
    }
    kept.extend_from_slice(&bytes[from..]);
    kept
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
