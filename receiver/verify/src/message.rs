//! HTTP Message Signatures (RFC 9421) that cover a `Content-Digest` (RFC 9530). RSA is left out.
//!
//! Structured fields are read in their canonical form alone (RFC 8941, section 4.1), which is the text that is signed: one space
//! between components, no escapes, nothing twice. Skipped are signatures with a parameter that this code does not know, as it
//! may restrict them, or a component with parameters (`;req`, `;sf`, `;bs`, `;tr`, `;key`, `;name`).

use p256::ecdsa::signature::Verifier as _;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::headers::{Headers, id, only, value};
use super::keys::{Keys, Named};
use super::scheme::METHOD;
use super::signature::{Tag, decode_base64, fitting_key};
use super::timestamp::{self, UnixSeconds};
use super::url::parts;
use super::{Rejection, Verified, body_id};

const INPUT: &str = "signature-input";
const SIGNATURE: &str = "signature";
const DIGEST: &str = "content-digest";
const ID: &str = "webhook-id";
const FIELD_BYTES_MAX: usize = 4_096;
/// Each signature costs a verification.
const MEMBERS_MAX: usize = 8;
const COMPONENTS_MAX: usize = 32;
const INTEGER_DIGITS_MAX: usize = 15;

const MALFORMED: Rejection = Rejection::Encoding {
    name: SIGNATURE,
    expected: "up to 8 members of up to 4096 characters in canonical form, with the same labels in signature-input, and in \
        standard base64 between colons",
};

struct Input<'a> {
    /// As the signature covers it.
    text: &'a str,
    /// Their names in quotes.
    components: &'a str,
    created: Option<&'a str>,
    expires: Option<&'a str>,
    keyid: &'a str,
    alg: Option<&'a str>,
}

pub(super) fn verify<'a, H: Headers + ?Sized>(
    now: UnixSeconds,
    headers: &'a H,
    body: &'a [u8],
    keys: &Keys,
) -> Result<Verified<'a>, Rejection> {
    let inputs = dictionary(only(headers, INPUT)?, Reader::input).ok_or(MALFORMED)?;
    let signatures = dictionary(only(headers, SIGNATURE)?, Reader::bytes).ok_or(MALFORMED)?;
    if inputs.len() != signatures.len() {
        return Err(MALFORMED);
    }
    let mut refused = Rejection::NoSignature { name: SIGNATURE };
    for (label, input) in &inputs {
        let named = signatures.iter().find(|(other, _)| other == label);
        let (_, signature) = named.ok_or(MALFORMED)?;
        let found = input.as_ref().map_err(|rejection| *rejection);
        match found.and_then(|input| input.verify(now, headers, body, keys, signature)) {
            Ok(verified) => return Ok(verified),
            Err(Rejection::NoSignature { .. }) => {}
            Err(rejection) => refused = rejection,
        }
    }
    Err(refused)
}

