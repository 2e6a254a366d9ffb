//! The signing profiles.

use std::fmt;
use std::str::FromStr;

/// The signed content and its headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Profile {
    /// Standard Webhooks 1.0.
    #[default]
    StandardWebhooks,
    /// `X-VVV-Timestamp` and `X-VVV-Signature: sha256=…`, over `timestamp.body`.
    VvvTimestamped,
    /// `X-VVV-Signature` over the body alone, the same for all attempts.
    VvvFrozen,
    /// `Stripe-Signature: t=…,v1=…`.
    Stripe,
    /// `X-Hub-Signature-256`.
    Github,
}

impl Profile {
    /// All profiles, the default first.
    pub const ALL: [Self; 5] =
        [Self::StandardWebhooks, Self::VvvTimestamped, Self::VvvFrozen, Self::Stripe, Self::Github];

    /// The name on the command line and in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::StandardWebhooks => "standard-webhooks",
            Self::VvvTimestamped => "vvv-timestamped",
            Self::VvvFrozen => "vvv-frozen",
            Self::Stripe => "stripe",
            Self::Github => "github",
        }
    }

    /// Whether the signature covers the id. Otherwise an eavesdropper can have a delivery processed again
    /// under another id, so use TLS.
    #[must_use]
    pub const fn id_is_signed(self) -> bool {
        match self {
            Self::StandardWebhooks | Self::VvvTimestamped | Self::Stripe => true,
            Self::VvvFrozen | Self::Github => false,
        }
    }

    /// Whether the signature covers a time, so that old ones are refused.
    #[must_use]
    pub const fn has_timestamp(self) -> bool {
        match self {
            Self::StandardWebhooks | Self::VvvTimestamped | Self::Stripe => true,
            Self::VvvFrozen | Self::Github => false,
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(text: &str) -> Result<Self, UnknownProfile> {
        let found = Self::ALL.into_iter().find(|profile| profile.name() == text);
        found.ok_or_else(|| UnknownProfile { given: text.chars().take(40).collect() })
    }
}

/// The name is not a profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not a signing profile; expected one of {}", Profile::ALL.map(Profile::name).join(", "))]
pub struct UnknownProfile {
    given: String,
}
