use std::fmt;
use std::str::FromStr;

use crate::excerpt::Excerpt;
use crate::word_form::word_form;
use hookproof_words::text_form;

text_form!(Profile, "a signing profile, such as \"standard-webhooks\"");

word_form! {
    /// A signing profile.
    pub enum Profile {
        /// Standard Webhooks 1.0: over `id.timestamp.body`, by every key, anew for each attempt.
        StandardWebhooks = "standard-webhooks",
        /// Over `timestamp.body`, in hex, anew for each attempt.
        VvvTimestamped = "vvv-timestamped",
        /// Over the body alone, in hex, once, when the event is emitted: a retry repeats the signature to the byte, so
        /// that an auditor sees one proof for one delivery.
        VvvFrozen = "vvv-frozen",
        /// As Stripe signs: over `timestamp.body`, in hex, by every key, anew for each attempt.
        Stripe = "stripe",
        /// As GitHub signs: over the body alone, in hex.
        Github = "github",
        /// As HubSpot signs (v3): over method, URL, body and milliseconds, in base64, anew for each attempt.
        Hubspot = "hubspot",
        /// As LINE signs: over the body alone, in base64.
        Line = "line",
        /// As Meta signs: as GitHub, without the headers for type and id.
        Meta = "meta",
        /// As Paddle signs: over `timestamp:body`, in hex, anew for each attempt.
        Paddle = "paddle",
        /// As Shopify signs: over the body alone, in base64.
        Shopify = "shopify",
        /// As Slack signs: over `v0:timestamp:body`, in hex, anew for each attempt.
        Slack = "slack",
        /// As Square signs: over URL and body, in base64.
        Square = "square",
        /// As Zoom signs: over `v0:timestamp:body`, in hex, anew for each attempt.
        Zoom = "zoom",
    }
}

/// How a header's value changes on retries. The body never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AcrossRetries {
    /// The same on every attempt.
    Identical,
    /// The value changes with the key.
    IdenticalPerKey,
    /// New for each attempt.
    Fresh,
}

/// The part of a secret that is the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyForm {
    /// The decoded base64.
    Decoded,
    /// The text itself: libraries of these profiles use a secret as it is.
    Text,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SignatureCount {
    /// During a rotation, the old key signs until it retires.
    One,
    /// One for each key, so that the endpoint may know any of them.
    OnePerKey,
}

impl Profile {
    /// The headers in order, and how each changes on retries.
    #[must_use]
    pub const fn headers(self) -> &'static [(&'static str, AcrossRetries)] {
        use AcrossRetries::{Fresh, Identical, IdenticalPerKey};
        match self {
            Self::StandardWebhooks => {
                &[("webhook-id", Identical), ("webhook-timestamp", Fresh), ("webhook-signature", Fresh)]
            }
            Self::VvvTimestamped => &[("x-vvv-timestamp", Fresh), ("x-vvv-signature", Fresh)],
            Self::VvvFrozen => &[
                ("x-vvv-signature", Identical),
                ("x-vvv-event", Identical),
                ("x-vvv-attempt", Fresh),
                ("x-vvv-delivery-id", Identical),
                ("x-vvv-subscriber", Identical),
            ],
            Self::Stripe => &[("stripe-signature", Fresh)],
            Self::Github => &[
                ("x-hub-signature-256", IdenticalPerKey),
                ("x-github-event", Identical),
                ("x-github-delivery", Identical),
            ],
            Self::Hubspot => &[("x-hubspot-request-timestamp", Fresh), ("x-hubspot-signature-v3", Fresh)],
            Self::Line => &[("x-line-signature", IdenticalPerKey)],
            Self::Meta => &[("x-hub-signature-256", IdenticalPerKey)],
            Self::Paddle => &[("paddle-signature", Fresh)],
            Self::Shopify => &[
                ("x-shopify-hmac-sha256", IdenticalPerKey),
                ("x-shopify-topic", Identical),
                ("x-shopify-webhook-id", Identical),
            ],
            Self::Slack => &[("x-slack-request-timestamp", Fresh), ("x-slack-signature", Fresh)],
            Self::Square => &[("x-square-hmacsha256-signature", IdenticalPerKey)],
            Self::Zoom => &[("x-zm-request-timestamp", Fresh), ("x-zm-signature", Fresh)],
        }
    }

    #[must_use]
    pub const fn key_form(self) -> KeyForm {
        match self {
            Self::StandardWebhooks => KeyForm::Decoded,
            _ => KeyForm::Text,
        }
    }

    #[must_use]
    pub const fn signature_count(self) -> SignatureCount {
        match self {
            Self::StandardWebhooks | Self::Stripe => SignatureCount::OnePerKey,
            _ => SignatureCount::One,
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
        found.ok_or_else(|| UnknownProfile { given: Excerpt::of(text) })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given} is not a signing profile; expected one of {}", Profile::ALL.map(Profile::name).join(", "))]
pub struct UnknownProfile {
    given: Excerpt,
}
