//! The keys that verify signatures.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ed25519_dalek::VerifyingKey;
use p256::ecdsa;
use p256::pkcs8::DecodePublicKey as _;
use serde::Deserialize;
use serde::de::IgnoredAny;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::profile::Profile;
use super::rsa::RsaKey;
use super::scheme::{Algorithm, METHOD};
use super::signature::{Mac, decode_base64, decode_base64url, decode_hex};
use super::url;

const SECRET_PREFIX: &str = "whsec_";
const PUBLIC_PREFIX: &str = "whpk_";
/// The length of an Ed25519 public key, and of its base64.
const PUBLIC_BYTES: usize = 32;
const PUBLIC_WRITTEN: usize = 44;
/// The length of a coordinate of P-256, and of its base64url.
const COORDINATE_BYTES: usize = 32;
const COORDINATE_WRITTEN: usize = 43;

/// It cannot be printed, and is wiped when dropped. Its forms:
///
/// - `whsec_` and base64, or plain text for profiles that use the text itself;
/// - a public key: `whpk_` and base64 (`discord`: also hex; `sendgrid`: base64 of DER; `plaid` and `rfc9421`: a JWK);
/// - `adyen`: hex;
/// - `paypal`: the webhook's id, a colon and base64 of DER.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// The longest text in bytes.
    pub const BYTES_MAX: usize = 1_024;

    /// Checks a text. Refuses an empty one, which a forgotten variable would give.
    ///
    /// # Errors
    /// When it is empty or longer than [`Self::BYTES_MAX`].
    pub fn new(text: impl Into<String>) -> Result<Self, KeyError> {
        let text = Zeroizing::new(text.into());
        match text.len() {
            0 => Err(KeyError::Empty),
            1..=Self::BYTES_MAX => Ok(Self(text)),
            bytes => Err(KeyError::Long { bytes }),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The senders that `OPTIONS` permits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permission {
    /// Or `*` for any.
    pub origins: Vec<String>,
    /// A minute; none for any.
    pub rate: Option<u32>,
}

/// A profile, its keys, and the tolerance for timestamps. Built once for all requests.
#[derive(Clone)]
pub struct Keys {
    profile: Profile,
    tolerance_seconds: u32,
    url: Box<str>,
    verify_token: Option<Secret>,
    permission: Option<Permission>,
    macs: Vec<Mac>,
    publics: Vec<VerifyingKey>,
    points: Vec<ecdsa::VerifyingKey>,
    /// Of profiles that name keys.
    named: Vec<(Box<str>, Named)>,
    /// Of PayPal, each by its id.
    webhooks: Vec<(Box<str>, RsaKey)>,
    places: Vec<usize>,
}

#[derive(Clone)]
pub(super) enum Named {
    Mac(Mac),
    Ed25519(VerifyingKey),
    P256(ecdsa::VerifyingKey),
}

impl Named {
    /// As RFC 9421, section 6.2.2, calls it.
    pub(super) const fn algorithm(&self) -> &'static str {
        match self {
            Self::Mac(_) => "hmac-sha256",
            Self::Ed25519(_) => "ed25519",
            Self::P256(_) => "ecdsa-p256-sha256",
        }
    }
}

impl Keys {
    /// Each costs a hash of the body of a request that matches none.
    pub const COUNT_MAX: usize = 8;
    /// The fewest and the most bytes of a key of Standard Webhooks.
    pub const BYTES: (usize, usize) = (24, 64);

    /// During a rotation any of several may match.
    ///
    /// # Errors
    /// When there is none or too many, or the profile cannot use one.
    pub fn new<'s>(
        profile: Profile,
        secrets: impl IntoIterator<Item = &'s Secret>,
    ) -> Result<Self, KeyError> {
        let mut keys = Self {
            profile,
            tolerance_seconds: profile.tolerance_seconds(),
            url: Box::default(),
            verify_token: None,
            permission: None,
            macs: Vec::new(),
            publics: Vec::new(),
            points: Vec::new(),
            named: Vec::new(),
            webhooks: Vec::new(),
            places: Vec::new(),
        };
        let mut places_of_publics = Vec::new();
        for (place, Secret(text)) in secrets.into_iter().enumerate() {
            if place >= Self::COUNT_MAX {
                return Err(KeyError::TooMany);
            }
            let algorithm = profile.scheme().map(|scheme| scheme.algorithm);
            if algorithm == Some(Algorithm::P256) {
                keys.points.push(point(text)?);
                keys.places.push(place);
            } else if algorithm == Some(Algorithm::Ed25519) {
                keys.publics.push(public(after_prefix(text).or_else(|| decode_hex(text)))?);
                places_of_publics.push(place);
            } else if profile == Profile::Plaid {
                keys.named.push(jwk(text, profile).ok_or(KeyError::Jwk)?);
                keys.places.push(place);
            } else if profile == Profile::Rfc9421 {
                keys.named.push(if text.starts_with(SECRET_PREFIX) {
                    let bytes = shared(text)?;
                    let k = Zeroizing::new(URL_SAFE_NO_PAD.encode(&bytes));
                    (thumbprint(&[("k", k.as_str()), ("kty", "oct")]), Named::Mac(Mac::new(&bytes)))
                } else {
                    jwk(text, profile).ok_or(KeyError::Message)?
                });
                keys.places.push(place);
            } else if profile == Profile::Paypal {
                keys.webhooks.push(of_webhook(text).ok_or(KeyError::Rsa)?);
                keys.places.push(place);
            } else if profile == Profile::Adyen {
                keys.macs.push(Mac::new(hexadecimal(text)?.as_slice()));
                keys.places.push(place);
            } else if profile == Profile::Twilio {
                keys.macs.push(Mac::sha1(text.as_bytes()));
                keys.places.push(place);
            } else if profile != Profile::StandardWebhooks {
                keys.macs.push(Mac::new(text.as_bytes()));
                keys.places.push(place);
            } else if text.starts_with(PUBLIC_PREFIX) {
                keys.publics.push(public(after_prefix(text))?);
                places_of_publics.push(place);
            } else {
                keys.macs.push(Mac::new(&shared(text)?));
                keys.places.push(place);
            }
        }
        keys.places.append(&mut places_of_publics);
        if keys.places.is_empty() { Err(KeyError::None) } else { Ok(keys) }
    }

    /// With another tolerance.
    #[must_use]
    pub fn with_tolerance(self, seconds: u32) -> Self {
        Self { tolerance_seconds: seconds, ..self }
    }

    /// With the URL that the sender was given. Where a profile signs it, none is genuine without it.
    #[must_use]
    pub fn with_url(self, url: &str) -> Self {
        Self { url: url.into(), ..self }
    }

    /// With the token by which `meta` proves its [handshake](crate::handshake). Without it none is answered.
    #[must_use]
    pub fn with_verify_token(self, token: Secret) -> Self {
        Self { verify_token: Some(token), ..self }
    }

    /// Without it no `OPTIONS` is answered.
    #[must_use]
    pub fn with_permission(self, permission: Permission) -> Self {
        Self { permission: Some(permission), ..self }
    }

    /// Their profile.
    #[must_use]
    pub const fn profile(&self) -> Profile {
        self.profile
    }

    /// The tolerance for timestamps, in seconds.
    #[must_use]
    pub const fn tolerance(&self) -> u32 {
        self.tolerance_seconds
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Whether a signature can be about a request of this method to this path and query. Where none covers the URL, it can be
    /// about any.
    #[must_use]
    pub fn concerns(&self, method: &http::Method, target: &str) -> bool {
        let added = (self.profile == Profile::Twilio).then_some(url::BODY_DIGEST);
        !self.profile.signs_url() || (method.as_str() == METHOD && url::is_to(&self.url, target, added))
    }

    pub(super) fn verify_token(&self) -> Option<&str> {
        self.verify_token.as_ref().map(|Secret(text)| text.as_str())
    }

    pub(super) const fn permission(&self) -> Option<&Permission> {
        self.permission.as_ref()
    }

    pub(super) fn macs(&self) -> &[Mac] {
        &self.macs
    }

    pub(super) fn publics(&self) -> &[VerifyingKey] {
        &self.publics
    }

    pub(super) fn points(&self) -> &[ecdsa::VerifyingKey] {
        &self.points
    }

    pub(super) fn webhooks(&self) -> &[(Box<str>, RsaKey)] {
        &self.webhooks
    }

    /// Those of this name, each with its place.
    pub(super) fn named(&self, name: &str) -> impl Iterator<Item = (usize, &Named)> {
        let all = self.named.iter().enumerate();
        all.filter(move |(_, (kid, _))| **kid == *name).map(|(place, (_, key))| (place, key))
    }

    pub(super) fn place_of_mac(&self, mac: usize) -> usize {
        self.places[mac]
    }

    pub(super) fn place_of_public(&self, public: usize) -> usize {
        self.places[self.macs.len() + public]
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { profile, tolerance_seconds, places, .. } = self;
        write!(f, "Keys({profile}, {} keys, ±{tolerance_seconds} s)", places.len())
    }
}

fn shared(text: &str) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let encoded = text.strip_prefix(SECRET_PREFIX).ok_or(KeyError::Prefix)?;
    // The decoder's error would reveal a character.
    let bytes = STANDARD.decode(encoded).map(Zeroizing::new).map_err(|_| KeyError::Encoding)?;
    let (min, max) = Keys::BYTES;
    if (min..=max).contains(&bytes.len()) { Ok(bytes) } else { Err(KeyError::Length { bytes: bytes.len() }) }
}

