//! GitHub's signature: `sha256=` and the hex of the HMAC over the body.

use super::headers::{Headers, id, only};
use super::keys::Keys;
use super::signature::fitting_key_hex;
use super::{Rejection, Verified};

const SIGNATURE: &str = "x-hub-signature-256";
const ID: &str = "x-github-delivery";

pub(super) fn verify<'a, H: Headers + ?Sized>(
    headers: &'a H,
    body: &'a [u8],
    keys: &Keys,
) -> Result<Verified<'a>, Rejection> {
    let id = id(headers, ID)?;
    let signature = only(headers, SIGNATURE)?;
    let signature = signature.strip_prefix("sha256=").ok_or(Rejection::NoSignature { name: SIGNATURE })?;
    let key = fitting_key_hex(keys.macs(), &[body], signature, SIGNATURE)?;
    Ok(Verified { id: id.into(), signed_at: None, key })
}
