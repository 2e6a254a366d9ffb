use std::fmt;
use std::str::FromStr;

use crate::engine::time::Nanos;
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
        /// CloudEvents 1.0 in binary mode, signed as Standard Webhooks. It needs the source of the events in
        /// `headers`: `Ce-Source: /orders`.
        Cloudevents = "cloudevents",
        /// As Discord signs: over timestamp and body, in hex, by Ed25519, anew for each attempt. The secret is the private
        /// key, `whsk_` and base64; `subscriber show` prints the public one, for the receiver.
        Discord = "discord",
        /// As HubSpot signs (v3): over method, URL, body and milliseconds, in base64, anew for each attempt.
        Hubspot = "hubspot",
        /// As LINE signs: over the body alone, in base64.
        Line = "line",
        /// As Meta signs: as GitHub, without the headers for type and id.
        Meta = "meta",
        /// As Paddle signs: over `timestamp:body`, in hex, anew for each attempt.
        Paddle = "paddle",
        /// As Plaid signs: by a JWT (ES256) that has the time and the body's SHA-256, anew for each attempt. The secret is the
        /// private key, `whsk_` and base64; `subscriber show` prints the public one, a JWK, for the receiver.
        Plaid = "plaid",
        /// HTTP Message Signatures (RFC 9421): over method, URL, content type, the body's digest (RFC 9530) and id, anew for each
        /// attempt. The secret is one as new ones are (HMAC-SHA256), or a private key after `whsk_`: base64 of 32 bytes (Ed25519) or
        /// of PKCS #8 (ECDSA, P-256), of which `subscriber show` prints the public one, a JWK. RSA is left out.
        Rfc9421 = "rfc9421",
        /// As SendGrid signs: over timestamp and body, in base64, by ECDSA (P-256), anew for each attempt. The secret is the
        /// private key, `whsk_` and base64; `subscriber show` prints the public one, for the receiver.
        Sendgrid = "sendgrid",
        /// As Shopify signs: over the body alone, in base64.
        Shopify = "shopify",
        /// As Slack signs: over `v0:timestamp:body`, in hex, anew for each attempt.
        Slack = "slack",
        /// As Square signs: over URL and body, in base64.
        Square = "square",
        /// As Twilio signs JSON: over the URL, whose query ends with the body's digest (`bodySHA256`), by SHA-1, in base64.
        Twilio = "twilio",
        /// As Zoom signs: over `v0:timestamp:body`, in hex, anew for each attempt.
        Zoom = "zoom",
    }
}

/// The part of a secret that is the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyForm {
    Decoded,
    /// The text itself: libraries of these profiles use a secret as it is.
    Text,
    /// The same, for SHA-1.
    TextSha1,
    /// The private key of Ed25519.
    Private,
    /// That of P-256.
    PrivateP256,
    /// The same, for JWTs.
    PrivateEs256,
    /// Decoded, or a private key of either kind, as the secret's form says.
    Message,
}

impl KeyForm {
    /// A new secret is a private key.
    pub(super) const fn is_private(self) -> bool {
        self.is_p256() || matches!(self, Self::Private)
    }

