//! HTTP Message Signatures (RFC 9421) with a digest of the body (RFC 9530), in the canonical form of structured fields. In this
//! folder a signature is a text of two lines: its `Signature-Input`, and its `Signature` without the last colon.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ring::digest;

use super::definition::{CREATED, Definition, INPUT, LABEL};
use super::forged::by_hmac;
use super::key::{ForeignHash, Key, Secret};
use super::part::Part;
use super::profile::Profile;
use super::verify::{Made, Received, SIGNATURES_MAX, Signing, Wrong, is_canonical, made, one};
use super::{base64, unbase64};

const DIGEST: &str = "content-digest";
const FIELD_BYTES_MAX: usize = 4096;

struct Input<'t> {
    /// As it is signed.
    text: &'t str,
    names: Vec<&'t str>,
    parameters: BTreeMap<&'t str, &'t str>,
}

impl<'t> Input<'t> {
    fn read(text: &'t str) -> Option<Self> {
        let (inside, parameters) = text.strip_prefix('(')?.split_once(')')?;
        let mut names: Vec<&str> = Vec::new();
        for quoted in inside.split(' ').filter(|_| !inside.is_empty()) {
            let name = quoted.strip_prefix('"')?.strip_suffix('"')?;
            let is_right =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"@-_".contains(&byte);
            if name.is_empty() || !name.bytes().all(is_right) || names.contains(&name) {
                return None;
            }
            names.push(name);
        }
        let mut found = BTreeMap::new();
        let mut pieces = outside_quotes(parameters, ';');
        if pieces.next() != Some("") {
            return None;
        }
        for piece in pieces {
            let (name, value) = piece.split_once('=')?;
            let is_quoted = value.len() > 1 && value.starts_with('"') && value.ends_with('"');
            let is_known = match name {
                CREATED | "expires" => is_canonical(value),
                "keyid" | "alg" | "nonce" | "tag" => is_quoted,
                _ => false,
            };
            if !is_known || found.insert(name, value.trim_matches('"')).is_some() {
                return None;
            }
        }
        Some(Self { text, names, parameters: found })
    }

    fn is_of(&self, key: &Key) -> bool {
        let is =
            |parameter: &str, own: &str| self.parameters.get(parameter).is_none_or(|given| *given == own);
        self.parameters.contains_key("keyid") && is("keyid", key.kid()) && is("alg", key.message_algorithm())
    }
}

fn outside_quotes(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    text.split(move |letter| {
        is_quoted ^= letter == '"';
        letter == separator && !is_quoted
    })
}

/// Of a dictionary, by their keys. None if one is there twice.
fn members(text: &str) -> Option<BTreeMap<&str, &str>> {
    let is_right = text.len() <= FIELD_BYTES_MAX && !text.contains('\\');
    let mut found = BTreeMap::new();
    for member in outside_quotes(text, ',').filter(|_| is_right) {
        let (key, value) = member.trim_matches(' ').split_once('=')?;
        if !is_key(key) || found.insert(key, value).is_some() {
            return None;
        }
    }
    (!found.is_empty()).then_some(found)
}

/// RFC 8941, section 3.1.2.
fn is_key(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte);
    text.starts_with(|first: char| first.is_ascii_lowercase() || first == '*') && text.bytes().all(is_inner)
}

fn bytes(value: &str) -> Option<Vec<u8>> {
    unbase64(value.strip_prefix(':')?.strip_suffix(':')?)
}

/// None if it belongs to a response, or needs a parameter.
fn derived<'u>(name: &str, request: &Received<'u>) -> Option<Cow<'u, str>> {
    let (scheme, rest) = request.url.split_once("://").unwrap_or_default();
    let rest = rest.split('#').next().unwrap_or_default();
    let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
    let path = if path.is_empty() { "/" } else { path };
    Some(match name {
        "@method" => request.method.into(),
        "@target-uri" => format!("{scheme}://{authority}{path}{query}").into(),
        "@authority" => {
            let usual = if scheme == "https" { ":443" } else { ":80" };
            authority.strip_suffix(usual).unwrap_or(authority).to_ascii_lowercase().into()
        }
        "@scheme" => scheme.into(),
        "@request-target" => format!("{path}{query}").into(),
        "@path" => path.into(),
        "@query" => if query.is_empty() { "?" } else { query }.into(),
        _ => return None,
    })
}

