//! Hookproof's own profiles: signed for each attempt, or once when the event was emitted.

use super::body_id;
use super::headers::{Headers, id, only};
use super::keys::Keys;
use super::signature::fitting_key_hex;
use super::timestamp::{self, UnixSeconds};
use super::{Rejection, Verified};

const TIMESTAMP: &str = "x-vvv-timestamp";
const SIGNATURE: &str = "x-vvv-signature";
const ID: &str = "x-vvv-delivery-id";
const EVENT: &str = "x-vvv-event";
const ATTEMPT: &str = "x-vvv-attempt";
const SUBSCRIBER: &str = "x-vvv-subscriber";

/// `sha256=` and the hex of the HMAC over `timestamp.body`.
pub(super) fn verify_timestamped<'a, H: Headers + ?Sized>(
    now: UnixSeconds,
    headers: &'a H,
    body: &'a [u8],
    keys: &Keys,
) -> Result<Verified<'a>, Rejection> {
    let timestamp = only(headers, TIMESTAMP)?;
    let signed_at = timestamp::parse(timestamp, TIMESTAMP)?;
    let signature = only(headers, SIGNATURE)?;
    timestamp::check_fresh(now, signed_at, keys.tolerance())?;
    let signature = signature.strip_prefix("sha256=").ok_or(Rejection::NoSignature { name: SIGNATURE })?;
    let parts = [timestamp.as_bytes(), b".", body];
    let key = fitting_key_hex(keys.macs(), &parts, signature, SIGNATURE)?;
    Ok(Verified { id: body_id::of(body), signed_at: Some(signed_at), key })
}

/// The hex of the HMAC over the body alone. The other headers are not signed, and must only be unique text.
pub(super) fn verify_frozen<'a, H: Headers + ?Sized>(
    headers: &'a H,
    body: &'a [u8],
    keys: &Keys,
) -> Result<Verified<'a>, Rejection> {
    let id = id(headers, ID)?;
    for name in [EVENT, ATTEMPT, SUBSCRIBER] {
        if headers.values(name).next().is_some() {
            only(headers, name)?;
        }
    }
    let key = fitting_key_hex(keys.macs(), &[body], only(headers, SIGNATURE)?, SIGNATURE)?;
    Ok(Verified { id: id.into(), signed_at: None, key })
}
