//! Why a request is not what the sender signed.

/// The first rule that a request breaks. What it says may be told to anybody: it names headers and rules, never what
/// was expected in place of a signature, and nothing of what came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// A header that the profile needs is not there.
    #[error("the header {name} is missing")]
    Missing {
        /// Which.
        name: &'static str,
    },
    /// It is there more than once.
    #[error("the header {name} is there more than once")]
    Twice {
        /// Which.
        name: &'static str,
    },
    /// It has no value.
    #[error("the header {name} is empty")]
    Empty {
        /// Which.
        name: &'static str,
    },
    /// It holds something that is not visible ASCII.
    #[error("the header {name} holds something else than visible ascii")]
    NotAscii {
        /// Which.
        name: &'static str,
    },
    /// The id is none.
    #[error(
        "the id in {name} is not well formed; expected up to 256 visible characters, without blanks or what the profile uses to part fields"
    )]
    Id {
        /// In which header.
        name: &'static str,
    },
    /// The timestamp is not written as the profile wants it.
    #[error("the timestamp in {name} is not well formed; expected seconds since 1970 as plain digits")]
    Timestamp {
        /// In which header.
        name: &'static str,
    },
    /// It was signed too long ago: perhaps somebody sends again what was overheard.
    #[error("the timestamp is {seconds} s in the past; expected at most {tolerance} s")]
    Old {
        /// How far back.
        seconds: u64,
        /// How far back it may be.
        tolerance: u32,
    },
    /// It was signed in the future: one of the two clocks is wrong.
    #[error("the timestamp is {seconds} s in the future; expected at most {tolerance} s")]
    Ahead {
        /// How far ahead.
        seconds: u64,
        /// How far ahead it may be.
        tolerance: u32,
    },
    /// Nothing in the header is of a version that the keys can check.
    #[error("the header {name} holds no signature of a kind that the keys can check")]
    NoSignature {
        /// In which header.
        name: &'static str,
    },
    /// There are signatures, but none is encoded as the profile wants it.
    #[error("the signature in {name} is not well formed; expected {expected}")]
    Encoding {
        /// In which header.
        name: &'static str,
        /// How it should be written.
        expected: &'static str,
    },
    /// No signature fits any key: the secret differs, or what was signed did.
    #[error("no signature fits; check the secret, and that the body is the raw one")]
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
            Self::NoSignature { .. } => "signature-none",
            Self::Encoding { .. } => "signature-malformed",
            Self::Signature => "signature-wrong",
        }
    }

    /// The HTTP status that says so: 400 for a request that no sender makes, 401 for one that proves nothing.
    #[must_use]
    pub const fn status(&self) -> http::StatusCode {
        match self {
            Self::Twice { .. } | Self::NotAscii { .. } | Self::Id { .. } | Self::Timestamp { .. } => {
                http::StatusCode::BAD_REQUEST
            }
            _ => http::StatusCode::UNAUTHORIZED,
        }
    }
}
