//! The signing profiles: definitions by name, embedded or a user's own.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use serde::de::IgnoredAny;

use super::definition::{Definition, Stamp, Written, only_standard, own, word};
use super::handshake::ORIGIN;
use super::part::is_name;
use super::sha256_hex;

macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("profiles/", $name, ".toml")))),*]
    };
}

/// The standard's prefix of header names, which `header_prefix` replaces.
const STANDARD_PREFIX: &str = "webhook-";

const EMBEDDED: [(&str, &str); 21] = embedded![
    "standard-webhooks",
    "vvv-timestamped",
    "vvv-frozen",
    "stripe",
    "github",
    "adyen",
    "discord",
    "hubspot",
    "line",
    "linear",
    "meta",
    "paddle",
    "paypal",
    "plaid",
    "rfc9421",
    "sendgrid",
    "shopify",
    "slack",
    "square",
    "twilio",
    "zoom",
];

/// Of the suite alone.
const OF_SUITE: [(&str, &str); 1] = embedded!["cloudevents"];

static DEFINITIONS: LazyLock<Vec<Definition>> = LazyLock::new(|| {
    let read = |(name, text): (&str, &str)| {
        Definition::parse(name, text).unwrap_or_else(|error| panic!("profiles/{name}.toml: {error}"))
    };
    EMBEDDED.into_iter().chain(OF_SUITE).map(read).collect()
});

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Profile(Source);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Source {
    Embedded(usize),
    /// Lives as long as the process, as the run that it is read for.
    Own(&'static Definition),
}

impl Profile {
    pub const STANDARD_WEBHOOKS: Self = Self::ALL[0];
    pub const VVV_TIMESTAMPED: Self = Self::ALL[1];
    pub const VVV_FROZEN: Self = Self::ALL[2];
    pub const STRIPE: Self = Self::ALL[3];
    pub const GITHUB: Self = Self::ALL[4];

    pub const ALL: [Self; EMBEDDED.len()] = {
        let mut all = [Self(Source::Embedded(0)); EMBEDDED.len()];
        let mut at = 0;
        while at < all.len() {
            all[at] = Self(Source::Embedded(at));
            at += 1;
        }
        all
    };

    pub const NAMES: [&str; EMBEDDED.len()] = {
        let mut names = [""; EMBEDDED.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = EMBEDDED[at].0;
            at += 1;
        }
        names
    };

    pub fn names() -> impl Iterator<Item = &'static str> {
        EMBEDDED.into_iter().chain(OF_SUITE).map(|(name, _)| name)
    }

    pub const NAMED: [(&str, Self); EMBEDDED.len()] = {
        let mut named = [("", Self::ALL[0]); EMBEDDED.len()];
        let mut at = 0;
        while at < named.len() {
            named[at] = (Self::NAMES[at], Self::ALL[at]);
            at += 1;
        }
        named
    };

    /// A user's own; `name` stands for it in reports.
    pub fn parse(name: &str, text: &str) -> Result<Self, toml::de::Error> {
        let mut definition = Definition::parse(name, text)?;
        definition.habits.digest = Some(sha256_hex(text.as_bytes()));
        if let Some(absent) = definition.unwritten_header() {
            let wrong = if absent.eq_ignore_ascii_case(definition.signature_header()) {
                format!(
                    "signed: it has {{header.{absent}}}, and a signature cannot cover itself; leave it out"
                )
            } else {
                format!("signed: it has {{header.{absent}}}; expected {absent} in `headers` as well")
            };
            return Err(serde::de::Error::custom(wrong));
        }
        definition.check_template().map_err(serde::de::Error::custom)?;
        if definition.habits.key_url.is_some() && definition.key_url().is_none() {
            return Err(serde::de::Error::custom("key_url: expected the header in `headers` as well"));
        }
        if definition.algorithm.is_none() {
            let wrong = "algorithm: expected one with which the suite can sign";
            return Err(serde::de::Error::custom(wrong));
        }
        Ok(Self(Source::Own(Box::leak(Box::new(definition)))))
    }

    #[must_use]
    pub fn definition(self) -> &'static Definition {
        match self.0 {
            Source::Embedded(at) => &DEFINITIONS[at],
            Source::Own(definition) => definition,
        }
    }
}

impl Definition {
    #[must_use]
    pub fn header_prefix(&self) -> Option<&str> {
        let prefix = self.header.strip_suffix("signature")?;
        (self.name == Profile::NAMES[0] && prefix != STANDARD_PREFIX).then_some(prefix)
    }

