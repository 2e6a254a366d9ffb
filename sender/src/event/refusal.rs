//! Why an event, or a batch of them, is not accepted.

use super::event_type::EventTypeError;
use super::json::{JsonError, JsonKind};
use super::key::EventKeyError;
use super::public_id::PublicIdError;
use crate::excerpt::Excerpt;

/// A refusal: a sentence for a person, a [code](Self::code) for a program, and the [field](Self::field) it is about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// More bytes than an event may have.
    #[error("the event has {bytes} bytes; at most {max} are accepted")]
    EventTooLarge {
        /// Its length.
        bytes: usize,
        /// What is accepted.
        max: usize,
    },
    /// More bytes than a batch may have.
    #[error("the batch has {bytes} bytes; at most {max} are accepted, so split it")]
    BatchTooLarge {
        /// Its length.
        bytes: usize,
        /// What is accepted.
        max: usize,
    },
    /// More events than a batch may have.
    #[error("the batch has {events} events; at most {max} are accepted, so split it")]
    BatchTooMany {
        /// How many there are.
        events: usize,
        /// What is accepted.
        max: usize,
    },
    /// Nothing in a batch.
    #[error("the batch holds no event; expected one JSON object a line")]
    BatchEmpty,
    /// Not JSON, or too deep.
    #[error("the event cannot be read: {0}")]
    Json(#[from] JsonError),
    /// JSON, but no object.
    #[error("the event is {found}; expected an object with type and data")]
    NotAnObject {
        /// What it is.
        found: JsonKind,
    },
    /// A field that no event has.
    #[error(
        "the event has a field {name}; expected id, type, key, data and atomic only, and anything else inside data"
    )]
    UnknownField {
        /// Its name.
        name: Excerpt,
    },
    /// A field that comes twice.
    #[error("the field {field} comes twice")]
    DoubledField {
        /// Its name.
        field: &'static str,
    },
    /// A field that every event has.
    #[error("the event has no field {field}")]
    MissingField {
        /// Its name.
        field: &'static str,
    },
    /// A field of the wrong kind.
    #[error("the field {field} is {found}; expected text")]
    NotText {
        /// Its name.
        field: &'static str,
        /// What it is.
        found: JsonKind,
    },
    /// A field that is neither true nor false.
    #[error("the field {field} is {found}; expected true or false")]
    NotTruth {
        /// Its name.
        field: &'static str,
        /// What it is.
        found: JsonKind,
    },
    /// An escape that is no character.
    #[error("the field {field} has half of a surrogate pair at byte {at} of it; expected text in Unicode")]
    LoneSurrogate {
        /// The field.
        field: &'static str,
        /// Where its escape begins.
        at: usize,
    },
    /// A type that is none.
    #[error("{0}")]
    Type(#[from] EventTypeError),
    /// A key that is none.
    #[error("{0}")]
    Key(#[from] EventKeyError),
    /// An id that is none.
    #[error("{0}")]
    Id(#[from] PublicIdError),
}

impl Refusal {
    /// The same for machines: stable, never renamed.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::EventTooLarge { .. } => "event_too_large",
            Self::BatchTooLarge { .. } => "batch_too_large",
            Self::BatchTooMany { .. } => "batch_too_many",
            Self::BatchEmpty => "batch_empty",
            Self::Json(JsonError::NotUtf8 { .. }) => "not_utf8",
            Self::Json(JsonError::TooDeep { .. }) => "too_deep",
            Self::Json(JsonError::Syntax { .. }) => "not_json",
            Self::NotAnObject { .. } => "not_an_object",
            Self::UnknownField { .. } => "unknown_field",
            Self::DoubledField { .. } => "doubled_field",
            Self::MissingField { .. } => "missing_field",
            Self::NotText { .. } => "not_text",
            Self::NotTruth { .. } => "not_truth",
            Self::LoneSurrogate { .. } => "lone_surrogate",
            Self::Type(EventTypeError::Empty) => "type_empty",
            Self::Type(EventTypeError::TooLong { .. }) => "type_too_long",
            Self::Type(EventTypeError::Character { .. }) => "type_character",
            Self::Key(EventKeyError::Empty) => "key_empty",
            Self::Key(EventKeyError::TooLong { .. }) => "key_too_long",
            Self::Key(EventKeyError::Character { .. }) => "key_character",
            Self::Id(PublicIdError::Empty) => "id_empty",
            Self::Id(PublicIdError::TooLong { .. }) => "id_too_long",
            Self::Id(PublicIdError::Character { .. }) => "id_character",
        }
    }

    /// The field that it is about, if it is about one. An unknown field's name may have been cut.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::EventTooLarge { .. }
            | Self::BatchTooLarge { .. }
            | Self::BatchTooMany { .. }
            | Self::BatchEmpty
            | Self::Json(_)
            | Self::NotAnObject { .. } => None,
            Self::UnknownField { name } => Some(name.as_str()),
            Self::DoubledField { field }
            | Self::MissingField { field }
            | Self::NotText { field, .. }
            | Self::LoneSurrogate { field, .. }
            | Self::NotTruth { field, .. } => Some(field),
            Self::Type(_) => Some("type"),
            Self::Key(_) => Some("key"),
            Self::Id(_) => Some("id"),
        }
    }
}