/// What is signed. `text` is that of the components and parameters; `field` finds a header.
fn base<'r>(
    names: &[&str],
    text: &str,
    request: &Received<'r>,
    field: impl Fn(&str) -> Result<&'r str, Wrong>,
) -> Result<Vec<u8>, Wrong> {
    let mut base = String::new();
    for name in names {
        let value = match name.starts_with('@') {
            true => derived(name, request).ok_or(Wrong::Input)?,
            false => field(name)?.into(),
        };
        base.extend(["\"", name, "\": ", &value, "\n"]);
    }
    base.extend(["\"@signature-params\": ", text]);
    Ok(base.into_bytes())
}

impl Received<'_> {
    /// The time of the first signature.
    pub(super) fn created(&self) -> Option<String> {
        let input = one(INPUT, self.field(INPUT)).ok()?;
        let input = Input::read(members(input)?.into_values().next()?)?;
        input.parameters.get(CREATED).map(|created| (*created).to_owned())
    }

    /// The text of the first signature.
    pub(super) fn message(&self) -> Option<Vec<u8>> {
        let input = one(INPUT, self.field(INPUT)).ok()?;
        let input = Input::read(members(input)?.into_values().next()?)?;
        base(&input.names, input.text, self, |name| one(name, self.field(name))).ok()
    }
}

/// The first component or parameter that a signature has to cover, and this one does not.
fn uncovered(signed: &[Part], has_query: bool) -> Option<&'static str> {
    let has = |part: &Part| signed.contains(part);
    let header = |name: &str| has(&Part::Header(name.to_owned()));
    let has_path = header("@path") && (header("@query") || !has_query);
    let has_target = has(&Part::Url) || header("@authority") && (has_path || header("@request-target"));
    let all = [
        ("@method", has(&Part::Method)),
        ("@target-uri", has_target),
        (DIGEST, has(&Part::Body)),
        (CREATED, has(&Part::Timestamp)),
    ];
    all.into_iter().find(|(_, is_covered)| !is_covered).map(|(name, _)| name)
}

impl Definition {
    pub(super) fn uncovered(&self, has_query: bool) -> Option<&'static str> {
        uncovered(&self.signed, has_query)
    }

    pub(super) fn component(&self, name: &str) -> Part {
        match name {
            "@method" => Part::Method,
            "@target-uri" => Part::Url,
            DIGEST => Part::Body,
            name if self.id.as_deref().is_some_and(|id| id.eq_ignore_ascii_case(name)) => Part::Id,
            name => Part::Header(name.to_owned()),
        }
    }

    /// Whose signature it is comes first, so that the verdict on coverage is one on a signature that holds.
    pub(super) fn judge_message(&self, keys: &[Key], request: &Received<'_>) -> Result<Made, Wrong> {
        let value = |name: &str| one(name, request.field(name));
        let (inputs, signatures) = (members(value(INPUT)?), members(value(&self.header)?));
        let (inputs, signatures) = inputs.zip(signatures).ok_or(Wrong::Input)?;
        if inputs.len() > SIGNATURES_MAX {
            return Err(Wrong::TooMany);
        }
        if !inputs.keys().eq(signatures.keys()) {
            return Err(Wrong::Input);
        }
        let mut signed = Vec::new();
        for (place, (text, signature)) in inputs.values().zip(signatures.values()).enumerate() {
            let input = Input::read(text).ok_or(Wrong::Input)?;
            let base = base(&input.names, text, request, value)?;
            signed.push((input, bytes(signature).ok_or(Wrong::Encoding(place + 1))?, base));
        }
        let made = made(signed.len(), keys.len(), |at, key| {
            let (input, signature, base) = &signed[at];
            input.is_of(&keys[key]) && keys[key].signed(signature, base)
        })?;
        for (input, ..) in &signed {
            let number = |name: &str| input.parameters.get(name).and_then(|text| text.parse::<i64>().ok());
            if number("expires").is_some_and(|end| Some(end) < number(CREATED)) {
                return Err(Wrong::Expired);
            }
            let stamp = input.parameters.get(CREATED).map(|_| Part::Timestamp);
            let parts: Vec<Part> = input.names.iter().map(|name| self.component(name)).chain(stamp).collect();
            let id = self.id.as_deref().filter(|_| !parts.contains(&Part::Id));
            if let Some(name) = uncovered(&parts, request.url.contains('?')).or(id) {
                return Err(Wrong::Uncovered(name.to_owned()));
            }
        }
        let digest = members(value(DIGEST)?).and_then(|digests| bytes(digests.get("sha-256")?));
        let is_right =
            digest.is_some_and(|given| given == digest::digest(&digest::SHA256, request.body).as_ref());
        if is_right { Ok(made) } else { Err(Wrong::ContentDigest) }
    }

    /// The value of the signature's header.
    #[must_use]
    pub fn in_header(&self, signature: &str) -> String {
        signature.rsplit_once('\n').map_or_else(|| signature.to_owned(), |(_, own)| format!("{own}:"))
    }

    /// The values of both headers. Each signature has a label of its own there.
    pub(super) fn dictionaries(&self, signatures: &[String]) -> (String, String) {
        let member = |(place, signature): (usize, &String)| {
            let (input, _) = signature.rsplit_once('\n')?;
            let named = |text: &str| text.replacen(LABEL, &format!("sig{place}="), 1);
            Some((named(input), named(&self.in_header(signature))))
        };
        let (inputs, values): (Vec<_>, Vec<_>) = (1..).zip(signatures).filter_map(member).unzip();
        (inputs.join(", "), values.join(", "))
    }
}