    pub(super) const fn is_p256(self) -> bool {
        matches!(self, Self::PrivateP256 | Self::PrivateEs256)
    }
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Content {
    Text(&'static str),
    Id,
    EventType,
    Subscriber,
    Attempt,
    Timestamp,
    /// Of the body.
    Digest,
    /// The names of the signed components, and the signature's parameters.
    Input,
    Signature,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Part {
    Text(&'static str),
    Id,
    Timestamp,
    Body,
    Url,
    /// The end of the URL's query, which is the request's own.
    Query,
    /// The value of this header, without its label.
    Header(&'static str),
}

pub(super) const PARTS_MAX: usize = 7;

pub(super) struct Form {
    pub(super) key: KeyForm,
    pub(super) signed: &'static [Part],
    pub(super) unit: Nanos,
    /// Made once, when the event is emitted.
    pub(super) is_frozen: bool,
    /// The prefix of a timestamp before the signatures.
    pub(super) beside: Option<&'static str>,
    /// Between several signatures during a rotation, one for each key, so that the endpoint may know any of them.
    /// Without it the old key signs until it retires.
    pub(super) separator: Option<&'static str>,
    pub(super) prefix: &'static str,
    /// After each signature.
    pub(super) suffix: &'static str,
    pub(super) is_base64: bool,
    /// The parameter of the URL's query that has the body's SHA-256.
    pub(super) digest: Option<&'static str>,
}

const DOT: Part = Part::Text(".");
const BODY: &[Part] = &[Part::Body];
const STAMPED: &[Part] = &[Part::Timestamp, DOT, Part::Body];
const MESSAGE_DIGEST: &str = "\n\"content-type\": application/json\n\"content-digest\": ";
/// The components in the order of a profile's parts.
pub(super) const MESSAGE_COVERED: &str =
    r#"("@method" "@target-uri" "@authority" "content-type" "content-digest" "webhook-id")"#;
const VERSIONED: &[Part] = &[Part::Text("v0:"), Part::Timestamp, Part::Text(":"), Part::Body];

const fn hex(prefix: &'static str, signed: &'static [Part]) -> Form {
    let (key, unit) = (KeyForm::Text, Nanos::SECOND);
    let (beside, separator, digest) = (None, None, None);
    Form {
        key,
        signed,
        unit,
        is_frozen: false,
        beside,
        separator,
        prefix,
        suffix: "",
        is_base64: false,
        digest,
    }
}

const fn base64(prefix: &'static str, signed: &'static [Part]) -> Form {
    Form { is_base64: true, ..hex(prefix, signed) }
}

impl Profile {
    pub(super) const fn form(self) -> Form {
        use Part::{Body, Header, Id, Query, Text, Timestamp, Url};
        match self {
            Self::StandardWebhooks | Self::Cloudevents => {
                let form = base64("v1,", &[Id, DOT, Timestamp, DOT, Body]);
                Form { key: KeyForm::Decoded, separator: Some(" "), ..form }
            }
            Self::VvvTimestamped => hex("sha256=", STAMPED),
            Self::VvvFrozen => Form { is_frozen: true, ..hex("", BODY) },
            Self::Stripe => Form { beside: Some("t="), separator: Some(","), ..hex("v1=", STAMPED) },
            Self::Github | Self::Meta => hex("sha256=", BODY),
            Self::Discord => Form { key: KeyForm::Private, ..hex("", &[Timestamp, Body]) },
            Self::Hubspot => {
                Form { unit: Nanos::from_millis(1), ..base64("", &[Text("POST"), Url, Body, Timestamp]) }
            }
            Self::Line | Self::Shopify => base64("", BODY),
            Self::Paddle => Form { beside: Some("ts="), ..hex(";h1=", &[Timestamp, Text(":"), Body]) },
            // Both are claims.
            Self::Plaid => Form { key: KeyForm::PrivateEs256, ..base64("", &[Timestamp, Body]) },
            Self::Rfc9421 => {
                let signed = &[
                    Url,
                    Text(MESSAGE_DIGEST),
                    Header("content-digest"),
                    Text("\n\"webhook-id\": "),
                    Id,
                    Text("\n\"@signature-params\": "),
                    Header("signature-input"),
                ];
                Form { key: KeyForm::Message, suffix: ":", ..base64("sig1=:", signed) }
            }
            Self::Sendgrid => Form { key: KeyForm::PrivateP256, ..base64("", &[Timestamp, Body]) },
            Self::Slack | Self::Zoom => hex("v0=", VERSIONED),
            Self::Square => base64("", &[Url, Body]),
            Self::Twilio => {
                Form { key: KeyForm::TextSha1, digest: Some("bodySHA256"), ..base64("", &[Url, Query]) }
            }
        }
    }

    /// In order: the timestamp before a signature of it.
    pub(super) const fn headers(self) -> &'static [(&'static str, Content)] {
        use Content::{Attempt, Digest, EventType, Id, Input, Signature, Subscriber, Text, Timestamp};
        match self {
            Self::StandardWebhooks => {
                &[("webhook-id", Id), ("webhook-timestamp", Timestamp), ("webhook-signature", Signature)]
            }
            Self::VvvTimestamped => &[("x-vvv-timestamp", Timestamp), ("x-vvv-signature", Signature)],
            Self::VvvFrozen => &[
                ("x-vvv-signature", Signature),
                ("x-vvv-event", EventType),
                ("x-vvv-attempt", Attempt),
                ("x-vvv-delivery-id", Id),
                ("x-vvv-subscriber", Subscriber),
            ],
            Self::Stripe => &[("stripe-signature", Signature)],
            Self::Github => &[
                ("x-hub-signature-256", Signature),
                ("x-github-event", EventType),
                ("x-github-delivery", Id),
            ],
            Self::Cloudevents => &[
                ("webhook-id", Id),
                ("webhook-timestamp", Timestamp),
                ("webhook-signature", Signature),
                ("ce-specversion", Text("1.0")),
                ("ce-id", Id),
                ("ce-type", EventType),
            ],
            Self::Discord => &[("x-signature-timestamp", Timestamp), ("x-signature-ed25519", Signature)],
            Self::Hubspot => {
                &[("x-hubspot-request-timestamp", Timestamp), ("x-hubspot-signature-v3", Signature)]
            }
            Self::Line => &[("x-line-signature", Signature)],
            Self::Meta => &[("x-hub-signature-256", Signature)],
            Self::Paddle => &[("paddle-signature", Signature)],
            Self::Plaid => &[("plaid-verification", Signature)],
            Self::Rfc9421 => &[
                ("webhook-id", Id),
                ("content-digest", Digest),
                ("signature-input", Input),
                ("signature", Signature),
            ],
            Self::Sendgrid => &[
                ("x-twilio-email-event-webhook-timestamp", Timestamp),
                ("x-twilio-email-event-webhook-signature", Signature),
            ],
            Self::Shopify => &[
                ("x-shopify-hmac-sha256", Signature),
                ("x-shopify-topic", EventType),
                ("x-shopify-webhook-id", Id),
            ],
            Self::Slack => &[("x-slack-request-timestamp", Timestamp), ("x-slack-signature", Signature)],
            Self::Square => &[("x-square-hmacsha256-signature", Signature)],
            Self::Twilio => &[("x-twilio-signature", Signature)],
            Self::Zoom => &[("x-zm-request-timestamp", Timestamp), ("x-zm-signature", Signature)],
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
