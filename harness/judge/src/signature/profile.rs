//! The signing profiles and their headers.

use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Profile {
    /// Standard Webhooks 1.0: base64 over `id.timestamp.body`, several signatures.
    StandardWebhooks,
    /// Hex over `timestamp.body`, after `sha256=`.
    VvvTimestamped,
    /// Hex over the body alone, made once.
    VvvFrozen,
    /// Stripe: hex over `timestamp.body`, timestamp and signatures in one header.
    Stripe,
    /// GitHub: hex over the body alone, after `sha256=`.
    Github,
}

impl Profile {
    pub const ALL: [Self; 5] =
        [Self::StandardWebhooks, Self::VvvTimestamped, Self::VvvFrozen, Self::Stripe, Self::Github];

    pub const NAMES: [&str; Self::ALL.len()] = {
        let mut names = [""; Self::ALL.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = Self::ALL[at].name();
            at += 1;
        }
        names
    };

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

    #[must_use]
    pub const fn signature_header(self) -> &'static str {
        match self {
            Self::StandardWebhooks => "webhook-signature",
            Self::VvvTimestamped | Self::VvvFrozen => "x-vvv-signature",
            Self::Stripe => "stripe-signature",
            Self::Github => "x-hub-signature-256",
        }
    }

    /// None for Stripe, which puts the timestamp into the signature's header.
    #[must_use]
    pub const fn timestamp_header(self) -> Option<&'static str> {
        match self {
            Self::StandardWebhooks => Some("webhook-timestamp"),
            Self::VvvTimestamped => Some("x-vvv-timestamp"),
            Self::VvvFrozen | Self::Stripe | Self::Github => None,
        }
    }

    /// Without such a header, only the body's `id` names the delivery.
    #[must_use]
    pub const fn id_header(self) -> Option<&'static str> {
        match self {
            Self::StandardWebhooks => Some("webhook-id"),
            Self::VvvFrozen => Some("x-vvv-delivery-id"),
            Self::Github => Some("x-github-delivery"),
            Self::VvvTimestamped | Self::Stripe => None,
        }
    }

    #[must_use]
    pub const fn type_header(self) -> Option<&'static str> {
        match self {
            Self::VvvFrozen => Some("x-vvv-event"),
            Self::Github => Some("x-github-event"),
            Self::StandardWebhooks | Self::VvvTimestamped | Self::Stripe => None,
        }
    }

    #[must_use]
    pub const fn attempt_header(self) -> Option<&'static str> {
        match self {
            Self::VvvFrozen => Some("x-vvv-attempt"),
            _ => None,
        }
    }

    #[must_use]
    pub const fn signs_id(self) -> bool {
        matches!(self, Self::StandardWebhooks)
    }

    #[must_use]
    pub const fn signs_timestamp(self) -> bool {
        matches!(self, Self::StandardWebhooks | Self::VvvTimestamped | Self::Stripe)
    }

    /// Whether an attempt can carry several signatures.
    #[must_use]
    pub const fn has_several_signatures(self) -> bool {
        matches!(self, Self::StandardWebhooks | Self::Stripe)
    }

    /// Base64 or hexadecimal.
    #[must_use]
    pub const fn is_base64(self) -> bool {
        matches!(self, Self::StandardWebhooks)
    }

    #[must_use]
    pub const fn signature_prefix(self) -> &'static str {
        match self {
            Self::StandardWebhooks => "v1,",
            Self::VvvTimestamped | Self::Github => "sha256=",
            Self::VvvFrozen => "",
            Self::Stripe => "v1=",
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
        found.ok_or_else(|| UnknownProfile { given: text.chars().take(64).collect() })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not a signing profile; expected one of {}", Profile::NAMES.join(", "))]
pub struct UnknownProfile {
    given: String,
}