    /// Checks the keys. The error begins with the key that it is about.
    pub fn read<P>(written: &Written<P>) -> Result<Self, String> {
        if written.handshake.is_some() {
            return Err("handshake: expected it only in a profile for `hookproof receiver`".to_owned());
        }
        let both = "there are both `profile` and `algorithm`; expected one of them";
        let neither = "there is neither `profile` nor `algorithm`; expected one of them";
        match (&written.profile, &written.algorithm) {
            (Some(_), Some(_)) => Err(format!("algorithm: {both}")),
            (None, None) => Err(format!("algorithm: {neither}")),
            (Some(profile), None) => of_profile(written, profile),
            (None, Some(algorithm)) => own(written, algorithm),
        }
    }

    fn parse(name: &str, text: &str) -> Result<Self, toml::de::Error> {
        let mut written: Written<IgnoredAny> = toml::from_str(text)?;
        let handshake = written.handshake.take();
        let mut definition = Self::read(&written).map_err(serde::de::Error::custom)?;
        if let Some(handshake) = handshake {
            if let Some(permission) = handshake.permission().map_err(serde::de::Error::custom)? {
                definition.habits.headers.push((ORIGIN.to_owned(), permission.origin.clone()));
                definition.habits.permission = Some(permission);
            }
            if handshake.has_challenge() {
                let has_secret = !definition.is_public();
                let handshake = handshake.read(has_secret).map_err(serde::de::Error::custom)?;
                definition.habits.handshake = Some(handshake);
            }
        }
        Ok(Self { name: name.to_owned(), ..definition })
    }
}

fn of_profile<P>(written: &Written<P>, given: &str) -> Result<Definition, String> {
    let profile = word("profile", given, &Profile::NAMED)?;
    let texts = [
        ("encoding", &written.encoding),
        ("key", &written.key),
        ("header", &written.header),
        ("prefix", &written.prefix),
        ("separator", &written.separator),
        ("signature_field", &written.signature_field),
        ("audience", &written.audience),
        ("key_url", &written.key_url),
        ("body", &written.body),
        ("body_digest", &written.body_digest),
        ("timestamp", &written.timestamp),
        ("timestamp_prefix", &written.timestamp_prefix),
        ("timestamp_field", &written.timestamp_field),
        ("timestamp_unit", &written.timestamp_unit),
        ("id", &written.id),
        ("attempt", &written.attempt),
        ("type", &written.r#type),
    ];
    let others = [
        ("signed", written.signed.is_some()),
        ("public_key", written.public_key.is_some() && !profile.is_public() && !profile.is_message()),
        ("tolerance", written.tolerance.is_some()),
        ("several", written.several.is_some()),
        ("age_only", written.age_only.is_some()),
        ("frozen", written.frozen.is_some()),
        ("headers", written.headers.is_some()),
    ];
    let mut given = texts.map(|(key, value)| (key, value.is_some())).into_iter().chain(others);
    if let Some((key, _)) = given.find(|(_, is_given)| *is_given) {
        return Err(format!("{key}: the profile sets it; expected it only with an algorithm"));
    }
    let mut definition = profile.definition().clone();
    let Some(prefix) = written.header_prefix.as_deref() else { return Ok(definition) };
    is_name("header_prefix", prefix)?;
    if profile != Profile::STANDARD_WEBHOOKS {
        return Err(only_standard());
    }
    let Definition { header, timestamp, id, .. } = &mut definition;
    let stamp =
        timestamp.as_mut().and_then(|stamp| if let Stamp::Header(name) = stamp { Some(name) } else { None });
    for name in [Some(header), stamp, id.as_mut()].into_iter().flatten() {
        *name = name.replacen(STANDARD_PREFIX, &prefix.to_ascii_lowercase(), 1);
    }
    Ok(definition)
}

impl Deref for Profile {
    type Target = Definition;

    fn deref(&self) -> &Definition {
        self.definition()
    }
}

impl From<Profile> for Arc<Definition> {
    fn from(profile: Profile) -> Self {
        Self::new(profile.definition().clone())
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Profile({})", self.name())
    }
}

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(text: &str) -> Result<Self, UnknownProfile> {
        let found = Self::names().position(|name| name == text);
        let unknown = || UnknownProfile { given: text.chars().take(64).collect() };
        found.map(|at| Self(Source::Embedded(at))).ok_or_else(unknown)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not a signing profile; expected one of {}", Profile::names().collect::<Vec<_>>().join(", "))]
pub struct UnknownProfile {
    given: String,
}
