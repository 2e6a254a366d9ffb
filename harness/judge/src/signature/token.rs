//! JSON Web Tokens in their compact form (RFC 7515), and keys as JSON (RFC 7517). A member that is there twice is refused.

use std::collections::BTreeMap;
use std::fmt;

use ::base64::Engine as _;
use ::base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest;
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::Value;
use zeroize::Zeroizing;

use super::definition::Algorithm;

pub(super) const ES256: &str = "ES256";
const BYTES_MAX: usize = 4096;
const SIGNATURE_BYTES: usize = 64;
const COORDINATE_BYTES: usize = 32;

/// A token by ES256, whose signature and claims nobody has checked.
pub(super) struct Token<'t> {
    pub(super) kid: String,
    pub(super) signed: &'t str,
    pub(super) signature: Vec<u8>,
    claims: Members,
}

struct Members(BTreeMap<String, Value>);

impl<'t> Token<'t> {
    pub(super) fn read(text: &'t str) -> Option<Self> {
        let (signed, signature) = text.rsplit_once('.').filter(|_| text.len() <= BYTES_MAX)?;
        let (head, claims) = signed.split_once('.')?;
        let head = Members::read(&decode(head)?)?;
        let signature = decode(signature).filter(|bytes| bytes.len() == SIGNATURE_BYTES)?;
        let is_right = head.text("alg") == Some(ES256) && !head.0.contains_key("crit");
        let kid = head.text("kid").filter(|_| is_right)?.to_owned();
        Some(Self { kid, signed, signature, claims: Members::read(&decode(claims)?)? })
    }

    /// As it is written in JSON.
    pub(super) fn number(&self, claim: &str) -> Option<String> {
        self.claims.0.get(claim).filter(|value| value.is_number()).map(ToString::to_string)
    }

    pub(super) fn text(&self, claim: &str) -> Option<&str> {
        self.claims.text(claim)
    }
}

impl Members {
    fn read(json: &[u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;

        impl<'de> Visitor<'de> for Each {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    if members.insert(name, value).is_some() {
                        return Err(A::Error::custom("a member is there twice"));
                    }
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Each)
    }
}

/// The signed text of a token, followed by a point.
pub(super) fn signed(head: &str, claims: &str) -> String {
    format!("{}.{}.", encode(head.as_bytes()), encode(claims.as_bytes()))
}

pub(super) fn head(alg: &str, kid: &str) -> String {
    format!(r#"{{"alg":"{alg}","kid":"{kid}","typ":"JWT"}}"#)
}

pub(super) fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// In its one spelling, without padding.
fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// The members of JSON that are a key, in the order of their names.
pub(super) fn members(algorithm: Algorithm, bytes: &[u8]) -> Zeroizing<String> {
    let text = match (algorithm, bytes.split_at_checked(1 + COORDINATE_BYTES)) {
        (Algorithm::Ed25519, _) => format!(r#""crv":"Ed25519","kty":"OKP","x":"{}""#, encode(bytes)),
        (Algorithm::JwtEs256, Some((x, y))) => {
            format!(r#""crv":"P-256","kty":"EC","x":"{}","y":"{}""#, encode(&x[1..]), encode(y))
        }
        _ => format!(r#""k":"{}","kty":"oct""#, encode(bytes)),
    };
    Zeroizing::new(text)
}

/// A thumbprint (RFC 7638).
pub(super) fn kid(members: &str) -> String {
    encode(digest::digest(&digest::SHA256, format!("{{{members}}}").as_bytes()).as_ref())
}

/// The name, the algorithm and the bytes of a public key, or of a shared secret.
pub(super) fn read_jwk(text: &str) -> Option<(String, Algorithm, Vec<u8>)> {
    let key = Members::read(text.as_bytes())?;
    let member = |name: &str| decode(key.text(name)?).filter(|bytes| !bytes.is_empty());
    let coordinate = |name: &str| member(name).filter(|bytes| bytes.len() == COORDINATE_BYTES);
    let (alg, algorithm, bytes) = match (key.text("kty")?, key.text("crv")) {
        // SEC 1, section 2.3.4: 4 is an uncompressed point.
        ("EC", Some("P-256")) => {
            (ES256, Algorithm::JwtEs256, [&[4][..], &coordinate("x")?, &coordinate("y")?].concat())
        }
        ("OKP", Some("Ed25519")) => ("EdDSA", Algorithm::Ed25519, coordinate("x")?),
        ("oct", None) => ("HS256", Algorithm::HmacSha256, member("k")?),
        _ => return None,
    };
    let is_valid = key.0.get("alg").is_none_or(|given| given == alg)
        && key.0.get("expired_at").is_none_or(Value::is_null);
    let kid = match key.0.get("kid") {
        Some(kid) => kid.as_str()?.to_owned(),
        None => kid(&members(algorithm, &bytes)),
    };
    (is_valid && !kid.is_empty() && !key.0.contains_key("d")).then_some((kid, algorithm, bytes))
}
