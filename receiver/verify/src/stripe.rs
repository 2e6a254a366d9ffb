//! `t=…,v1=…` in one header, over `timestamp.body`, in hex, by each key.

use super::body_id;
use super::headers::{Headers, only};
use super::keys::Keys;
use super::signature::{HEX, Tag, fitting_key};
use super::timestamp::{self, UnixSeconds};
use super::{Rejection, Verified};

const SIGNATURE: &str = "stripe-signature";

pub(super) fn verify<'a, H: Headers + ?Sized>(
    now: UnixSeconds,
    headers: &'a H,
    body: &'a [u8],
    keys: &Keys,
) -> Result<Verified<'a>, Rejection> {
    let header = only(headers, SIGNATURE)?;
    let of = |scheme: &'static str| {
        header.split(',').filter_map(move |item| item.strip_prefix(scheme)?.strip_prefix('='))
    };
    let mut timestamps = of("t");
    let (Some(timestamp), None) = (timestamps.next(), timestamps.next()) else {
        return Err(Rejection::Timestamp { name: SIGNATURE });
    };
    let signed_at = timestamp::parse(timestamp, SIGNATURE)?;
    timestamp::check_fresh(now, signed_at, keys.tolerance())?;
    // Skips other schemes, such as `v0`.
    let tags = of("v1").filter_map(Tag::from_hex);
    if tags.clone().next().is_none() {
        return Err(match of("v1").next() {
            Some(_) => Rejection::Encoding { name: SIGNATURE, expected: HEX },
            None => Rejection::NoSignature { name: SIGNATURE },
        });
    }
    let key =
        fitting_key(keys.macs(), &[timestamp.as_bytes(), b".", body], tags).ok_or(Rejection::Signature)?;
    Ok(Verified { id: body_id::of(body), signed_at: Some(signed_at), key })
}