/// The webhook's id, and the certificate's public key.
fn of_webhook(text: &str) -> Option<(Box<str>, RsaKey)> {
    let (webhook, encoded) = text.split_once(':')?;
    let der = STANDARD.decode(encoded).ok()?;
    let key = RsaKey::from_der(&der).filter(|_| !webhook.is_empty() && !webhook.contains('|'))?;
    Some((webhook.into(), key))
}

/// In either case: Adyen shows capitals.
fn hexadecimal(text: &str) -> Result<Zeroizing<[u8; 32]>, KeyError> {
    let text = Zeroizing::new(text.to_ascii_lowercase());
    decode_hex(&text).map(Zeroizing::new).ok_or(KeyError::Hex)
}

fn after_prefix(text: &str) -> Option<[u8; PUBLIC_BYTES]> {
    decode_base64::<PUBLIC_BYTES, PUBLIC_WRITTEN>(text.strip_prefix(PUBLIC_PREFIX)?)
}

pub(super) fn public(bytes: Option<[u8; PUBLIC_BYTES]>) -> Result<VerifyingKey, KeyError> {
    let key = bytes.and_then(|bytes| VerifyingKey::from_bytes(&bytes).ok());
    // Signatures for a weak key can be forged.
    key.filter(|key| !key.is_weak()).ok_or(KeyError::Public)
}

