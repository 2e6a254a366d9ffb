//! The ways to sign that can be verified.

use std::fmt;
use std::str::FromStr;

/// A way to sign: what is signed, and in which headers it comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Profile {
    /// Standard Webhooks 1.0.
    #[default]
    StandardWebhooks,
    /// `X-VVV-Timestamp` and `X-VVV-Signature: sha256=…`, over `timestamp.body`.
    VvvTimestamped,
    /// `X-VVV-Signature` over the body alone, made once for all attempts.
    VvvFrozen,
    /// `Stripe-Signature: t=…,v1=…`.
    Stripe,
    /// `X-Hub-Signature-256`.
    Github,
}

impl Profile {
    /// All of them, the default first.
    pub const ALL: [Self; 5] =
        [Self::StandardWebhooks, Self::VvvTimestamped, Self::VvvFrozen, Self::Stripe, Self::Github];

    /// Its name on the command line and in files.
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

    /// Whether the signature covers the delivery's id. Where it does not, whoever has overheard one delivery can have
    /// it processed again under another id: let nobody overhear, which is to say, use TLS.
    #[must_use]
    pub const fn id_is_signed(self) -> bool {
        match self {
            Self::StandardWebhooks | Self::VvvTimestamped | Self::Stripe => true,
            Self::VvvFrozen | Self::Github => false,
        }
    }

    /// Whether the signature says when it was made, so that an old one can be refused.
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

/// A name that no profile has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is no signing profile; expected one of {}", Profile::ALL.map(Profile::name).join(", "))]
pub struct UnknownProfile {
    given: String,
}
