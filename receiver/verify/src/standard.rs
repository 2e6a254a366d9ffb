//! Standard Webhooks 1.0: `id.timestamp.body`, signed by each key, as `v1` (HMAC) or `v1a` (Ed25519).

use super::headers::{Headers, id, only};
use super::keys::Keys;
use super::signature::{BASE64, Ed25519, Tag, decode_base64, fitting_key, fitting_public};
use super::timestamp::{self, UnixSeconds};
use super::{Rejection, Verified};

const ID: &str = "webhook-id";
const TIMESTAMP: &str = "webhook-timestamp";
const SIGNATURE: &str = "webhook-signature";

const ED25519_WRITTEN: usize = 88;
/// The most `v1a` signatures checked: each costs as much as hashing many bodies.
const ED25519_TRIED_MAX: usize = 8;

pub(super) fn verify<'a, H: Headers + ?Sized>(
    now: UnixSeconds,
    headers: &'a H,
    body: &'a [u8],
    keys: &Keys,
) -> Result<Verified<'a>, Rejection> {
    let id = id(headers, ID)?;
    if id.contains('.') {
        // A dot would make the signed text `id.timestamp.body` ambiguous.
        return Err(Rejection::Id { name: ID });
    }
    let timestamp = only(headers, TIMESTAMP)?;
    let signed_at = timestamp::parse(timestamp, TIMESTAMP)?;
    let signatures = only(headers, SIGNATURE)?;
    timestamp::check_fresh(now, signed_at, keys.tolerance())?;
    let parts = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body];
    let key = fitting(keys, &parts, signatures)?;
    Ok(Verified { id: id.into(), signed_at: Some(signed_at), key })
}

/// Skips unreadable signatures and other versions, which the standard may add.
fn fitting(keys: &Keys, parts: &[&[u8]], signatures: &str) -> Result<usize, Rejection> {
    let of = |version: &'static str| {
        signatures
            .split(' ')
            .filter_map(move |one| one.split_once(','))
            .filter_map(move |(known, encoded)| (known == version).then_some(encoded))
    };
    let tags = of("v1").filter_map(Tag::from_base64);
    if tags.clone().next().is_some()
        && let Some(place) = fitting_key(keys.macs(), parts, tags.clone())
    {
        return Ok(keys.place_of_mac(place));
    }
    let publics = keys.publics();
    if !publics.is_empty() && of("v1a").next().is_some() {
        let read = |text| -> Option<Ed25519> { decode_base64::<_, ED25519_WRITTEN>(text) };
        let signatures = of("v1a").take(ED25519_TRIED_MAX).filter_map(read);
        return fitting_public(publics, parts, signatures)
            .map(|place| keys.place_of_public(place))
            .ok_or(Rejection::Signature);
    }
    Err(if tags.clone().next().is_some() {
        Rejection::Signature
    } else if of("v1").next().is_some() {
        Rejection::Encoding { name: SIGNATURE, expected: BASE64 }
    } else {
        Rejection::NoSignature { name: SIGNATURE }
    })
}