impl<'a> Input<'a> {
    /// Nothing unsigned shows: the signature is checked before the time, and the body's digest last.
    fn verify<'h, H: Headers + ?Sized>(
        &self,
        now: UnixSeconds,
        headers: &'h H,
        body: &'h [u8],
        keys: &Keys,
        signature: &str,
    ) -> Result<Verified<'h>, Rejection> {
        let fits = |key: &Named| self.alg.is_none_or(|alg| alg == key.algorithm());
        let mut named = keys.named(self.keyid).filter(|(_, key)| fits(key)).peekable();
        let none = Rejection::NoSignature { name: SIGNATURE };
        named.peek().ok_or(none)?;
        let base = self.base(headers, keys.url())?;
        let mut key = None;
        for (place, named) in named {
            if key.is_none() && signed(named, base.as_bytes(), signature)? {
                key = Some(place);
            }
        }
        let key = key.ok_or(Rejection::Signature)?;
        let signed_at = self.fresh(now, keys)?;
        if !self.covers_enough(keys.url()) {
            return Err(Rejection::Uncovered { name: SIGNATURE });
        }
        check_digest(only(headers, DIGEST)?, body)?;
        let id = if self.covers(ID) { id(headers, ID)?.into() } else { body_id::of(body) };
        Ok(Verified { id, signed_at: Some(signed_at), key })
    }

    fn names(&self) -> impl Iterator<Item = &'a str> {
        self.components.split(' ').map(|name| name.trim_matches('"')).filter(|name| !name.is_empty())
    }

    fn covers(&self, name: &str) -> bool {
        self.names().any(|covered| covered == name)
    }

    fn covers_enough(&self, url: &str) -> bool {
        let path = self.covers("@path") && (self.covers("@query") || !url.contains('?'));
        let target = self.covers("@authority") && (path || self.covers("@request-target"));
        self.covers("@method") && self.covers(DIGEST) && (target || self.covers("@target-uri"))
    }

    fn fresh(&self, now: UnixSeconds, keys: &Keys) -> Result<UnixSeconds, Rejection> {
        let signed_at = timestamp::parse(self.created.unwrap_or_default(), INPUT)?;
        timestamp::check_fresh(now, signed_at, keys.tolerance())?;
        let expires = self.expires.map(|text| timestamp::parse(text, INPUT)).transpose()?;
        match expires.filter(|expires| *expires < now) {
            Some(expires) => Err(Rejection::Old { seconds: now.0.abs_diff(expires.0), tolerance: 0 }),
            None => Ok(signed_at),
        }
    }

    /// The text that is signed (RFC 9421, section 2.5).
    fn base<H: Headers + ?Sized>(&self, headers: &H, url: &str) -> Result<String, Rejection> {
        let mut base = String::with_capacity(2 * FIELD_BYTES_MAX);
        let (url, _) = url.split_once('#').unwrap_or((url, ""));
        let (origin, port, target) = parts(url);
        let (scheme, host) = origin.split_once("://").unwrap_or(("", origin));
        // The usual form (RFC 9110, section 4.2.3), in which clients send to it.
        let is_usual = |name: &str, usual: &str| scheme.eq_ignore_ascii_case(name) && port == usual;
        let port = if is_usual("https", ":443") || is_usual("http", ":80") { "" } else { port };
        let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
        let path = if path.is_empty() { "/" } else { path };
        for name in self.names() {
            base.extend(["\"", name, "\": "]);
            match name {
                "@method" => base.push_str(METHOD),
                "@target-uri" => {
                    push_lower(&mut base, origin);
                    base.extend([port, path, query]);
                }
                "@authority" => {
                    push_lower(&mut base, host);
                    base.push_str(port);
                }
                "@scheme" => push_lower(&mut base, scheme),
                "@request-target" => base.extend([path, query]),
                "@path" => base.push_str(path),
                "@query" => base.push_str(if query.is_empty() { "?" } else { query }),
                derived if derived.starts_with('@') => {
                    return Err(Rejection::NoSignature { name: SIGNATURE });
                }
                ID | DIGEST => base.push_str(only(headers, if name == ID { ID } else { DIGEST })?),
                field => base.push_str(value(headers, field, "of a covered field")?),
            }
            base.push('\n');
        }
        base.extend(["\"@signature-params\": ", self.text]);
        Ok(base)
    }
}

fn push_lower(base: &mut String, text: &str) {
    base.extend(text.chars().map(|letter| letter.to_ascii_lowercase()));
}

/// Of P-256 both numbers, side by side.
pub(super) fn signed(key: &Named, base: &[u8], signature: &str) -> Result<bool, Rejection> {
    let asymmetric = || decode_base64::<64, 88>(signature);
    let found = match key {
        Named::Mac(mac) => Tag::from_base64(signature)
            .map(|tag| fitting_key(std::slice::from_ref(mac), &[base], std::iter::once(tag)).is_some()),
        Named::Ed25519(key) => asymmetric()
            .map(|bytes| key.verify_strict(base, &ed25519_dalek::Signature::from_bytes(&bytes)).is_ok()),
        Named::P256(key) => asymmetric()
            .and_then(|bytes| p256::ecdsa::Signature::from_slice(&bytes).ok())
            .map(|signature| key.verify(base, &signature).is_ok()),
    };
    found.ok_or(MALFORMED)
}

/// Other algorithms beside SHA-256 are ignored.
fn check_digest(text: &str, body: &[u8]) -> Result<(), Rejection> {
    let expected = "up to 8 members in canonical form, of which sha-256 has 32 bytes";
    let members = dictionary(text, Reader::bytes);
    let digest = members.iter().flatten().find(|(name, _)| *name == "sha-256");
    let digest = digest.and_then(|(_, encoded)| decode_base64::<32, 44>(encoded));
    let digest = digest.ok_or(Rejection::Encoding { name: DIGEST, expected })?;
    let is_right: bool = digest.ct_eq(Sha256::digest(body).as_slice()).into();
    if is_right { Ok(()) } else { Err(Rejection::Signature) }
}

struct Reader<'a>(&'a str);

