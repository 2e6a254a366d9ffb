//! A signature as data: the keys of a driver file's `[sign]`, of the embedded profiles, and of a user's own profile.

use serde::Deserialize;

use super::handshake::{Handshake, Permission, WrittenHandshake};
use super::part::{IN_BODY, Part, is_name, is_pointer, parts};
use crate::spelling::nearest;

const ALGORITHMS: [(&str, Option<Algorithm>); 10] = [
    ("hmac-sha1", Some(Algorithm::HmacSha1)),
    ("hmac-sha256", Some(Algorithm::HmacSha256)),
    ("hmac-sha512", Some(Algorithm::HmacSha512)),
    ("ed25519", Some(Algorithm::Ed25519)),
    ("ecdsa-p256", Some(Algorithm::EcdsaP256)),
    ("ecdsa-p256-der", Some(Algorithm::EcdsaP256Der)),
    ("jwt-es256", Some(Algorithm::JwtEs256)),
    ("rfc9421", Some(Algorithm::Message)),
    ("rsa-sha256", Some(Algorithm::RsaSha256)),
    ("none", None),
];
const ENCODINGS: [(&str, Encoding); 4] = [
    ("hex", Encoding::Hex),
    ("hex-upper", Encoding::HexUpper),
    ("base64", Encoding::Base64),
    ("base64url", Encoding::Base64Url),
];
const KEYS: [(&str, KeyForm); 6] = [
    ("text", KeyForm::Text),
    ("hex", KeyForm::Hex),
    ("base64", KeyForm::Base64),
    ("whsec", KeyForm::Whsec),
    ("pem", KeyForm::Pem),
    ("jwk", KeyForm::Jwk),
];
/// Of HTTP Message Signatures: the header of components and parameters, the label of ours, and the parameter of the time.
pub(super) const INPUT: &str = "signature-input";
pub(super) const LABEL: &str = "sig1=";
pub(super) const CREATED: &str = "created";
const UNITS: [(&str, Unit); 2] = [("s", Unit::Seconds), ("ms", Unit::Milliseconds)];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Algorithm {
    HmacSha1,
    HmacSha256,
    HmacSha512,
    Ed25519,
    /// With SHA-256; DER, or two numbers of 32 bytes.
    EcdsaP256,
    EcdsaP256Der,
    /// A JWT, whose signature is two numbers of 32 bytes.
    JwtEs256,
    /// An HTTP Message Signature, whose algorithm is that of the key.
    Message,
    /// PKCS#1 v1.5 with SHA-256, 2,048 bits or more.
    RsaSha256,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum KeyForm {
    Text,
    Hex,
    /// With or without a leading `whsec_`.
    Base64,
    /// Standard base64 after `whsec_`, which some libraries omit.
    Whsec,
    Pem,
    /// JSON, with a name.
    Jwk,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Encoding {
    /// In lower case.
    Hex,
    HexUpper,
    /// With padding.
    Base64,
    /// URL-safe, with or without padding.
    Base64Url,
}

/// The unit of a timestamp since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Unit {
    Seconds,
    Milliseconds,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stamp {
    Header(String),
    /// In the signature's header, after this prefix.
    Beside(String),
    /// A member of the body, which is an object in JSON.
    Field(String),
    /// A claim of a token.
    Claim(String),
    /// A parameter of a message's signature.
    Parameter(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Definition {
    pub(super) name: String,
    /// None if the sender does not sign.
    pub(super) algorithm: Option<Algorithm>,
    pub(super) encoding: Encoding,
    pub(super) key: KeyForm,
    pub(super) header: String,
    pub(super) prefix: String,
    /// Separates several values in the header; without it there is one.
    pub(super) separator: Option<String>,
    pub(super) signed: Vec<Part>,
    pub(super) timestamp: Option<Stamp>,
    pub(super) unit: Unit,
    pub(super) id: Option<String>,
    pub(super) attempt: Option<String>,
    pub(super) event_type: Option<String>,
    pub(super) habits: Habits,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Habits {
    pub(super) tolerance_seconds: Option<i64>,
    pub(super) age_only: bool,
    /// Signed once, when the event is emitted: a retry repeats the signature, also after a rotation.
    pub(super) frozen: bool,
    /// One signature, though its header has several values.
    pub(super) single: bool,
    /// The parameter of the URL's query that has the SHA-256 of a body that is no form.
    pub(super) body_digest: Option<String>,
    /// The claim that has the SHA-256 of the body. Then the signature's header has a token.
    pub(super) digest_claim: Option<String>,
    /// The pointer of the signature, if it is in the body.
    pub(super) signature_field: Option<String>,
    pub(super) audience: Option<String>,
    /// The header with the URL of the key.
    pub(super) key_url: Option<String>,
    /// Of the suite's deliveries.
    pub(super) body: Option<String>,
    /// Further headers of each request. `{id}` is its id.
    pub(super) headers: Vec<(String, String)>,
    pub(super) handshake: Option<Handshake>,
    pub(super) permission: Option<Permission>,
    pub(super) digest: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Written<P> {
    pub(super) profile: Option<String>,
    pub(super) header_prefix: Option<String>,
    pub(super) algorithm: Option<String>,
    pub(super) encoding: Option<String>,
    pub(super) key: Option<String>,
    pub public_key: Option<P>,
    pub(super) header: Option<String>,
    pub(super) prefix: Option<String>,
    pub(super) separator: Option<String>,
    pub(super) several: Option<bool>,
    pub(super) signed: Option<Vec<String>>,
    pub(super) signature_field: Option<String>,
    pub(super) audience: Option<String>,
    pub(super) key_url: Option<String>,
    pub(super) body: Option<String>,
    pub(super) body_digest: Option<String>,
    pub(super) timestamp: Option<String>,
    pub(super) timestamp_prefix: Option<String>,
    pub(super) timestamp_field: Option<String>,
    pub(super) timestamp_unit: Option<String>,
    pub(super) tolerance: Option<u32>,
    pub(super) age_only: Option<bool>,
    pub(super) frozen: Option<bool>,
    pub(super) id: Option<String>,
    pub(super) attempt: Option<String>,
    pub(super) r#type: Option<String>,
    pub(super) headers: Option<std::collections::BTreeMap<String, String>>,
    pub(super) handshake: Option<WrittenHandshake>,
}

impl Algorithm {
    /// The judge then knows only the public key.
    pub(super) const fn is_public(self) -> bool {
        self.is_p256() || matches!(self, Self::Ed25519 | Self::RsaSha256)
    }

    const fn may_be_public(self) -> bool {
        self.is_public() || matches!(self, Self::Message)
    }

    pub(super) const fn is_p256(self) -> bool {
        matches!(self, Self::EcdsaP256 | Self::EcdsaP256Der | Self::JwtEs256)
    }

    /// Of a key's text, where that decides.
    pub(super) fn of(self, text: &str) -> Self {
        match (self, text.strip_prefix("whsk_").map(|bare| bare.trim_end_matches('=').len())) {
            // 32 bytes in base64, or 64 with the public key.
            (Self::Message, Some(43 | 86)) => Self::Ed25519,
            (Self::Message, Some(_)) => Self::JwtEs256,
            (Self::Message, None) => Self::HmacSha256,
            _ => self,
        }
    }
}

impl Definition {
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    #[must_use]
    pub fn digest(&self) -> Option<&str> {
        self.habits.digest.as_deref()
    }

    #[must_use]
    pub const fn is_signed(&self) -> bool {
        self.algorithm.is_some()
    }

    #[must_use]
    pub fn is_public(&self) -> bool {
        self.algorithm.is_some_and(Algorithm::is_public)
    }

    #[must_use]
    pub fn signature_header(&self) -> &str {
        &self.header
    }

    /// The header with the URL of the key.
    #[must_use]
    pub fn key_url(&self) -> Option<(&str, &str)> {
        let header = self.habits.key_url.as_deref()?;
        self.habits.headers.iter().find(|(name, _)| name == header).map(|(name, url)| (&**name, &**url))
    }

    /// The signed headers beside those of the id and the time.
    pub fn signed_headers(&self) -> impl Iterator<Item = &str> {
        self.signed.iter().filter_map(|part| if let Part::Header(name) = part { Some(&**name) } else { None })
    }

    /// None if the timestamp is in the signature's header.
    #[must_use]
    pub fn timestamp_header(&self) -> Option<&str> {
        match &self.timestamp {
            Some(Stamp::Header(name)) => Some(name),
            _ => None,
        }
    }

    #[must_use]
    pub fn timestamp_field(&self) -> Option<&str> {
        match &self.timestamp {
            Some(Stamp::Field(name)) => Some(name),
            _ => None,
        }
    }

    #[must_use]
    pub const fn has_timestamp(&self) -> bool {
        self.timestamp.is_some()
    }

    /// Without such a header, only the body's `id` names the delivery.
    #[must_use]
    pub fn id_header(&self) -> Option<&str> {
        self.id.as_deref()
    }

    #[must_use]
    pub fn signs_id(&self) -> bool {
        self.signed.contains(&Part::Id)
    }

    #[must_use]
    pub fn signs_timestamp(&self) -> bool {
        let with_body = self.timestamp_field().is_some() && self.signed.contains(&Part::Body);
        with_body || self.signed.contains(&Part::Timestamp)
    }

    #[must_use]
    pub fn signs_forms(&self) -> bool {
        self.signed.contains(&Part::Form)
    }

    /// The headers of the id and of the event type, where they are not signed.
    #[must_use]
    pub fn unsigned_headers(&self) -> Vec<&str> {
        let event_type = self.event_type.as_deref().filter(|name| {
            !self
                .signed
                .iter()
                .any(|part| matches!(part, Part::Header(other) if other.eq_ignore_ascii_case(name)))
        });
        self.id_header().filter(|_| !self.signs_id()).into_iter().chain(event_type).collect()
    }

    pub(super) fn unwritten_header(&self) -> Option<&str> {
        let own =
            [self.id_header(), self.timestamp_header(), self.event_type.as_deref(), self.attempt.as_deref()];
        let is_written = |name: &str| {
            let constant = self.habits.headers.iter().map(|(one, _)| &**one);
            own.into_iter().flatten().chain(constant).any(|one| one.eq_ignore_ascii_case(name))
        };
        let is_derived = |name: &str| self.is_message() && (name.starts_with('@') || name == "content-type");
        self.signed.iter().find_map(|part| match part {
            Part::Header(name) if !is_written(name) && !is_derived(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Other lists of parts: some left out or empty, without a text in front, or joined by other separators.
    pub(super) fn other_parts(&self) -> Vec<Vec<Part>> {
        let is_value = |part: &Part| !matches!(part, Part::Text(_));
        let signed = &self.signed;
        let (front, rest) = signed.split_at(signed.iter().position(is_value).unwrap_or(signed.len()));
        // Each value with the text behind it.
        let pieces: Vec<&[Part]> = rest.chunk_by(|_, next| !is_value(next)).collect();
        let ends_with_text = signed.last().is_some_and(|last| !is_value(last));
        let some_of = |is_kept: &dyn Fn(usize) -> bool| {
            let kept = (0..pieces.len()).filter(|at| is_kept(*at)).flat_map(|at| pieces[at]);
            let mut parts: Vec<Part> = front.iter().chain(kept).cloned().collect();
            if !ends_with_text && parts.last().is_some_and(|last| !is_value(last)) {
                parts.pop();
            }
            parts
        };
        let places = || 0..pieces.len();
        let runs = places().flat_map(|from| (from..pieces.len()).map(move |to| (from, to)));
        let runs = runs.map(|(from, to)| some_of(&|at| (from..=to).contains(&at)));
        let without_one = places().map(|left_out| some_of(&|at| at != left_out));
        let empty = (0..signed.len())
            .filter(|at| is_value(&signed[*at]))
            .map(|at| [&signed[..at], &signed[at + 1..]].concat());
        let joined = ["", ".", ":", "\n"].map(|separator| {
            let values: Vec<_> =
                rest.iter().filter(|part| is_value(part)).map(std::slice::from_ref).collect();
            let separator: &[Part] = &[Part::Text(separator.to_owned())];
            [front, &values.join(separator)].concat()
        });
        let bare = [rest.to_vec(), vec![Part::Body]];
        let others = runs.chain(without_one).chain(empty).chain(joined).chain(bare);
        others.filter(|parts| parts.iter().any(is_value)).collect()
    }

    #[must_use]
    pub const fn has_several_signatures(&self) -> bool {
        self.separator.is_some() && !self.habits.single
    }

    #[must_use]
    pub const fn is_base64(&self) -> bool {
        matches!(self.encoding, Encoding::Base64 | Encoding::Base64Url)
    }

    #[must_use]
    pub const fn is_url_safe(&self) -> bool {
        matches!(self.encoding, Encoding::Base64Url)
    }

    /// The signature is the last part of a JWT.
    #[must_use]
    pub fn is_token(&self) -> bool {
        self.habits.digest_claim.is_some()
    }

    /// The signature has a header of its own for its components and parameters.
    #[must_use]
    pub fn is_message(&self) -> bool {
        self.algorithm == Some(Algorithm::Message)
    }

    /// The time is a member of JSON, in the body or in a token.
    #[must_use]
    pub const fn has_json_timestamp(&self) -> bool {
        matches!(self.timestamp, Some(Stamp::Field(_) | Stamp::Claim(_)))
    }

    /// A signature is two numbers in DER, of 70 to 72 bytes mostly.
    #[must_use]
    pub fn is_der(&self) -> bool {
        self.algorithm.is_some_and(Algorithm::is_p256) && !self.is_token()
    }

    #[must_use]
    pub fn signature_prefix(&self) -> &str {
        &self.prefix
    }

    #[must_use]
    pub const fn is_frozen(&self) -> bool {
        self.habits.frozen
    }

    #[must_use]
    pub const fn is_age_only(&self) -> bool {
        self.habits.age_only
    }

    #[must_use]
    pub const fn tolerance_seconds(&self) -> Option<i64> {
        self.habits.tolerance_seconds
    }

    #[must_use]
    pub const fn handshake(&self) -> Option<&Handshake> {
        self.habits.handshake.as_ref()
    }

    #[must_use]
    pub const fn permission(&self) -> Option<&Permission> {
        self.habits.permission.as_ref()
    }

    #[must_use]
    pub const fn in_unit(&self, seconds: i64) -> i64 {
        match self.unit {
            Unit::Seconds => seconds,
            Unit::Milliseconds => seconds.saturating_mul(1_000),
        }
    }

    /// Another value comes before or after all.
    #[must_use]
    pub fn with_timestamp(&self, value: &str, timestamp: i64, is_first: bool) -> String {
        let prefix = if let Some(Stamp::Beside(prefix)) = &self.timestamp { prefix } else { "" };
        let separator = self.separator.as_deref().unwrap_or_default();
        if is_first {
            format!("{prefix}{timestamp}{separator}{value}")
        } else {
            format!("{value}{separator}{prefix}{timestamp}")
        }
    }

    /// The literal text beside the signed timestamp, without which the parts have no border.
    #[must_use]
    pub fn border(&self) -> Option<&str> {
        let at = self.signed.iter().position(|part| *part == Part::Timestamp)?;
        match self.signed.get(at + 1) {
            Some(Part::Text(text)) => Some(text),
            _ => None,
        }
    }
}

pub(super) fn only_standard() -> String {
    "header_prefix: expected it only with profile = \"standard-webhooks\"".to_owned()
}

pub(super) fn own<P>(written: &Written<P>, algorithm: &str) -> Result<Definition, String> {
    let algorithm = word("algorithm", algorithm, &ALGORITHMS)?;
    let name = |key: &str, name: &Option<String>| {
        name.as_deref().map(|name| is_name(key, name).map(|()| name.to_owned())).transpose()
    };
    if written.header_prefix.is_some() {
        return Err(only_standard());
    }
    if written.public_key.is_some() && !algorithm.is_some_and(Algorithm::may_be_public) {
        return Err(
            "public_key: expected it only with ed25519, ecdsa-p256, ecdsa-p256-der, jwt-es256, rfc9421 or rsa-sha256"
                .to_owned(),
        );
    }
    let header = signature_header(written, name("header", &written.header)?)?;
    if algorithm == Some(Algorithm::JwtEs256) {
        return token(written, header);
    }
    if algorithm == Some(Algorithm::Message) {
        return message(written);
    }
    let signed = written.signed.iter().flatten().map(|text| parts(text)).collect::<Result<Vec<_>, _>>()?;
    let signed = signed.concat();
    if algorithm.is_some() {
        is_whole(header.as_deref(), &signed)?;
    }
    let timestamp = stamp(written, name("timestamp", &written.timestamp)?)?;
    let id = name("id", &written.id)?;
    if signed.contains(&Part::Timestamp) && timestamp.is_none() {
        return Err(
            "signed: it has {timestamp}; expected as well `timestamp`, its header, `timestamp_prefix`, its prefix in the signature's header, or `timestamp_field`, its member of the body"
                .to_owned(),
        );
    }
    if signed.contains(&Part::Id) && id.is_none() {
        return Err("signed: it has {id}; expected `id` as well, its header".to_owned());
    }
    covers_body(written, algorithm, &signed)?;
    if written.separator.as_deref() == Some("") {
        return Err(
            "separator: it is empty; expected the text between the header's values, such as \",\"".to_owned()
        );
    }
    let or = |given: &Option<String>, default: &str| given.clone().unwrap_or_else(|| default.to_owned());
    Ok(Definition {
        name: String::new(),
        algorithm,
        encoding: word("encoding", &or(&written.encoding, "hex"), &ENCODINGS)?,
        key: key(written, algorithm)?,
        header: header.unwrap_or_default(),
        prefix: written.prefix.clone().unwrap_or_default(),
        separator: written.separator.clone(),
        signed,
        timestamp,
        unit: word("timestamp_unit", &or(&written.timestamp_unit, "s"), &UNITS)?,
        id,
        attempt: name("attempt", &written.attempt)?,
        event_type: name("type", &written.r#type)?,
        habits: habits(written)?,
    })
}

fn is_whole(header: Option<&str>, signed: &[Part]) -> Result<(), String> {
    if header.is_none() {
        return Err(
            "header: it is missing; expected the header of the signature, such as \"X-Signature\", or `signature_field`"
                .to_owned()
        );
    }
    if signed.is_empty() {
        return Err(
            "signed: it is missing; expected the signed parts, such as [\"{timestamp}\", \".\", \"{body}\"]"
                .to_owned(),
        );
    }
    Ok(())
}

fn signature_header<P>(written: &Written<P>, header: Option<String>) -> Result<Option<String>, String> {
    let Some(pointer) = &written.signature_field else { return Ok(header) };
    is_pointer("signature_field", pointer)?;
    if header.is_some() || written.separator.is_some() {
        return Err("signature_field: expected it only without `header` and `separator`".to_owned());
    }
    Ok(Some(IN_BODY.to_owned()))
}

/// Its claims are a time in seconds, and the body's SHA-256 in hexadecimal.
fn token<P>(written: &Written<P>, header: Option<String>) -> Result<Definition, String> {
    let others = [
        ("signed", written.signed.is_some()),
        ("encoding", written.encoding.is_some()),
        ("prefix", written.prefix.is_some()),
        ("separator", written.separator.is_some()),
        ("several", written.several.is_some()),
        ("timestamp", written.timestamp.is_some()),
        ("timestamp_prefix", written.timestamp_prefix.is_some()),
        ("timestamp_unit", written.timestamp_unit.is_some()),
        ("frozen", written.frozen.is_some()),
        ("signature_field", written.signature_field.is_some()),
    ];
    if let Some((key, _)) = others.into_iter().find(|(_, is_given)| *is_given) {
        return Err(format!(
            "{key}: expected it only without jwt-es256, whose claims are `timestamp_field` and `body_digest`"
        ));
    }
    let named = |key: &str, name: &Option<String>| {
        let name =
            name.clone().ok_or_else(|| format!("{key}: it is missing; expected the name of its claim"))?;
        is_name(key, &name).map(|()| name)
    };
    let digest_claim = Some(named("body_digest", &written.body_digest)?);
    let algorithm = Some(Algorithm::JwtEs256);
    let optional = |key: &str, name: &Option<String>| name.as_ref().map(|_| named(key, name)).transpose();
    Ok(Definition {
        name: String::new(),
        algorithm,
        encoding: Encoding::Base64Url,
        key: key(written, algorithm)?,
        header: header.ok_or("header: it is missing; expected the header of the token")?,
        prefix: String::new(),
        separator: None,
        signed: vec![Part::Timestamp, Part::Body],
        timestamp: Some(Stamp::Claim(named("timestamp_field", &written.timestamp_field)?)),
        unit: Unit::Seconds,
        id: optional("id", &written.id)?,
        attempt: optional("attempt", &written.attempt)?,
        event_type: optional("type", &written.r#type)?,
        habits: Habits { body_digest: None, digest_claim, ..habits(written)? },
    })
}

/// Its headers are the standard's. Its key is a shared secret, a private key, or a JWK.
fn message<P>(written: &Written<P>) -> Result<Definition, String> {
    const COVERED: [&str; 5] = ["@method", "@target-uri", "@authority", "content-type", "content-digest"];
    let others = [
        ("header", written.header.is_some()),
        ("encoding", written.encoding.is_some()),
        ("key", written.key.is_some()),
        ("prefix", written.prefix.is_some()),
        ("separator", written.separator.is_some()),
        ("several", written.several.is_some()),
        ("body_digest", written.body_digest.is_some()),
        ("timestamp", written.timestamp.is_some()),
        ("timestamp_prefix", written.timestamp_prefix.is_some()),
        ("timestamp_field", written.timestamp_field.is_some()),
        ("timestamp_unit", written.timestamp_unit.is_some()),
        ("frozen", written.frozen.is_some()),
        ("signature_field", written.signature_field.is_some()),
    ];
    if let Some((key, _)) = others.into_iter().find(|(_, is_given)| *is_given) {
        return Err(format!("{key}: expected it only without rfc9421, which sets it"));
    }
    let optional = |key: &str, name: &Option<String>| {
        name.as_deref().map(|name| is_name(key, name).map(|()| name.to_ascii_lowercase())).transpose()
    };
    let mut definition = Definition {
        name: String::new(),
        algorithm: Some(Algorithm::Message),
        encoding: Encoding::Base64,
        key: KeyForm::Whsec,
        header: "signature".to_owned(),
        prefix: format!("{LABEL}:"),
        separator: None,
        signed: Vec::new(),
        timestamp: Some(Stamp::Parameter(CREATED.to_owned())),
        unit: Unit::Seconds,
        id: optional("id", &written.id)?,
        attempt: optional("attempt", &written.attempt)?,
        event_type: optional("type", &written.r#type)?,
        habits: habits(written)?,
    };
    let usual = || COVERED.map(str::to_owned).into_iter().chain(definition.id.clone()).collect();
    let names: Vec<String> = written.signed.clone().unwrap_or_else(usual);
    for name in &names {
        is_name("signed", name.strip_prefix('@').unwrap_or(name))?;
    }
    let parts = names.iter().map(|name| definition.component(&name.to_ascii_lowercase()));
    definition.signed = parts.chain([Part::Timestamp]).collect();
    match definition.uncovered(false) {
        Some(name) => Err(format!(
            "signed: it lacks {name:?}; expected \"@method\", \"content-digest\", and \"@target-uri\" or \"@authority\" with \"@path\""
        )),
        None => Ok(definition),
    }
}

fn covers_body<P>(written: &Written<P>, algorithm: Option<Algorithm>, signed: &[Part]) -> Result<(), String> {
    let has_url_and_form = signed.contains(&Part::Url) && signed.contains(&Part::Form);
    if written.body_digest.is_some() && !has_url_and_form {
        return Err("body_digest: expected it only with {url} and {form} in `signed`".to_owned());
    }
    if signed.contains(&Part::Audience) && written.audience.is_none() {
        return Err("signed: it has {audience}; expected `audience` as well".to_owned());
    }
    let is_covered =
        written.body_digest.is_some() || signed.contains(&Part::Body) || signed.contains(&Part::Crc32);
    let has_members = signed.iter().any(|part| matches!(part, Part::Member(_)));
    if algorithm.is_some() && !is_covered && !has_members {
        return Err(
            "signed: it lacks {body}, so that the signature would hold for any body; expected {body} in it, {body/POINTER}, or {url} and {form} with `body_digest`"
                .to_owned(),
        );
    }
    if written.signature_field.is_some() && (signed.contains(&Part::Body) || !has_members) {
        return Err(
            "signed: a signature in the body cannot cover itself; expected {body/POINTER} in place of {body}"
                .to_owned(),
        );
    }
    Ok(())
}

fn stamp<P>(written: &Written<P>, header: Option<String>) -> Result<Option<Stamp>, String> {
    let (beside, field) = (written.timestamp_prefix.clone(), written.timestamp_field.clone());
    match (header, beside, field) {
        (header, None, None) => Ok(header.map(Stamp::Header)),
        (None, Some(_), None) if written.separator.is_none() => {
            Err("timestamp_prefix: expected `separator` as well, between the values of the header".to_owned())
        }
        (None, Some(prefix), None) => Ok(Some(Stamp::Beside(prefix))),
        (None, None, Some(field)) => Ok(Some(Stamp::Field(field))),
        _ => Err("timestamp: it is in a header, in the signature's header or in the body; expected one of \
                  `timestamp`, `timestamp_prefix` and `timestamp_field`"
            .to_owned()),
    }
}

fn habits<P>(written: &Written<P>) -> Result<Habits, String> {
    let headers = written.headers.iter().flatten();
    let headers = headers.map(|(name, value)| {
        is_name("headers", name)?;
        Ok((name.clone(), value.clone()))
    });
    let named = |name: &str| is_name("body_digest", name).map(|()| name.to_owned());
    Ok(Habits {
        tolerance_seconds: written.tolerance.map(i64::from),
        age_only: written.age_only.unwrap_or_default(),
        frozen: written.frozen.unwrap_or_default(),
        single: written.several == Some(false),
        body_digest: written.body_digest.as_deref().map(named).transpose()?,
        digest_claim: None,
        signature_field: written.signature_field.clone(),
        audience: written.audience.clone(),
        key_url: written.key_url.clone(),
        body: written.body.clone(),
        headers: headers.collect::<Result<_, String>>()?,
        handshake: None,
        permission: None,
        digest: None,
    })
}

fn key<P>(written: &Written<P>, algorithm: Option<Algorithm>) -> Result<KeyForm, String> {
    let is_public = algorithm.is_some_and(Algorithm::is_public);
    let is_token = algorithm == Some(Algorithm::JwtEs256);
    let usual = if is_token {
        "jwk"
    } else if is_public {
        "pem"
    } else {
        "text"
    };
    let form = word("key", written.key.as_deref().unwrap_or(usual), &KEYS)?;
    match (form, is_public) {
        (form, _) if (form == KeyForm::Jwk) != is_token => {
            Err("key: expected \"jwk\" with jwt-es256, and with no other algorithm".to_owned())
        }
        (KeyForm::Pem, false) => {
            Err("key: expected \"text\", \"hex\", \"base64\" or \"whsec\" for a secret".to_owned())
        }
        (KeyForm::Text | KeyForm::Whsec, true) => {
            Err("key: expected \"pem\", \"hex\" or \"base64\" for a public key".to_owned())
        }
        _ => Ok(form),
    }
}

pub(super) fn word<T: Copy>(key: &str, given: &str, words: &[(&str, T)]) -> Result<T, String> {
    if let Some((_, meaning)) = words.iter().find(|(word, _)| *word == given) {
        return Ok(*meaning);
    }
    let names = || words.iter().map(|(word, _)| *word);
    let hint = nearest(given, names()).map_or(String::new(), |meant| format!("; did you mean {meant:?}?"));
    let all = names().collect::<Vec<_>>().join(", ");
    Err(format!("{key}: expected one of {all}, got {given:?}{hint}"))
}
