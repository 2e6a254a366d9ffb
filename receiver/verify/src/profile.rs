//! The signing profiles.

use std::fmt;
use std::str::FromStr;

use super::scheme::{self, Scheme};

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
    /// `hmacSignature` in the body, over eight members of it: whatever else is in the body, anybody can change.
    Adyen,
    /// `X-Signature-Ed25519` over timestamp and body, by the application's public key.
    Discord,
    /// HubSpot's v3, over method, [URL](crate::Keys::with_url), body and milliseconds.
    Hubspot,
    /// `X-Line-Signature`.
    Line,
    /// `Linear-Signature`; the time is `webhookTimestamp` in the body.
    Linear,
    /// `X-Hub-Signature-256`, without a delivery id.
    Meta,
    /// `Paddle-Signature: ts=…;h1=…`.
    Paddle,
    /// `PayPal-Transmission-Sig` by RSA over the transmission's id and time, the webhook's id and a CRC-32 of the body.
    Paypal,
    /// `Plaid-Verification`, a JWT by ES256 that has the time and the body's SHA-256, by the key of its `kid`.
    Plaid,
    /// `Signature-Input` and `Signature` over method, [URL](crate::Keys::with_url), `Content-Digest` and more (RFC 9421), by HMAC,
    /// Ed25519 or ECDSA (P-256).
    Rfc9421,
    /// `X-Twilio-Email-Event-Webhook-Signature` over timestamp and body, by the account's public key.
    Sendgrid,
    /// `X-Shopify-Hmac-Sha256`.
    Shopify,
    /// `X-Slack-Signature` over `v0:timestamp:body`.
    Slack,
    /// `X-Square-HmacSha256-Signature` over the [URL](crate::Keys::with_url) and the body.
    Square,
    /// `X-Twilio-Signature` by SHA-1 over the [URL](crate::Keys::with_url) and a form, or the digest of another body.
    Twilio,
    /// `X-Zm-Signature` over `v0:timestamp:body`.
    Zoom,
}

impl Profile {
    /// All profiles, the default first.
    pub const ALL: [Self; 21] = [
        Self::StandardWebhooks,
        Self::VvvTimestamped,
        Self::VvvFrozen,
        Self::Stripe,
        Self::Github,
        Self::Adyen,
        Self::Discord,
        Self::Hubspot,
        Self::Line,
        Self::Linear,
        Self::Meta,
        Self::Paddle,
        Self::Paypal,
        Self::Plaid,
        Self::Rfc9421,
        Self::Sendgrid,
        Self::Shopify,
        Self::Slack,
        Self::Square,
        Self::Twilio,
        Self::Zoom,
    ];

    /// The name on the command line and in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::StandardWebhooks => "standard-webhooks",
            Self::VvvTimestamped => "vvv-timestamped",
            Self::VvvFrozen => "vvv-frozen",
            Self::Stripe => "stripe",
            Self::Github => "github",
            Self::Adyen => "adyen",
            Self::Discord => "discord",
            Self::Hubspot => "hubspot",
            Self::Line => "line",
            Self::Linear => "linear",
            Self::Meta => "meta",
            Self::Paddle => "paddle",
            Self::Paypal => "paypal",
            Self::Plaid => "plaid",
            Self::Rfc9421 => "rfc9421",
            Self::Sendgrid => "sendgrid",
            Self::Shopify => "shopify",
            Self::Slack => "slack",
            Self::Square => "square",
            Self::Twilio => "twilio",
            Self::Zoom => "zoom",
        }
    }

    /// None for profiles with code of their own.
    pub(super) const fn scheme(self) -> Option<&'static Scheme> {
        Some(match self {
            Self::StandardWebhooks
            | Self::VvvFrozen
            | Self::Adyen
            | Self::Paypal
            | Self::Plaid
            | Self::Rfc9421
            | Self::Twilio => return None,
            Self::VvvTimestamped => &scheme::VVV_TIMESTAMPED,
            Self::Stripe => &scheme::STRIPE,
            Self::Github => &scheme::GITHUB,
            Self::Discord => &scheme::DISCORD,
            Self::Hubspot => &scheme::HUBSPOT,
            Self::Line => &scheme::LINE,
            Self::Linear => &scheme::LINEAR,
            Self::Meta => &scheme::META,
            Self::Paddle => &scheme::PADDLE,
            Self::Sendgrid => &scheme::SENDGRID,
            Self::Shopify => &scheme::SHOPIFY,
            Self::Slack => &scheme::SLACK,
            Self::Square => &scheme::SQUARE,
            Self::Zoom => &scheme::ZOOM,
        })
    }

    /// Whether the signature covers the id. Otherwise an eavesdropper can have a delivery processed again
    /// under another id, so use TLS.
    #[must_use]
    pub fn id_is_signed(self) -> bool {
        !matches!(self, Self::VvvFrozen | Self::Paypal)
            && self.scheme().is_none_or(|scheme| !scheme.has_id_header())
    }

    /// Whether the signature covers a time, so that old ones are refused.
    #[must_use]
    pub fn has_timestamp(self) -> bool {
        matches!(self, Self::StandardWebhooks | Self::Plaid | Self::Rfc9421)
            || self.scheme().is_some_and(Scheme::has_timestamp)
    }

    /// Whether the signature covers the URL, which [`crate::Keys::with_url`] tells.
    #[must_use]
    pub fn signs_url(self) -> bool {
        matches!(self, Self::Rfc9421 | Self::Twilio) || self.scheme().is_some_and(Scheme::signs_url)
    }

    /// Whether a [handshake](crate::handshake) is proved by a token, which [`crate::Keys::with_verify_token`] tells.
    #[must_use]
    pub fn has_verify_token(self) -> bool {
        self == Self::Meta
    }

    /// The usual tolerance for timestamps, in seconds.
    #[must_use]
    pub const fn tolerance_seconds(self) -> u32 {
        match self {
            Self::Linear => 60,
            Self::Paddle => 5,
            _ => 300,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_profile_signs_more_parts_than_fit() {
        for scheme in Profile::ALL.into_iter().filter_map(Profile::scheme) {
            assert!(scheme.signed.len() <= scheme::PARTS_MAX, "{}", scheme.signature);
        }
    }
}