impl Signing<'_> {
    fn components<'d>(&self, profile: &'d Definition) -> Vec<&'d str> {
        let name = |part: &'d Part| match part {
            Part::Method => Some("@method"),
            Part::Url => Some("@target-uri"),
            Part::Body => Some(DIGEST),
            Part::Id => profile.id.as_deref(),
            Part::Header(name) => Some(&**name),
            _ => None,
        };
        profile.signed.iter().filter_map(name).collect()
    }

    /// The first line of a signature.
    pub(super) fn input(&self, profile: &Definition, kid: &str, alg: &str) -> String {
        let names = self.components(profile).iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>();
        let is_dated = profile.signed.contains(&Part::Timestamp) && !self.timestamp.is_empty();
        let created = if is_dated { format!(";{CREATED}={}", self.timestamp) } else { String::new() };
        format!("{LABEL}({}){created};keyid=\"{kid}\";alg=\"{alg}\"", names.join(" "))
    }

    pub(super) fn content_digest(&self) -> String {
        format!("sha-256=:{}:", base64(digest::digest(&digest::SHA256, self.body).as_ref()))
    }

    /// Of an input that it made.
    pub(super) fn message_base(&self, profile: &Definition, input: &str, names: &[&str]) -> Vec<u8> {
        let digest = self.content_digest();
        let kind = str::from_utf8(self.content_type()).unwrap_or_default();
        let written: Vec<_> =
            self.written(profile).chain([(DIGEST, digest.into()), ("content-type", kind.into())]).collect();
        let field = |name: &str| {
            let found = written.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            found.map(|(_, value)| &**value).ok_or(Wrong::Input)
        };
        let received = Received { method: self.method, url: self.url, ..Received::default() };
        let text = input.strip_prefix(LABEL).unwrap_or(input);
        base(names, text, &received, field).unwrap_or_default()
    }

    pub(super) fn message_of(&self, profile: &Definition, secret: &Secret) -> Vec<u8> {
        let input = self.input(profile, &secret.kid(), secret.message_algorithm());
        self.message_base(profile, &input, &self.components(profile))
    }

    /// Each with its description: by another algorithm than that of the key, or over another text.
    pub(super) fn forged_messages(&self, profile: Profile, secret: &Secret) -> Vec<(String, String)> {
        let (kid, own) = (secret.kid(), secret.message_algorithm());
        let names = self.components(&profile);
        let text =
            |input: &str, tag: &[u8]| format!("{input}\n{}{}", profile.signature_prefix(), base64(tag));
        let named = |alg: &str| {
            let input = self.input(&profile, &kid, alg);
            let base = self.message_base(&profile, &input, &names);
            (input, base)
        };
        let algorithms = ["hmac-sha256", "ed25519", "ecdsa-p256-sha256", "rsa-pss-sha512", "none"];
        let mut forged = Vec::new();
        for alg in algorithms.into_iter().filter(|alg| *alg != own) {
            let (input, base) = named(alg);
            forged.push((format!("the right signature as {alg:?}"), text(&input, &secret.tag(&base))));
        }
        let forms = secret.public_forms();
        for alg in [own, "hmac-sha256"].into_iter().take(if forms.is_empty() { 1 } else { 2 }) {
            let (input, base) = named(alg);
            let keyless = text(&input, &secret.foreign_tag(ForeignHash::Keyless, &base));
            forged.push((format!("SHA-256 without the key as {alg:?}"), keyless));
            forged.extend(forms.iter().map(|(form, key)| {
                let label = format!("HMAC-sha256 by the public key's {form} as {alg:?}");
                (label, text(&input, &by_hmac(key, &base)))
            }));
        }
        let (input, _) = named(own);
        let reversed: Vec<&str> = names.iter().rev().copied().collect();
        let base = self.message_base(&profile, &input, &reversed);
        forged.push(("over the components in another order".to_owned(), text(&input, &secret.tag(&base))));
        forged
    }
}
