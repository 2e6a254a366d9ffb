//! Plaid's signature is a JWT by ES256. Its claims have the time and the body's digest. They are read once the signature
//! holds; of the head, only `alg` and `kid` are read before.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use p256::ecdsa::Signature;
use p256::ecdsa::signature::Verifier as _;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::headers::{Headers, only};
use super::keys::{Keys, Named};
use super::signature::{decode_base64url, decode_hex};
use super::timestamp::{self, UnixSeconds};
use super::{Rejection, Verified, body_id};

const TOKEN: &str = "plaid-verification";
const TOKEN_BYTES_MAX: usize = 4_096;
const ALGORITHM: &str = "ES256";
const SIGNATURE_BYTES: usize = 64;
const SIGNATURE_WRITTEN: usize = 86;

const MALFORMED: Rejection = Rejection::Encoding {
    name: TOKEN,
    expected: "a JWT of up to 4096 characters in canonical base64url without padding, with alg and kid, the claims iat \
        (a whole number) and request_body_sha256 (hexadecimal in lower case), each once, and a signature of 64 bytes",
};

/// Serde refuses a member that is there twice.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    alg: Cow<'a, str>,
    #[serde(borrow)]
    kid: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Claims<'a> {
    iat: i64,
    #[serde(borrow)]
    request_body_sha256: Cow<'a, str>,
}

pub(super) fn verify<'a, H: Headers + ?Sized>(
    now: UnixSeconds,
    headers: &'a H,
    body: &'a [u8],
    keys: &Keys,
) -> Result<Verified<'a>, Rejection> {
    let (signed, signature) = split(only(headers, TOKEN)?).ok_or(MALFORMED)?;
    let (head, claims) = signed.split_once('.').ok_or(MALFORMED)?;
    let key = key(head, signed, &signature, keys)?;
    let mut buffer = [0; TOKEN_BYTES_MAX];
    let claims: Claims<'_> = decoded(claims, &mut buffer).and_then(object).ok_or(MALFORMED)?;
    let digest: [u8; 32] = decode_hex(&claims.request_body_sha256).ok_or(MALFORMED)?;
    let signed_at = UnixSeconds(claims.iat);
    timestamp::check_fresh(now, signed_at, keys.tolerance())?;
    if !bool::from(digest.ct_eq(Sha256::digest(body).as_slice())) {
        return Err(Rejection::Signature);
    }
    Ok(Verified { id: body_id::of(body), signed_at: Some(signed_at), key })
}

/// The signed text, and the signature. Both its numbers are from 1 to below the order; the second may be in the upper half,
/// as RFC 7518 allows.
pub(super) fn split(token: &str) -> Option<(&str, Signature)> {
    let (signed, signature) = token.rsplit_once('.').filter(|_| token.len() <= TOKEN_BYTES_MAX)?;
    let signature = decode_base64url::<SIGNATURE_BYTES, SIGNATURE_WRITTEN>(signature)?;
    Some((signed, Signature::from_slice(&signature).ok()?))
}

fn key(head: &str, signed: &str, signature: &Signature, keys: &Keys) -> Result<usize, Rejection> {
    let mut buffer = [0; TOKEN_BYTES_MAX];
    let written = decoded(head, &mut buffer).ok_or(MALFORMED)?;
    let Head { alg, kid } = object(written).ok_or(MALFORMED)?;
    let mut named = keys.named(&kid).peekable();
    // Whoever knows none of the extensions must refuse them (RFC 7515, section 4.1.11).
    if alg != ALGORITHM || body_id::has(written, "crit") || named.peek().is_none() {
        return Err(Rejection::NoSignature { name: TOKEN });
    }
    let fits =
        |key: &Named| matches!(key, Named::P256(point) if point.verify(signed.as_bytes(), signature).is_ok());
    named.find(|(_, key)| fits(key)).map(|(place, _)| place).ok_or(Rejection::Signature)
}

fn decoded<'b>(text: &str, buffer: &'b mut [u8; TOKEN_BYTES_MAX]) -> Option<&'b [u8]> {
    let length = URL_SAFE_NO_PAD.decode_slice(text, buffer).ok()?;
    Some(&buffer[..length])
}

/// Not from an array, which serde takes as well.
fn object<'b, T: Deserialize<'b>>(json: &'b [u8]) -> Option<T> {
    serde_json::from_slice(json).ok().filter(|_| json.trim_ascii_start().starts_with(b"{"))
}
