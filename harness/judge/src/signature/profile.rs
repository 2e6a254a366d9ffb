//! The signing profiles: definitions by name, embedded or a user's own.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use serde::de::IgnoredAny;

use super::definition::{Definition, Written};

macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("profiles/", $name, ".toml")))),*]
    };
}

const EMBEDDED: [(&str, &str); 5] =
    embedded!["standard-webhooks", "vvv-timestamped", "vvv-frozen", "stripe", "github"];

static DEFINITIONS: LazyLock<Vec<Definition>> = LazyLock::new(|| {
    let read = |(name, text): (&str, &str)| {
        Definition::parse(name, text).unwrap_or_else(|error| panic!("profiles/{name}.toml: {error}"))
    };
    EMBEDDED.into_iter().map(read).collect()
});

/// Derefs to its definition.
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

    /// Each embedded profile.
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
        let definition = Definition::parse(name, text)?;
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
    fn parse(name: &str, text: &str) -> Result<Self, toml::de::Error> {
        let written: Written<IgnoredAny> = toml::from_str(text)?;
        let definition = Self::read(&written).map_err(serde::de::Error::custom)?;
        Ok(Self { name: name.to_owned(), ..definition })
    }
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
        let found = Self::NAMED.into_iter().find(|(name, _)| *name == text);
        let unknown = || UnknownProfile { given: text.chars().take(64).collect() };
        found.map(|(_, profile)| profile).ok_or_else(unknown)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not a signing profile; expected one of {}", Profile::NAMES.join(", "))]
pub struct UnknownProfile {
    given: String,
}
