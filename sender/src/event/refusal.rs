use super::event_type::{EventType, EventTypeError};
use super::json::{JsonError, JsonKind};
use super::key::EventKeyError;
use super::public_id::PublicIdError;
use crate::excerpt::Excerpt;

/// A message, a [code](Self::code) for programs, and the [field](Self::field) that it concerns.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the event has {bytes} bytes; at most {max} are accepted")]
    EventTooLarge { bytes: usize, max: usize },
    #[error("the batch has {bytes} bytes; at most {max} are accepted, so split it")]
    BatchTooLarge { bytes: usize, max: usize },
    #[error("the batch has {events} events; at most {max} are accepted, so split it")]
    BatchTooMany { events: usize, max: usize },
    #[error("the batch holds no event; expected one JSON object a line")]
    BatchEmpty,
    #[error("the event cannot be read: {0}")]
    Json(#[from] JsonError),
    #[error("the event is {found}; expected an object with type and data")]
    NotAnObject { found: JsonKind },
    #[error(
        "the event has a field {name}; expected id, type, key, data and atomic only, and anything else inside data"
    )]
    UnknownField { name: Excerpt },
    #[error("the field {field} is given twice")]
    DoubledField { field: &'static str },
    #[error("the event has no field {field}")]
    MissingField { field: &'static str },
    #[error("the field {field} is {found}; expected text")]
    NotText { field: &'static str, found: JsonKind },
    #[error("the field {field} is {found}; expected true or false")]
    NotTruth { field: &'static str, found: JsonKind },
    #[error("the field {field} has half of a surrogate pair at byte {at}; expected Unicode text")]
    LoneSurrogate {
        field: &'static str,
        /// Where the escape begins.
        at: usize,
    },
    #[error("{0}")]
    Type(#[from] EventTypeError),
    #[error(
        "the event type {0} is reserved: the sender itself emits types that begin with {reserved}; use another",
        reserved = EventType::RESERVED
    )]
    Reserved(EventType),
    #[error("{0}")]
    Key(#[from] EventKeyError),
    #[error("{0}")]
    Id(#[from] PublicIdError),
}

impl Refusal {
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
            Self::Reserved(_) => "type_reserved",
            Self::Key(EventKeyError::Empty) => "key_empty",
            Self::Key(EventKeyError::TooLong { .. }) => "key_too_long",
            Self::Key(EventKeyError::Character { .. }) => "key_character",
            Self::Id(PublicIdError::Empty) => "id_empty",
            Self::Id(PublicIdError::TooLong { .. }) => "id_too_long",
            Self::Id(PublicIdError::Character { .. }) => "id_character",
        }
    }

    /// An unknown field's name may be cut.
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
            Self::Type(_) | Self::Reserved(_) => Some("type"),
            Self::Key(_) => Some("key"),
            Self::Id(_) => Some("id"),
        }
    }
}
