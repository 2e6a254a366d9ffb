//! Twilio's signature covers the URL, and of a form its pairs. Of another body, the URL's query has the digest.

use sha2::{Digest as _, Sha256};

use super::headers::{Headers, only};
use super::keys::Keys;
use super::signature::{SHA1_BASE64, Tag, fitting_key};
use super::url::{BODY_DIGEST, parts};
use super::{Rejection, Verified, body_id};

const SIGNATURE: &str = "x-twilio-signature";
const KIND: &str = "content-type";
const FORM: &[u8] = b"application/x-www-form-urlencoded";
/// Each costs memory before the signature is known.
const PAIRS_MAX: usize = 1_000;

pub(super) fn verify<'a, H: Headers + ?Sized>(
    headers: &'a H,
    body: &'a [u8],
    keys: &Keys,
) -> Result<Verified<'a>, Rejection> {
    let tag = Tag::of_sha1(only(headers, SIGNATURE)?);
    let tag = tag.ok_or(Rejection::Encoding { name: SIGNATURE, expected: SHA1_BASE64 })?;
    let (url, _) = keys.url().split_once('#').unwrap_or((keys.url(), ""));
    let is_form = is_form(headers)?;
    let (form, digits);
    let content: [&[u8]; 3] = if is_form {
        if body.iter().filter(|byte| **byte == b'&').count() > PAIRS_MAX {
            return Err(Rejection::Signature);
        }
        form = pairs(body);
        // Else it could be the rest of a URL that was signed for another body.
        if form.first().is_some_and(|byte| !byte.is_ascii_alphanumeric()) {
            return Err(Rejection::Signature);
        }
        [&form, b"", b""]
    } else {
        digits = hex(Sha256::digest(body).into());
        [if url.contains('?') { b"&" } else { b"?" }, BODY_DIGEST.as_bytes(), &digits]
    };
    let (host, port, path) = parts(url);
    let usual: &[u8] = if url.starts_with("https:") { b":443" } else { b":80" };
    // Twilio leaves the port out, or adds it, as it comes.
    let key = [port.as_bytes(), if port.is_empty() { usual } else { b"" }].into_iter().find_map(|port| {
        let signed = [host.as_bytes(), port, path.as_bytes(), content[0], content[1], content[2]];
        fitting_key(keys.macs(), &signed, std::iter::once(tag))
    });
    let key = key.ok_or(Rejection::Signature)?;
    // The same form has many spellings.
    let id = if is_form { body_id::hashed(content[0]).into() } else { body_id::of(body) };
    Ok(Verified { id, signed_at: None, key })
}

fn is_form<H: Headers + ?Sized>(headers: &H) -> Result<bool, Rejection> {
    let mut kinds = headers.values(KIND);
    let kind = kinds.next().unwrap_or_default();
    if kinds.next().is_some() {
        return Err(Rejection::Twice { name: KIND });
    }
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default();
    Ok(kind.trim_ascii().eq_ignore_ascii_case(FORM))
}

/// Each name with its value, sorted. Of equal pairs one counts.
fn pairs(form: &[u8]) -> Vec<u8> {
    let pairs = form.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).map(|pair| {
        let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        (decoded(&pair[..at]), decoded(pair.get(at + 1..).unwrap_or_default()))
    });
    let mut pairs: Vec<_> = pairs.collect();
    pairs.sort();
    pairs.dedup();
    pairs.into_iter().flat_map(|(name, value)| [name, value]).flatten().collect()
}

