//! Ed25519 signatures of certificates.

use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};
use serde::{Deserialize, Serialize};

use crate::signature::{base64, is_small, unbase64};

/// Of a `SubjectPublicKeyInfo`, up to the 32 bytes of the key.
const FRONT: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];

#[derive(Debug)]
pub struct SigningKey(Ed25519KeyPair);

/// A public key, as PEM has it between its lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PublicKey(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error(
        "it is no private key of Ed25519 in PEM; expected the file that `openssl genpkey -algorithm ed25519` writes"
    )]
    Private,
    #[error(
        "it is no safe public key of Ed25519 in PEM; expected the file that `openssl pkey -in KEY -pubout` writes"
    )]
    Public,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Signature {
    algorithm: String,
    pub(super) public_key: PublicKey,
    value: String,
}

/// Names its use, so that it is no signature of anything else.
fn message(digest: &str) -> String {
    format!("hookproof certificate sha256:{digest}")
}

impl SigningKey {
    /// From PKCS #8 in PEM.
    pub fn parse(pem: &[u8]) -> Result<Self, KeyError> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem).map_err(|_| KeyError::Private)?;
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_pkcs8_der());
        pair.map(Self).map_err(|_| KeyError::Private)
    }

    pub(super) fn sign(&self, digest: &str) -> Signature {
        Signature {
            algorithm: "ed25519".to_owned(),
            public_key: PublicKey(base64(&[&FRONT[..], self.0.public_key().as_ref()].concat())),
            value: base64(self.0.sign(message(digest).as_bytes()).as_ref()),
        }
    }
}

impl PublicKey {
    /// From a `SubjectPublicKeyInfo` in PEM.
    pub fn parse(pem: &[u8]) -> Result<Self, KeyError> {
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem).map_err(|_| KeyError::Public)?;
        let key = Self(base64(der.as_ref()));
        key.bytes().map(|_| key).ok_or(KeyError::Public)
    }

    fn bytes(&self) -> Option<Vec<u8>> {
        let key = unbase64(&self.0)?.strip_prefix(&FRONT)?.to_vec();
        (key.len() == 32 && !is_small(&key)).then_some(key)
    }
}

impl std::fmt::Display for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Signature {
    pub(super) fn holds(&self, digest: &str) -> bool {
        let parts = self.public_key.bytes().zip(unbase64(&self.value));
        self.algorithm == "ed25519"
            && parts.is_some_and(|(key, value)| {
                UnparsedPublicKey::new(&ED25519, key).verify(message(digest).as_bytes(), &value).is_ok()
            })
    }
}