fn dictionary<'a, T>(
    text: &'a str,
    read: impl Fn(&mut Reader<'a>) -> Option<T>,
) -> Option<Vec<(&'a str, T)>> {
    let mut reader = Reader(Some(text).filter(|text| text.len() <= FIELD_BYTES_MAX)?);
    let mut members: Vec<(&str, T)> = Vec::with_capacity(MEMBERS_MAX);
    loop {
        let key = reader.key()?;
        reader.take("=")?;
        if members.len() == MEMBERS_MAX || members.iter().any(|(known, _)| *known == key) {
            return None;
        }
        members.push((key, read(&mut reader)?));
        if reader.0.is_empty() {
            return Some(members);
        }
        reader.take(",")?;
        reader.0 = reader.0.trim_start_matches(' ');
    }
}

impl<'a> Reader<'a> {
    fn take(&mut self, token: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(token)?;
        Some(())
    }

    fn while_in(&mut self, is_in: impl Fn(u8) -> bool) -> &'a str {
        let end = self.0.bytes().position(|byte| !is_in(byte)).unwrap_or(self.0.len());
        let (found, rest) = self.0.split_at(end);
        self.0 = rest;
        found
    }

    fn key(&mut self) -> Option<&'a str> {
        let is_in = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte);
        let key = self.while_in(is_in);
        key.starts_with(|first: char| first.is_ascii_lowercase() || first == '*').then_some(key)
    }

    /// With its escapes.
    fn string(&mut self) -> Option<&'a str> {
        self.take("\"")?;
        let start = self.0;
        loop {
            self.while_in(|byte| !b"\"\\".contains(&byte));
            let text = &start[..start.len() - self.0.len()];
            match self.take("\\") {
                Some(()) => self.0 = self.0.get(1..)?,
                None => return self.take("\"").map(|()| text),
            }
        }
    }

    fn bytes(&mut self) -> Option<&'a str> {
        self.take(":")?;
        let text = self.while_in(|byte| byte != b':');
        self.take(":")?;
        Some(text)
    }

    /// Each with its value, in quotes or not.
    fn parameters(&mut self, mut each: impl FnMut(&'a str, &'a str) -> Option<()>) -> Option<()> {
        while self.take(";").is_some() {
            let (key, before) = (self.key()?, self.0);
            if self.take("=").is_some() && self.0.starts_with('"') {
                self.string()?;
            } else {
                self.while_in(|byte| !b";, )\"".contains(&byte));
            }
            each(key, before[..before.len() - self.0.len()].trim_start_matches('='))?;
        }
        Some(())
    }

    /// A signature that cannot be read, or is not known, spoils no other one.
    fn input(&mut self) -> Option<Result<Input<'a>, Rejection>> {
        let (start, mut is_known, mut is_right, mut count) = (self.0, true, true, 0);
        self.take("(")?;
        let inside = self.0;
        while !self.0.starts_with(')') {
            if count > 0 {
                self.take(" ")?;
            }
            let before = &inside[..inside.len() - self.0.len()];
            let name = self.string()?;
            let is_letter = |byte: u8| byte.is_ascii_graphic() && !byte.is_ascii_uppercase();
            is_known &= !name.is_empty() && name.bytes().all(is_letter);
            self.parameters(|_, _| {
                is_known = false;
                Some(())
            })?;
            count += 1;
            is_right &=
                count <= COMPONENTS_MAX && before.split(' ').all(|other| other.trim_matches('"') != name);
        }
        let components = &inside[..inside.len() - self.0.len()];
        self.take(")")?;
        let mut found: [Option<&str>; KNOWN.len()] = [None; KNOWN.len()];
        self.parameters(|key, value| {
            let Some(at) = KNOWN.iter().position(|known| *known == key) else {
                is_known = false;
                return Some(());
            };
            let quoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
            let value = match at {
                0 | 1 => value.bytes().all(|byte| byte.is_ascii_digit()).then_some(value),
                _ => quoted,
            };
            let fits =
                |value: &&str| if at > 1 { !value.contains('\\') } else { value.len() <= INTEGER_DIGITS_MAX };
            let value = value.filter(fits);
            is_right &= value.is_some() && found[at].is_none();
            found[at] = value;
            Some(())
        })?;
        let [created, expires, keyid, alg, ..] = found;
        let text = &start[..start.len() - self.0.len()];
        Some(match keyid {
            _ if !is_right => Err(MALFORMED),
            Some(keyid) if is_known => Ok(Input { text, components, created, expires, keyid, alg }),
            _ => Err(Rejection::NoSignature { name: SIGNATURE }),
        })
    }
}

/// The last two may be anything.
const KNOWN: [&str; 6] = ["created", "expires", "keyid", "alg", "nonce", "tag"];
