//! Webhook signatures, implemented for the judge alone.
//!
//! If the judge shared a signer with the sender or a verifier with the receiver, one mistake would hide on
//! both sides. So this module follows the profiles' public definitions, and verifies by another crypto library
//! (`ring`). Its verifier also reports *which* key signed. It reads no clock: time is an argument.

mod body;
mod definition;
mod forged;
mod handshake;
mod key;
mod message;
mod part;
mod profile;
mod small_order;
mod token;
mod verify;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
pub use body::folded;
pub use definition::{Definition, Written};
pub use handshake::{Handshake, Permission, in_query};
pub use key::{ForeignHash, Key, KeyError, STRANGERS_CERTIFICATE, Secret, redacted};
pub use part::IN_BODY;
pub use profile::{Profile, UnknownProfile};
use ring::digest;
pub(crate) use small_order::is_small;
pub use verify::{CheckedSignature, Received, Signing, Wrong, encode_bare, sign};

/// Given by its subscriber's profile or its driver file.
pub type Scheme = Arc<Definition>;

#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15].map(|half| DIGITS[usize::from(half)]));
    String::from_utf8(digits.collect()).expect("these digits are ASCII")
}

/// Lower case; none for any other text.
#[must_use]
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
    if rest.is_empty() { bytes.collect() } else { None }
}

/// Standard and padded.
#[must_use]
pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Canonical, standard alphabet; none for any other text.
#[must_use]
pub fn unbase64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// Padded or not.
#[must_use]
pub fn unbase64url(text: &str) -> Option<Vec<u8>> {
    let bare = text.trim_end_matches('=');
    let padding = text.len() - bare.len();
    let right = padding == 0 || (padding <= 2 && text.len().is_multiple_of(4));
    URL_SAFE_NO_PAD.decode(bare).ok().filter(|_| right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_is_read_in_one_spelling_only() {
        assert_eq!(hex(&[0, 0xab, 255]), "00abff");
        assert_eq!(unhex("00abff"), Some(vec![0, 0xab, 255]));
        for wrong in ["0", "0g", "AB", "0é", " 00"] {
            assert_eq!(unhex(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn base64_is_read_in_one_spelling_only() {
        assert_eq!(unbase64(&base64(b"ab")), Some(b"ab".to_vec()));
        for wrong in ["YWI", "YWI==", "YW-=", "YW\nI=", "YWJ="] {
            assert_eq!(unbase64(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn base64_for_urls_may_lack_its_padding_and_nothing_else() {
        for right in ["-_8", "-_8="] {
            assert_eq!(unbase64url(right), Some(vec![0xfb, 0xff]), "{right:?}");
        }
        for wrong in ["+/8", "-_8==", "-_9", "-_ 8"] {
            assert_eq!(unbase64url(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn sha256_of_abc_is_the_one_of_the_standard() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_hex(b"abc"), expected);
    }

    #[test]
    fn other_texts_lack_a_part_or_are_joined_otherwise() {
        let check = |profile: Profile, expected: &[&str]| {
            let secret = Secret::parse(profile, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
            let (id, timestamp, url) = ("a", "1", "http://b/");
            let signing = Signing {
                id,
                timestamp,
                event_type: "c",
                method: "POST",
                url,
                body: b"{}",
                ..Signing::default()
            };
            let others = signing.other_signatures(profile, &secret);
            let templates: Vec<_> = others.iter().map(|(template, _)| template.as_str()).collect();
            assert_eq!(templates, expected, "{profile}");
        };
        let standard = [
            "{id}",
            "{id}.{timestamp}",
            "{timestamp}",
            "{timestamp}.{body}",
            "{body}",
            "{id}.{body}",
            ".{timestamp}.{body}",
            "{id}..{body}",
            "{id}.{timestamp}.",
            "{id}{timestamp}{body}",
            "{id}:{timestamp}:{body}",
            "{id}\n{timestamp}\n{body}",
        ];
        check(Profile::STANDARD_WEBHOOKS, &standard);
        let square = ["{url}", "{body}", "{url}.{body}", "{url}:{body}", "{url}\n{body}"];
        check("square".parse().unwrap(), &square);
        check(Profile::GITHUB, &[]);
    }
}
