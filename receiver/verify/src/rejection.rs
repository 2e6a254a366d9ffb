//! Why a request is rejected.

/// The first broken rule. Safe to reveal: it names headers and rules, but neither expected signatures nor
/// received values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// A required header is missing.
    #[error("the header {name} is missing")]
    Missing {
        /// The header.
        name: &'static str,
    },
    /// The header is repeated.
    #[error("the header {name} is given more than once")]
    Twice {
        /// The header.
        name: &'static str,
    },
    /// The header is empty.
    #[error("the header {name} is empty")]
    Empty {
        /// The header.
        name: &'static str,
    },
    /// The header has characters other than visible ASCII.
    #[error("the header {name} has characters other than visible ASCII")]
    NotAscii {
        /// The header.
        name: &'static str,
    },
    /// The id is invalid.
    #[error(
        "the id in {name} is malformed; expected up to 256 visible characters, without spaces or the profile's \
         field separators"
    )]
    Id {
        /// The header.
        name: &'static str,
    },
    /// The timestamp is not canonical.
    #[error("the timestamp in {name} is malformed; expected the time since 1970 as plain digits")]
    Timestamp {
        /// The header.
        name: &'static str,
    },
    /// It was signed too long ago: perhaps a replay.
    #[error("the timestamp is {seconds} s in the past; expected at most {tolerance} s")]
    Old {
        /// Its age.
        seconds: u64,
        /// The largest age.
        tolerance: u32,
    },
    /// It was signed in the future: one of the clocks is wrong.
    #[error("the timestamp is {seconds} s in the future; expected at most {tolerance} s")]
    Ahead {
        /// How far ahead.
        seconds: u64,
        /// The largest difference.
        tolerance: u32,
    },
    /// Not the profile's JSON, with each member that matters once, and no colon that would make the signed text ambiguous.
    #[error(
        "the body is no notification with one item; expected each signed member once, in its own case, as a text, whole \
         number or flag, and a colon in none but merchantReference"
    )]
    Body,
    /// The key of the signature is at a host that anybody could own.
    #[error("{name} is no https URL of paypal.com")]
    Url {
        /// The header.
        name: &'static str,
    },
    /// No signature of a version that the keys can check.
    #[error("{name} has no signature that these keys can verify")]
    NoSignature {
        /// The header, or the member of the body.
        name: &'static str,
    },
    /// All signatures are badly encoded.
    #[error("the signature in {name} is malformed; expected {expected}")]
    Encoding {
        /// The header.
        name: &'static str,
        /// The expected encoding.
        expected: &'static str,
    },
    /// The signature holds, and covers too little of the request.
    #[error(
        "the signature in {name} covers too little; expected @method, content-digest, and @target-uri or its parts"
    )]
    Uncovered {
        /// The header.
        name: &'static str,
    },
    /// The method, path or query is not that of the signed URL.
    #[error(
        "the request is no POST to the URL that the signatures cover; check that URL, and the paths that a proxy passes on"
    )]
    Target,
    /// No signature matches: the secret or the signed content differs.
    #[error("no signature matches; check the secret, and that the body is the raw one")]
    Signature,
}

impl Rejection {
    /// The rule's name, for logs and counters.
    #[must_use]
    pub const fn rule(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "header-missing",
            Self::Twice { .. } => "header-twice",
            Self::Empty { .. } => "header-empty",
            Self::NotAscii { .. } => "header-not-ascii",
            Self::Id { .. } => "id-malformed",
            Self::Timestamp { .. } => "timestamp-malformed",
            Self::Old { .. } => "timestamp-old",
            Self::Ahead { .. } => "timestamp-ahead",
            Self::Body => "body-malformed",
            Self::Url { .. } => "key-url-foreign",
            Self::NoSignature { .. } => "signature-none",
            Self::Encoding { .. } => "signature-malformed",
            Self::Uncovered { .. } => "signature-uncovered",
            Self::Target => "target-other",
            Self::Signature => "signature-wrong",
        }
    }

    /// The HTTP status: 400 for a malformed request, 401 for one that proves nothing.
    #[must_use]
    pub const fn status(&self) -> http::StatusCode {
        match self {
            Self::Twice { .. }
            | Self::NotAscii { .. }
            | Self::Id { .. }
            | Self::Timestamp { .. }
            | Self::Body => http::StatusCode::BAD_REQUEST,
            _ => http::StatusCode::UNAUTHORIZED,
        }
    }
}