/// `+` is a space, `%2B` a plus. A sign without two digits stays.
fn decoded(text: &[u8]) -> Vec<u8> {
    let (mut plain, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((byte, after)) = rest.split_first() {
        let digit = |at: usize| char::from(*after.get(at)?).to_digit(16);
        let escaped = if *byte == b'%' { digit(0).zip(digit(1)) } else { None };
        let escaped = escaped.and_then(|(high, low)| u8::try_from(high << 4 | low).ok());
        plain.push(escaped.unwrap_or(if *byte == b'+' { b' ' } else { *byte }));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    plain
}

fn hex(bytes: [u8; 32]) -> [u8; 64] {
    let digit = |half: u8| half + if half < 10 { b'0' } else { b'a' - 10 };
    let mut digits = [0; 64];
    for (pair, byte) in digits.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
        *pair = [digit(byte >> 4), digit(byte & 15)];
    }
    digits
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use hmac::{Hmac, KeyInit as _, Mac as _};
    use sha1::Sha1;

    use super::*;
    use crate::{Profile, Secret, UnixSeconds};

    const TOKEN: &str = "12345";
    const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";
    const URL: &str = "https://example.org/x";

    fn id(url: &str, kinds: &[&str], body: &str, signature: &str) -> Result<String, Rejection> {
        let keys = Keys::new(Profile::Twilio, [&Secret::new(TOKEN).unwrap()]).unwrap().with_url(url);
        let mut headers = vec![("X-Twilio-Signature", signature)];
        headers.extend(kinds.iter().map(|kind| ("Content-Type", *kind)));
        let found = crate::verify(UnixSeconds(0), headers.as_slice(), body.as_bytes(), &keys);
        found.map(|verified| verified.id.into_owned())
    }

    #[track_caller]
    fn check(url: &str, kind: &str, body: &str, signature: &str, is_right: bool) {
        let found = id(url, &[kind], body, signature);
        assert_eq!(found.is_ok(), is_right, "{url} {kind} {body}: {found:?}");
    }

    fn signed(text: &str) -> String {
        let mut mac = Hmac::<Sha1>::new_from_slice(TOKEN.as_bytes()).unwrap();
        mac.update(text.as_bytes());
        STANDARD.encode(mac.finalize().into_bytes())
    }

    /// The example of Twilio's documents.
    #[test]
    fn a_form_is_verified_with_and_without_the_port() {
        let url = "https://mycompany.com/myapp.php?foo=1&bar=2";
        let body = "CallSid=CA1234567890ABCDE&Caller=%2B14158675309&Digits=1234&From=%2B14158675309&To=%2B18005551212";
        let (_, rest) = body.split_once('&').unwrap();
        let signature = "RSOYDt4T1cUTdK1PDd93/VVr8B8=";
        check(url, FORM, body, signature, true);
        check(&url.replace(".com", ".com:443"), FORM, body, signature, true);
        check(&url.replace(".com", ".com:8443"), FORM, body, signature, true);
        check(&url.replace("bar=2", "bar=3"), FORM, body, signature, false);
        check(url, FORM, &format!("{rest}&CallSid=CA1234567890ABCDE"), signature, true);
        check(url, FORM, &format!("{body}&To=%2b18005551212"), signature, true);
        check(url, FORM, &body.replace("1234&", "1235&"), signature, false);
        check(url, FORM, &format!("{body}&Z="), signature, false);
        check(url, "application/json", body, signature, false);
    }

    #[test]
    fn no_form_stands_for_the_digest_of_another_body() {
        let (url, body) = ("https://example.org/x", r#"{"id":"evt_1"}"#);
        let digest = String::from_utf8(hex(Sha256::digest(body).into()).to_vec()).unwrap();
        // printf 'https://example.org/x?bodySHA256=…' | openssl dgst -sha1 -hmac 12345 -binary | base64
        let signature = "RppfxaxiElZktNKxZMeTIm4EmY8=";
        check(url, "application/json", body, signature, true);
        let form = format!("%3FbodySHA256%3D{digest}=");
        check(url, FORM, &form, signature, false);
    }

    #[test]
    fn a_form_has_one_id_however_it_is_spelled() {
        let signature = signed(&format!("{URL}From+1To+2"));
        let of = |form: &str| id(URL, &[FORM], form, &signature).unwrap();
        let first = of("From=%2B1&To=%2B2");
        assert!(first.starts_with("sha256:"), "{first}");
        for form in
            ["From=%2b1&To=%2B2", "To=%2B2&From=%2B1", "From=%2B1&To=%2B2&To=%2b2", "From=%2B1&To=%2B2&"]
        {
            assert_eq!(of(form), first, "{form}");
        }
        let other = id(URL, &[FORM], "From=%2B1&To=%2B3", &signed(&format!("{URL}From+1To+3")));
        assert_ne!(other.unwrap(), first);
    }

    #[test]
    fn a_form_begins_with_a_letter_or_digit() {
        for (form, text, is_right) in [
            ("", "", true),
            ("1=2", "12", true),
            ("%2Fy=1", "/y1", false),
            (":8443=", ":8443", false),
            (".evil=", ".evil", false),
            ("%C3%A9=", "é", false),
        ] {
            check(URL, FORM, form, &signed(&format!("{URL}{text}")), is_right);
        }
    }

    #[test]
    fn a_form_has_up_to_a_thousand_pairs() {
        let signature = signed(&format!("{URL}a"));
        check(URL, FORM, &format!("a{}", "&".repeat(1_000)), &signature, true);
        check(URL, FORM, &format!("a{}", "&".repeat(1_001)), &signature, false);
    }

    #[test]
    fn a_body_is_of_one_type() {
        let found = id(URL, &[FORM, "application/json"], "a=1", &signed(&format!("{URL}a1")));
        assert_eq!(found, Err(Rejection::Twice { name: "content-type" }));
    }

    #[test]
    fn the_fragment_of_a_url_is_not_signed() {
        check(&format!("{URL}#rc=2&ct=500"), FORM, "a=1", &signed(&format!("{URL}a1")), true);
    }
}
