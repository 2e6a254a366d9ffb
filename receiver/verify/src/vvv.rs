//! Hookproof's own profile that is signed once, when the event was emitted.

use super::headers::{Headers, id, only};
use super::keys::Keys;
use super::signature::fitting_key_hex;
use super::{Rejection, Verified};

const SIGNATURE: &str = "x-vvv-signature";
const ID: &str = "x-vvv-delivery-id";
const EVENT: &str = "x-vvv-event";
const ATTEMPT: &str = "x-vvv-attempt";
const SUBSCRIBER: &str = "x-vvv-subscriber";

/// The hex of the HMAC over the body alone. The other headers are not signed, and must only be unique text.
pub(super) fn verify<'a, H: Headers + ?Sized>(
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
