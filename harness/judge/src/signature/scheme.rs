//! A sender's scheme: a profile, perhaps with other header names; its own scheme; or no signature.

use std::borrow::Cow;
use std::sync::Arc;

use super::digest::base64;
use super::key::{Key, KeyError};
use super::own::OwnScheme;
use super::profile::Profile;
use super::secret::Secret;
use super::verify::{Seen, Wrong, verify_by};

/// The prefix of the header names of Standard Webhooks.
const STANDARD_PREFIX: &str = "webhook-";

/// Clones are cheap: they share their data.
#[derive(Clone, Debug)]
pub enum Scheme {
    Profile {
        profile: Profile,
        /// Replaces `webhook-` in its header names; in lower case.
        header_prefix: Option<String>,
    },
    /// The sender's own scheme, or none.
    Own(Arc<OwnScheme>),
}

impl From<Profile> for Scheme {
    fn from(profile: Profile) -> Self {
        Self::Profile { profile, header_prefix: None }
    }
}

impl Scheme {
    /// A new secret of these bytes, in the scheme's text form.
    #[must_use]
    pub fn secret_of(&self, bytes: &[u8]) -> String {
        match self {
            Self::Profile { .. } => format!("whsec_{}", base64(bytes)),
            Self::Own(own) => own.secret_of(bytes),
        }
    }

    /// Whether requests carry a signature.
    #[must_use]
    pub fn is_signed(&self) -> bool {
        match self {
            Self::Profile { .. } => true,
            Self::Own(own) => own.is_signed(),
        }
    }

    /// The key of a secret, or of the text of a public key.
    pub fn key(&self, text: &str) -> Result<Key, KeyError> {
        match self {
            Self::Profile { profile, .. } => Ok(Key::from(Secret::parse(*profile, text)?)),
            Self::Own(own) => own.key(text),
        }
    }

    /// Reads a request's headers, and finds the keys that signed the body.
    #[must_use]
    pub fn verify(&self, keys: &[Key], headers: &[(&str, &[u8])], body: &[u8]) -> Seen {
        let (profile, prefix) = match self {
            Self::Own(own) => return own.verify(keys, headers, body),
            Self::Profile { profile, header_prefix } => (*profile, header_prefix.as_deref()),
        };
        let secrets: Vec<&Secret> = keys.iter().filter_map(Key::secret).collect();
        let Some(prefix) = prefix.filter(|prefix| *prefix != STANDARD_PREFIX) else {
            return verify_by(profile, &secrets, headers, body);
        };
        let renamed: Vec<_> =
            headers.iter().map(|(name, value)| (standard_name(name, prefix), *value)).collect();
        let headers: Vec<_> = renamed.iter().map(|(name, value)| (name.as_ref(), *value)).collect();
        let seen = verify_by(profile, &secrets, &headers, body);
        Seen { verdict: seen.verdict.map_err(|wrong| wrong.renaming(STANDARD_PREFIX, prefix)), ..seen }
    }
}

impl Wrong {
    /// The same with the sender's header names.
    fn renaming(self, from: &str, to: &str) -> Self {
        let renamed = |name: Cow<'static, str>| Cow::Owned(name.replacen(from, to, 1));
        match self {
            Self::Missing(name) => Self::Missing(renamed(name)),
            Self::Several(name) => Self::Several(renamed(name)),
            Self::Text(name) => Self::Text(renamed(name)),
            Self::NoSignature(name) => Self::NoSignature(renamed(name)),
            other => other,
        }
    }
}

/// The profile's name of a header, for a sender that uses `prefix` in place of `webhook-`. The sender may
/// also send the standard headers, which are ignored.
fn standard_name<'a>(name: &'a str, prefix: &str) -> Cow<'a, str> {
    let lower = name.to_ascii_lowercase();
    match lower.strip_prefix(prefix) {
        Some(rest) => Cow::Owned(format!("{STANDARD_PREFIX}{rest}")),
        None if lower.starts_with(STANDARD_PREFIX) => Cow::Borrowed("-"),
        None => Cow::Borrowed(name),
    }
}
