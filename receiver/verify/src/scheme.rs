//! Profiles as data: the headers, the signed parts, and the place of the timestamp.

/// Receivers take no other method.
pub(super) const METHOD: &str = "POST";
pub(super) const PARTS_MAX: usize = 4;

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Algorithm {
    HmacSha256,
    Ed25519,
    /// With SHA-256; the signature is DER in base64.
    P256,
}

pub(super) struct Scheme {
    pub(super) algorithm: Algorithm,
    pub(super) signature: &'static str,
    pub(super) prefix: &'static str,
    pub(super) is_base64: bool,
    pub(super) timestamp: Option<Stamp>,
    pub(super) is_in_ms: bool,
    pub(super) signed: &'static [Part],
    /// Else the body names the delivery.
    pub(super) id: Option<&'static str>,
}

#[derive(Clone, Copy)]
pub(super) enum Stamp {
    Header(&'static str),
    /// Beside the signatures, after this prefix. The separator is between them.
    Beside(&'static str, char),
    /// A member of the body.
    Member(&'static str),
}

#[derive(PartialEq)]
pub(super) enum Part {
    Text(&'static str),
    Timestamp,
    Body,
    Url,
    Method,
}

/// One signature over the body alone, in hex.
const BODY: Scheme = Scheme {
    algorithm: Algorithm::HmacSha256,
    signature: "",
    prefix: "",
    is_base64: false,
    timestamp: None,
    is_in_ms: false,
    signed: &[Part::Body],
    id: None,
};

const STAMPED: &[Part] = &[Part::Timestamp, Part::Text("."), Part::Body];
const VERSIONED: &[Part] = &[Part::Text("v0:"), Part::Timestamp, Part::Text(":"), Part::Body];

pub(super) const VVV_TIMESTAMPED: Scheme = Scheme {
    signature: "x-vvv-signature",
    prefix: "sha256=",
    timestamp: Some(Stamp::Header("x-vvv-timestamp")),
    signed: STAMPED,
    ..BODY
};

pub(super) const STRIPE: Scheme = Scheme {
    signature: "stripe-signature",
    prefix: "v1=",
    timestamp: Some(Stamp::Beside("t=", ',')),
    signed: STAMPED,
    ..BODY
};

pub(super) const GITHUB: Scheme =
    Scheme { signature: "x-hub-signature-256", prefix: "sha256=", id: Some("x-github-delivery"), ..BODY };

pub(super) const DISCORD: Scheme = Scheme {
    algorithm: Algorithm::Ed25519,
    signature: "x-signature-ed25519",
    timestamp: Some(Stamp::Header("x-signature-timestamp")),
    signed: &[Part::Timestamp, Part::Body],
    ..BODY
};

pub(super) const HUBSPOT: Scheme = Scheme {
    signature: "x-hubspot-signature-v3",
    is_base64: true,
    timestamp: Some(Stamp::Header("x-hubspot-request-timestamp")),
    is_in_ms: true,
    signed: &[Part::Method, Part::Url, Part::Body, Part::Timestamp],
    ..BODY
};

pub(super) const LINE: Scheme = Scheme { signature: "x-line-signature", is_base64: true, ..BODY };

pub(super) const LINEAR: Scheme = Scheme {
    signature: "linear-signature",
    timestamp: Some(Stamp::Member("webhookTimestamp")),
    is_in_ms: true,
    id: Some("linear-delivery"),
    ..BODY
};

pub(super) const META: Scheme = Scheme { signature: "x-hub-signature-256", prefix: "sha256=", ..BODY };

pub(super) const PADDLE: Scheme = Scheme {
    signature: "paddle-signature",
    prefix: "h1=",
    timestamp: Some(Stamp::Beside("ts=", ';')),
    signed: &[Part::Timestamp, Part::Text(":"), Part::Body],
    ..BODY
};

pub(super) const SENDGRID: Scheme = Scheme {
    algorithm: Algorithm::P256,
    signature: "x-twilio-email-event-webhook-signature",
    timestamp: Some(Stamp::Header("x-twilio-email-event-webhook-timestamp")),
    signed: &[Part::Timestamp, Part::Body],
    ..BODY
};

pub(super) const SHOPIFY: Scheme =
    Scheme { signature: "x-shopify-hmac-sha256", is_base64: true, id: Some("x-shopify-webhook-id"), ..BODY };

pub(super) const SLACK: Scheme = Scheme {
    signature: "x-slack-signature",
    prefix: "v0=",
    timestamp: Some(Stamp::Header("x-slack-request-timestamp")),
    signed: VERSIONED,
    ..BODY
};

pub(super) const SQUARE: Scheme = Scheme {
    signature: "x-square-hmacsha256-signature",
    is_base64: true,
    signed: &[Part::Url, Part::Body],
    ..BODY
};

pub(super) const ZOOM: Scheme = Scheme {
    signature: "x-zm-signature",
    prefix: "v0=",
    timestamp: Some(Stamp::Header("x-zm-request-timestamp")),
    signed: VERSIONED,
    ..BODY
};

impl Scheme {
    pub(super) const fn has_timestamp(&self) -> bool {
        self.timestamp.is_some()
    }

    pub(super) const fn has_id_header(&self) -> bool {
        self.id.is_some()
    }

    pub(super) fn signs_url(&self) -> bool {
        self.signed.contains(&Part::Url)
    }
}
