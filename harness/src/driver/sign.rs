//! `[sign]`: the sender's signatures, unless as each subscriber of the scenario wants.

use std::sync::Arc;

use hookproof_judge::scenario::nearest;
use hookproof_judge::signature::{
    Algorithm, Encoding, KeyForm, OwnScheme, Part, Profile, Scheme, Stamp, Unit,
};
use hookproof_judge::trace::Signs;
use serde::Deserialize;

use super::template::Template;

const ALGORITHMS: [(&str, Option<Algorithm>); 7] = [
    ("hmac-sha1", Some(Algorithm::HmacSha1)),
    ("hmac-sha256", Some(Algorithm::HmacSha256)),
    ("hmac-sha512", Some(Algorithm::HmacSha512)),
    ("ed25519", Some(Algorithm::Ed25519)),
    ("ecdsa-p256", Some(Algorithm::EcdsaP256)),
    ("rsa-sha256", Some(Algorithm::RsaSha256)),
    ("none", None),
];
const ENCODINGS: [(&str, Encoding); 3] =
    [("hex", Encoding::Hex), ("base64", Encoding::Base64), ("base64url", Encoding::Base64Url)];
const KEYS: [(&str, KeyForm); 4] =
    [("text", KeyForm::Text), ("hex", KeyForm::Hex), ("base64", KeyForm::Base64), ("pem", KeyForm::Pem)];
const UNITS: [(&str, Unit); 2] = [("s", Unit::Seconds), ("ms", Unit::Milliseconds)];

/// How a sender signs.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Written")]
pub struct Sign {
    /// The scheme.
    pub scheme: Scheme,
    /// The sender's public key, if no call saves it as `secret`.
    pub public_key: Option<Template>,
}

/// The keys of a profile, or of an own signature.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    profile: Option<String>,
    header_prefix: Option<String>,
    algorithm: Option<String>,
    encoding: Option<String>,
    key: Option<String>,
    public_key: Option<Template>,
    header: Option<String>,
    prefix: Option<String>,
    separator: Option<String>,
    signed: Option<Vec<String>>,
    timestamp: Option<String>,
    timestamp_prefix: Option<String>,
    timestamp_unit: Option<String>,
    id: Option<String>,
    attempt: Option<String>,
}

impl Sign {
    pub(super) fn declared(&self) -> Signs {
        match &self.scheme {
            Scheme::Profile { profile, .. } => Signs::Profile(profile.name().to_owned()),
            Scheme::Own(own) => Signs::Own {
                signature: own.is_signed(),
                timestamp: own.timestamp.is_some(),
                id: own.id.is_some(),
                signs_timestamp: own.signed.contains(&Part::Timestamp),
            },
        }
    }

    /// Whether the key must come from a call.
    pub(super) fn needs_key(&self) -> bool {
        let Scheme::Own(own) = &self.scheme else { return false };
        own.algorithm.is_some_and(Algorithm::is_public) && self.public_key.is_none()
    }
}

impl TryFrom<Written> for Sign {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match (&written.profile, &written.algorithm) {
            (Some(_), Some(_)) => {
                Err("sign has both a profile and an algorithm; expected one of them".to_owned())
            }
            (None, None) => {
                Err("sign has neither a profile nor an algorithm; expected one of them".to_owned())
            }
            (Some(_), None) => of_profile(&written),
            (None, Some(algorithm)) => {
                let algorithm = word("algorithm", algorithm, &ALGORITHMS)?;
                let own = own(&written, algorithm)?;
                if written.public_key.is_some() && !own.algorithm.is_some_and(Algorithm::is_public) {
                    return Err(
                        "sign.public_key: expected it only with ed25519, ecdsa-p256 or rsa-sha256".to_owned()
                    );
                }
                Ok(Self { scheme: Scheme::Own(Arc::new(own)), public_key: written.public_key })
            }
        }
    }
}

fn of_profile(written: &Written) -> Result<Sign, String> {
    let given = written.profile.as_deref().unwrap_or_default();
    let profile = word("profile", given, &Profile::ALL.map(|profile| (profile.name(), profile)))?;
    let header_prefix = written.header_prefix.as_deref().map(str::to_ascii_lowercase);
    let own = [
        ("encoding", &written.encoding),
        ("key", &written.key),
        ("header", &written.header),
        ("prefix", &written.prefix),
        ("separator", &written.separator),
        ("timestamp", &written.timestamp),
        ("timestamp_prefix", &written.timestamp_prefix),
        ("timestamp_unit", &written.timestamp_unit),
        ("id", &written.id),
        ("attempt", &written.attempt),
    ];
    let more = own.into_iter().find(|(_, value)| value.is_some()).map(|(name, _)| name);
    let more = more.or(written.signed.as_ref().map(|_| "signed"));
    if let Some(name) = more.or(written.public_key.as_ref().map(|_| "public_key")) {
        return Err(format!("sign.{name}: the profile sets it; expected it only with an algorithm"));
    }
    if let Some(prefix) = &header_prefix {
        is_name("header_prefix", prefix)?;
        if profile != Profile::StandardWebhooks {
            return Err(
                "sign.header_prefix: expected it only with profile = \"standard-webhooks\"".to_owned()
            );
        }
    }
    Ok(Sign { scheme: Scheme::Profile { profile, header_prefix }, public_key: None })
}