pub(super) fn point(text: &str) -> Result<ecdsa::VerifyingKey, KeyError> {
    let der = STANDARD.decode(text).map_err(|_| KeyError::Point)?;
    ecdsa::VerifyingKey::from_public_key_der(&der).map_err(|_| KeyError::Point)
}

#[derive(Deserialize)]
struct Jwk<'a> {
    #[serde(borrow)]
    kty: Cow<'a, str>,
    #[serde(borrow)]
    crv: Option<Cow<'a, str>>,
    #[serde(borrow)]
    kid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    x: Option<Cow<'a, str>>,
    #[serde(borrow)]
    y: Option<Cow<'a, str>>,
    /// A shared secret.
    #[serde(borrow)]
    k: Option<Cow<'a, str>>,
    #[serde(borrow)]
    alg: Option<Cow<'a, str>>,
    /// The private number.
    d: Option<IgnoredAny>,
    expired_at: Option<IgnoredAny>,
}

/// The name and the key of a JWK, which is public or a shared secret. Plaid's are named, and of P-256.
fn jwk(text: &str, profile: Profile) -> Option<(Box<str>, Named)> {
    let Jwk { kty, crv, kid, x, y, k, alg, d, expired_at } = serde_json::from_str(text).ok()?;
    let crv = crv.as_deref().unwrap_or_default();
    let [x, y, k] = [x, y, k].map(|member| Zeroizing::new(member.unwrap_or_default().into_owned()));
    let coordinate = |text: &str| decode_base64url::<COORDINATE_BYTES, COORDINATE_WRITTEN>(text);
    let (expected, key, members) = match (&*kty, crv) {
        ("EC", "P-256") => {
            // SEC 1, section 2.3.4: 4 is an uncompressed point.
            let written = [&[4][..], &coordinate(&x)?, &coordinate(&y)?].concat();
            let point = ecdsa::VerifyingKey::from_sec1_bytes(&written).ok()?;
            (
                "ES256",
                Named::P256(point),
                vec![("crv", crv), ("kty", &*kty), ("x", x.as_str()), ("y", y.as_str())],
            )
        }
        ("OKP", "Ed25519") => {
            let key = public(coordinate(&x)).ok()?;
            ("EdDSA", Named::Ed25519(key), vec![("crv", crv), ("kty", &*kty), ("x", x.as_str())])
        }
        ("oct", "") => {
            let bytes = Zeroizing::new(URL_SAFE_NO_PAD.decode(&*k).ok()?);
            let (min, max) = Keys::BYTES;
            let mac = Mac::new(Some(bytes).filter(|bytes| (min..=max).contains(&bytes.len()))?.as_slice());
            ("HS256", Named::Mac(mac), vec![("k", k.as_str()), ("kty", &*kty)])
        }
        _ => return None,
    };
    let is_right = alg.is_none_or(|alg| alg == expected) && d.is_none() && expired_at.is_none();
    let is_fit = profile != Profile::Plaid || (kid.is_some() && expected == "ES256");
    let name = kid.map_or_else(|| thumbprint(&members), Into::into);
    (is_right && is_fit && !name.is_empty()).then_some((name, key))
}

