//! What the judge verifies signatures with: a secret that it shares with the sender, or the sender's public key.

use std::fmt;

use ring::signature::{self, UnparsedPublicKey};
use ring::{digest, hmac};
use rustls_pki_types::SubjectPublicKeyInfoDer;
use rustls_pki_types::pem::PemObject as _;

use super::digest::{unbase64, unbase64url, unhex};
use super::secret::{Secret, SecretError};

/// The length of an ECDSA signature on P-256 as two numbers side by side; else it is in ASN.1.
const P256_FIXED_BYTES: usize = 64;

/// How an own signature is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// HMAC with SHA-1, which some senders still use.
    HmacSha1,
    /// HMAC with SHA-256.
    HmacSha256,
    /// HMAC with SHA-512.
    HmacSha512,
    /// Ed25519.
    Ed25519,
    /// ECDSA on P-256 with SHA-256, in ASN.1 or as two numbers of 32 bytes.
    EcdsaP256,
    /// RSA by PKCS#1 v1.5 with SHA-256, 2,048 bits or more.
    RsaSha256,
}

/// How a key is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyForm {
    /// The text's own bytes.
    Text,
    /// Hexadecimal.
    Hex,
    /// Base64, with `whsec_` before it or not.
    Base64,
    /// A public key in PEM.
    Pem,
}

/// What verifies signatures. It is never printed.
#[derive(Clone)]
pub struct Key(Kind);

#[derive(Clone)]
enum Kind {
    /// A secret of a profile.
    Secret(Secret),
    Hmac(hmac::Key),
    Public(Algorithm, Vec<u8>),
}

impl Algorithm {
    /// Whether the sender signs with a private key, and the judge knows the public one alone.
    #[must_use]
    pub const fn is_public(self) -> bool {
        matches!(self, Self::Ed25519 | Self::EcdsaP256 | Self::RsaSha256)
    }
}

impl From<Secret> for Key {
    fn from(secret: Secret) -> Self {
        Self(Kind::Secret(secret))
    }
}

impl Key {
    /// Reads a key of an algorithm.
    pub(super) fn parse(algorithm: Algorithm, form: KeyForm, text: &str) -> Result<Self, KeyError> {
        if text.is_empty() {
            return Err(SecretError::Empty.into());
        }
        let bytes = match form {
            KeyForm::Text => text.as_bytes().to_vec(),
            KeyForm::Hex => unhex(&text.to_ascii_lowercase()).ok_or(KeyError::Form("hexadecimal"))?,
            KeyForm::Base64 => {
                let bare = text.strip_prefix("whsec_").unwrap_or(text);
                unbase64(bare).or_else(|| unbase64url(bare)).ok_or(KeyError::Form("base64"))?
            }
            KeyForm::Pem => public_key_of_pem(text)?,
        };
        if bytes.is_empty() {
            return Err(SecretError::Empty.into());
        }
        let hmac = |algorithm| Ok(Self(Kind::Hmac(hmac::Key::new(algorithm, &bytes))));
        match algorithm {
            Algorithm::HmacSha1 => hmac(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
            Algorithm::HmacSha256 => hmac(hmac::HMAC_SHA256),
            Algorithm::HmacSha512 => hmac(hmac::HMAC_SHA512),
            _ => Ok(Self(Kind::Public(algorithm, public_key_of_der(bytes)))),
        }
    }

    /// The secret of a profile, if it is one.
    pub(super) const fn secret(&self) -> Option<&Secret> {
        if let Kind::Secret(secret) = &self.0 { Some(secret) } else { None }
    }

    /// Whether a signature is one of this message by this key.
    pub(super) fn made(&self, signature: &[u8], message: &[u8]) -> bool {
        match &self.0 {
            Kind::Secret(secret) => secret.made(signature, &[message]),
            Kind::Hmac(key) => hmac::verify(key, message, signature).is_ok(),
            Kind::Public(algorithm, bytes) => {
                let by: &dyn signature::VerificationAlgorithm = match algorithm {
                    Algorithm::RsaSha256 => &signature::RSA_PKCS1_2048_8192_SHA256,
                    Algorithm::EcdsaP256 if signature.len() == P256_FIXED_BYTES => {
                        &signature::ECDSA_P256_SHA256_FIXED
                    }
                    Algorithm::EcdsaP256 => &signature::ECDSA_P256_SHA256_ASN1,
                    _ => &signature::ED25519,
                };
                UnparsedPublicKey::new(by, bytes).verify(message, signature).is_ok()
            }
        }
    }

    /// What two subscribers have in common only if they have the same secret; nothing of a public key, which a sender may
    /// well use for all.
    #[must_use]
    pub fn mark(&self) -> Option<[u8; 32]> {
        const OWNER: &[u8] = b"owner";
        match &self.0 {
            Kind::Secret(secret) => Some(secret.tag(&[OWNER])),
            Kind::Hmac(key) => {
                let hash = digest::digest(&digest::SHA256, hmac::sign(key, OWNER).as_ref());
                hash.as_ref().try_into().ok()
            }
            Kind::Public(..) => None,
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

fn public_key_of_pem(text: &str) -> Result<Vec<u8>, KeyError> {
    /// PEM in an answer or in the environment may have its line ends as two letters.
    const ESCAPED: &str = "\\n";
    let text = text.replace(ESCAPED, "\n");
    let whole =
        SubjectPublicKeyInfoDer::from_pem_slice(text.as_bytes()).map_err(|_| KeyError::Form("PEM"))?;
    Ok(whole.as_ref().to_vec())
}

/// The key inside an X.509 `SubjectPublicKeyInfo`; the same bytes where they are none. Whether the rest is a key of the
/// algorithm, the algorithm says.
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
    // The first byte says how many bits of the last are not used: none.
    let (unused, key) = bits.split_first()?;
    (rest.is_empty() && after.is_empty() && *unused == 0).then_some(key)
}

/// The content of a DER element with this tag, and what comes after it.
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

/// A text that is no key. None of these says anything of what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It is no secret of a profile.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// It is not written as the driver file says.
    #[error("the key is not {0}, as the driver file's sign.key says")]
    Form(&'static str),
}