fn own(written: &Written, algorithm: Option<Algorithm>) -> Result<OwnScheme, String> {
    let name = |key: &str, name: &Option<String>| {
        name.as_deref().map(|name| is_name(key, name).map(|()| name.to_owned())).transpose()
    };
    if written.header_prefix.is_some() {
        return Err("sign.header_prefix: expected it only with profile = \"standard-webhooks\"".to_owned());
    }
    let header = name("header", &written.header)?;
    let signed = written.signed.iter().flatten().map(|text| parts(text)).collect::<Result<Vec<_>, _>>()?;
    let signed = signed.concat();
    if algorithm.is_some() && (header.is_none() || signed.is_empty()) {
        return Err("sign: an algorithm needs `header`, the header of the signature, and `signed`, the signed parts, such as [\"{timestamp}\", \".\", \"{body}\"]"
            .to_owned());
    }
    let stamp = match (name("timestamp", &written.timestamp)?, &written.timestamp_prefix) {
        (Some(_), Some(_)) => {
            return Err(
                "sign: the timestamp has its own header or is in the signature's; expected one of `timestamp` \
                 and `timestamp_prefix`"
                    .to_owned(),
            );
        }
        (Some(header), None) => Some(Stamp::Header(header)),
        (None, Some(_)) if written.separator.is_none() => {
            return Err(
                "sign.timestamp_prefix: expected `separator` as well, between the values of the header"
                    .to_owned(),
            );
        }
        (None, beside) => beside.clone().map(Stamp::Beside),
    };
    let id = name("id", &written.id)?;
    for (part, there, key) in
        [(Part::Timestamp, stamp.is_some(), "timestamp"), (Part::Id, id.is_some(), "id")]
    {
        if signed.contains(&part) && !there {
            return Err(format!("sign.signed has {{{key}}}; expected sign.{key} as well, its header"));
        }
    }
    if written.separator.as_deref() == Some("") {
        return Err("sign.separator is empty; expected the separator of the header's values, such as \",\""
            .to_owned());
    }
    let or = |given: &Option<String>, default: &str| given.clone().unwrap_or_else(|| default.to_owned());
    Ok(OwnScheme {
        algorithm,
        encoding: word("encoding", &or(&written.encoding, "hex"), &ENCODINGS)?,
        key: key(written, algorithm)?,
        header: header.unwrap_or_default(),
        prefix: written.prefix.clone().unwrap_or_default(),
        separator: written.separator.clone(),
        signed,
        timestamp: stamp,
        unit: word("timestamp_unit", &or(&written.timestamp_unit, "s"), &UNITS)?,
        id,
        attempt: name("attempt", &written.attempt)?,
    })
}

fn key(written: &Written, algorithm: Option<Algorithm>) -> Result<KeyForm, String> {
    let is_public = algorithm.is_some_and(Algorithm::is_public);
    let usual = if is_public { "pem" } else { "text" };
    let form = word("key", written.key.as_deref().unwrap_or(usual), &KEYS)?;
    match (form, is_public) {
        (KeyForm::Pem, false) => {
            Err("sign.key: expected \"text\", \"hex\" or \"base64\" for a secret".to_owned())
        }
        (KeyForm::Text, true) => {
            Err("sign.key: expected \"pem\", \"hex\" or \"base64\" for a public key".to_owned())
        }
        _ => Ok(form),
    }
}

fn word<T: Copy>(key: &str, given: &str, words: &[(&'static str, T)]) -> Result<T, String> {
    if let Some((_, meaning)) = words.iter().find(|(word, _)| *word == given) {
        return Ok(*meaning);
    }
    let names = || words.iter().map(|(word, _)| *word);
    let hint = nearest(given, names()).map_or(String::new(), |meant| format!("; did you mean {meant:?}?"));
    let all = names().collect::<Vec<_>>().join(", ");
    Err(format!("sign.{key}: expected one of {all}, got {given:?}{hint}"))
}

/// Parses texts such as `{timestamp}.{body}`.
fn parts(text: &str) -> Result<Vec<Part>, String> {
    const KNOWN: [&str; 4] = ["id", "timestamp", "body", "header.NAME"];
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some((before, after)) = rest.split_once('{') {
        let wrong = |hint: String| {
            format!(
                "sign.signed: {text:?} is not understood; expected {{id}}, {{timestamp}}, {{body}}, {{header.NAME}}, or a text without braces{hint}"
            )
        };
        let (name, after) = after.split_once('}').ok_or_else(|| wrong(String::new()))?;
        if !before.is_empty() {
            parts.push(Part::Text(before.to_owned()));
        }
        parts.push(match name {
            "id" => Part::Id,
            "timestamp" => Part::Timestamp,
            "body" => Part::Body,
            _ => match name.strip_prefix("header.") {
                Some(header) => {
                    is_name("signed", header)?;
                    Part::Header(header.to_owned())
                }
                None => {
                    let meant = nearest(name, KNOWN);
                    return Err(wrong(
                        meant.map_or(String::new(), |meant| format!("; did you mean {{{meant}}}?")),
                    ));
                }
            },
        });
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest.to_owned()));
    }
    Ok(parts)
}

fn is_name(key: &str, text: &str) -> Result<(), String> {
    let is_right = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if !text.is_empty() && text.bytes().all(is_right) {
        return Ok(());
    }
    Err(format!("sign.{key}: {text:?} is not a header name; expected letters, digits and hyphens"))
}