/// RFC 7638: the hash of the members that are the key, in the order of their names.
fn thumbprint(members: &[(&str, &str)]) -> Box<str> {
    let mut hash = Sha256::new();
    for (place, (name, value)) in members.iter().enumerate() {
        let start = if place == 0 { "{" } else { "," };
        for part in [start, "\"", name, "\":\"", value, "\""] {
            hash.update(part);
        }
    }
    hash.update("}");
    URL_SAFE_NO_PAD.encode(hash.finalize()).into()
}

/// An invalid secret. Reveals nothing of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Empty.
    #[error("the secret is empty")]
    Empty,
    /// Too long.
    #[error("the secret has {bytes} bytes; expected at most {}", Secret::BYTES_MAX)]
    Long {
        /// Its length.
        bytes: usize,
    },
    /// Plain text, but the profile needs decoded bytes.
    #[error(
        "the secret is plain text; standard-webhooks needs {SECRET_PREFIX} (or {PUBLIC_PREFIX}) and base64"
    )]
    Prefix,
    /// Not base64.
    #[error("the secret is not standard base64 with its padding after {SECRET_PREFIX}")]
    Encoding,
    /// Not hexadecimal.
    #[error("the secret is no HMAC key of Adyen; expected its 64 hexadecimal digits")]
    Hex,
    /// Too few or too many bytes.
    #[error("the secret has {bytes} bytes after {SECRET_PREFIX}; expected {} to {}", Keys::BYTES.0, Keys::BYTES.1)]
    Length {
        /// Their number.
        bytes: usize,
    },
    /// Not a usable Ed25519 key.
    #[error(
        "the key is not a safe public one of ed25519; expected {PUBLIC_PREFIX} and base64 of 32 bytes, or for discord 64 \
         hexadecimal digits in lower case"
    )]
    Public,
    /// Not a public key of P-256.
    #[error(
        "the key is not a public one of P-256; expected base64 of its DER (SubjectPublicKeyInfo), without PEM's lines"
    )]
    Point,
    /// Not a public JWK of P-256, or expired.
    #[error(
        "the key is not a public JWK of P-256; expected the `key` that Plaid's /webhook_verification_key/get answers, with \
         kty, crv, kid, x and y, and not expired"
    )]
    Jwk,
    /// Not a webhook's id and a public key of RSA.
    #[error(
        "the key is not one of PayPal; expected the webhook's id, a colon, and base64 of the certificate's public key (RSA, \
         SubjectPublicKeyInfo in DER), without PEM's lines"
    )]
    Rsa,
    /// Neither a shared secret nor a JWK.
    #[error(
        "the key is neither {SECRET_PREFIX} and base64 nor a JWK; expected of a JWK kty OKP with crv Ed25519, EC with P-256, or oct, \
         not expired, without a private number, and kid unless its name is its thumbprint (RFC 7638)"
    )]
    Message,
    /// No key.
    #[error("there is no key; expected at least one secret")]
    None,
    /// More than [`Keys::COUNT_MAX`].
    #[error("there are more than {} keys; remove retired ones", Keys::COUNT_MAX)]
    TooMany,
}
