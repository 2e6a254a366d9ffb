//! PayPal signs a CRC-32 of the body. Anybody can write another body of the same CRC-32, so the body is hardly authenticated. The
//! key's URL is in a header: the receiver fetches nothing, and refuses any other host.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::headers::{Headers, id, only};
use super::keys::Keys;
use super::{Rejection, Verified, body_id};

const ID: &str = "paypal-transmission-id";
const TIME: &str = "paypal-transmission-time";
const SIGNATURE: &str = "paypal-transmission-sig";
const URL: &str = "paypal-cert-url";
const ALGORITHM: &str = "paypal-auth-algo";
const EXPECTED: &str = "standard base64 of up to 512 bytes, with its padding";
/// Of 4,096 bits.
const SIGNATURE_BYTES_MAX: usize = 512;

pub(super) fn verify<'a, H: Headers + ?Sized>(
    headers: &'a H,
    body: &'a [u8],
    keys: &Keys,
) -> Result<Verified<'a>, Rejection> {
    let (transmission, time) = (separate(headers, ID)?, separate(headers, TIME)?);
    let encoded = only(headers, SIGNATURE)?;
    if !is_paypals(only(headers, URL)?) {
        return Err(Rejection::Url { name: URL });
    }
    if only(headers, ALGORITHM)? != "SHA256withRSA" {
        return Err(Rejection::NoSignature { name: SIGNATURE });
    }
    let mut buffer = [0; SIGNATURE_BYTES_MAX + 3];
    let length =
        STANDARD.decode_slice(encoded, &mut buffer).ok().filter(|length| *length <= SIGNATURE_BYTES_MAX);
    let signature = &buffer[..length.ok_or(Rejection::Encoding { name: SIGNATURE, expected: EXPECTED })?];
    let crc = crc32(body);
    let key = keys.webhooks().iter().position(|(webhook, key)| {
        key.verifies(format!("{transmission}|{time}|{webhook}|{crc}").as_bytes(), signature)
    });
    let key = key.ok_or(Rejection::Signature)?;
    Ok(Verified { id: body_id::of(body), signed_at: None, key })
}

/// Without the text between the signed parts.
fn separate<'a, H: Headers + ?Sized>(headers: &'a H, name: &'static str) -> Result<&'a str, Rejection> {
    let text = id(headers, name)?;
    if text.contains('|') { Err(Rejection::Id { name }) } else { Ok(text) }
}

fn is_paypals(url: &str) -> bool {
    let Some((host, _)) = url.strip_prefix("https://").and_then(|rest| rest.split_once('/')) else {
        return false;
    };
    let is_plain = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.');
    is_plain && (host == "paypal.com" || host.ends_with(".paypal.com"))
}

/// ISO 3309, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |rest: u32, _: u32| if rest & 1 == 1 { rest >> 1 ^ 0xedb8_8320 } else { rest >> 1 };
    !bytes.iter().fold(u32::MAX, |rest, byte| (0..8).fold(rest ^ u32::from(*byte), step))
}
