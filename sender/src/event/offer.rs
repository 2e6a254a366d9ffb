//! Offers of emitters: one event, or a batch.

use std::borrow::Cow;
use std::fmt;
use std::fmt::Write as _;
use std::str::FromStr;

use hookproof_words::text_form;

use super::event_type::EventType;
use super::json::{Json, JsonKind};
use super::public_id::PublicId;
use super::refusal::Refusal;
use super::timestamp::Timestamp;
use crate::engine::time::StoreTime;
use crate::excerpt::{Excerpt, is_hidden};

#[cfg(test)]
mod tests;

/// One checked event: `{"type": "video.trending", "key": "v1", "data": {…}}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer<'a> {
    /// Equal ids mean the same event.
    pub id: Option<PublicId>,
    /// The type.
    pub event_type: EventType,
    /// The key.
    pub key: Option<EventKey>,
    /// The data, kept byte for byte.
    pub data: Json<'a>,
    /// One subscriber without room refuses the event for all.
    pub atomic: bool,
}

impl<'a> Offer<'a> {
    /// `id`, `key` and `atomic` are optional.
    pub fn parse(bytes: &'a [u8], limits: &Limits) -> Result<Self, Refusal> {
        check_length(bytes, limits)?;
        let json = Json::parse(bytes, limits.depth_max)?;
        if json.kind() != JsonKind::Object {
            return Err(Refusal::NotAnObject { found: json.kind() });
        }
        let [mut id, mut event_type, mut key, mut data, mut atomic] = [None; 5];
        for (name, value) in json.fields() {
            let name = name.string().unwrap_or(name.text().into());
            let (field, place) = match &*name {
                "id" => ("id", &mut id),
                "type" => ("type", &mut event_type),
                "key" => ("key", &mut key),
                "data" => ("data", &mut data),
                "atomic" => ("atomic", &mut atomic),
                other => return Err(Refusal::UnknownField { name: Excerpt::of(other) }),
            };
            if place.replace(value).is_some() {
                return Err(Refusal::DoubledField { field });
            }
            whole(field, value)?;
        }
        let event_type = event_type.ok_or(Refusal::MissingField { field: "type" })?;
        Ok(Self {
            id: id.map(|id| text("id", id)?.parse().map_err(Refusal::from)).transpose()?,
            event_type: text("type", event_type)?.parse()?,
            key: optional("key", key)?.map(|key| key.parse()).transpose()?,
            data: data.ok_or(Refusal::MissingField { field: "data" })?,
            atomic: truth("atomic", atomic)?,
        })
    }

    /// From an outbox row, the command line or the library.
    pub fn from_parts(
        id: Option<&str>,
        event_type: &str,
        key: Option<&str>,
        data: &'a [u8],
        limits: &Limits,
    ) -> Result<Self, Refusal> {
        check_length(data, limits)?;
        Ok(Self {
            id: id.map(str::parse).transpose()?,
            event_type: event_type.parse()?,
            key: key.map(str::parse).transpose()?,
            data: whole("data", Json::parse(data, limits.depth_max)?)?,
            atomic: false,
        })
    }
}

fn check_length(bytes: &[u8], limits: &Limits) -> Result<(), Refusal> {
    if bytes.len() > limits.event_bytes_max {
        return Err(Refusal::EventTooLarge { bytes: bytes.len(), max: limits.event_bytes_max });
    }
    Ok(())
}

fn whole<'a>(field: &'static str, value: Json<'a>) -> Result<Json<'a>, Refusal> {
    match value.lone_surrogate() {
        Some(at) => Err(Refusal::LoneSurrogate { field, at }),
        None => Ok(value),
    }
}

/// `null` counts as absent.
fn optional<'a>(field: &'static str, value: Option<Json<'a>>) -> Result<Option<Cow<'a, str>>, Refusal> {
    value.filter(|value| value.kind() != JsonKind::Null).map(|value| text(field, value)).transpose()
}

/// Absent and `null` count as false.
fn truth(field: &'static str, value: Option<Json<'_>>) -> Result<bool, Refusal> {
    match value.map(|value| (value.kind(), value.text())) {
        None | Some((JsonKind::Null, _)) => Ok(false),
        Some((JsonKind::Bool, text)) => Ok(text == "true"),
        Some((found, _)) => Err(Refusal::NotTruth { field, found }),
    }
}

fn text<'a>(field: &'static str, value: Json<'a>) -> Result<Cow<'a, str>, Refusal> {
    value.string().ok_or(Refusal::NotText { field, found: value.kind() })
}

/// NDJSON: one object a line. Empty lines do not count.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    bytes: &'a [u8],
    limits: Limits,
}

impl<'a> Batch<'a> {
    /// Checks the batch's limits, but not its events.
    pub fn new(bytes: &'a [u8], limits: &Limits) -> Result<Self, Refusal> {
        if bytes.len() > limits.batch_bytes_max {
            return Err(Refusal::BatchTooLarge { bytes: bytes.len(), max: limits.batch_bytes_max });
        }
        let batch = Self { bytes, limits: *limits };
        match batch.lines().count() {
            0 => Err(Refusal::BatchEmpty),
            events if events > limits.batch_events_max => {
                Err(Refusal::BatchTooMany { events, max: limits.batch_events_max })
            }
            _ => Ok(batch),
        }
    }

    /// Each event with its line number, from 1.
    pub fn offers(self) -> impl Iterator<Item = (usize, Result<Offer<'a>, Refusal>)> {
        self.lines().map(move |(number, line)| (number, Offer::parse(line, &self.limits)))
    }

    fn lines(self) -> impl Iterator<Item = (usize, &'a [u8])> {
        let lines = self.bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        (1..).zip(lines).filter(|(_, line)| !line.is_empty())
    }
}

// The bytes that every attempt of a delivery sends.

/// `{"id":…,"type":…,"timestamp":…,"data":…}`, built once per event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Body(String);

impl Body {
    /// Copies the data byte for byte. Id and type need no escaping.
    #[must_use]
    pub fn build(id: &PublicId, event_type: &EventType, at: StoreTime, data: Json<'_>) -> Self {
        const FRAME_BYTES: usize = 66;

        let bytes = FRAME_BYTES + id.as_str().len() + event_type.as_str().len() + data.text().len();
        let mut text = String::with_capacity(bytes);
        for part in ["{\"id\":\"", id.as_str(), "\",\"type\":\"", event_type.as_str(), "\",\"timestamp\":\""]
        {
            text.push_str(part);
        }
        write!(text, "{}", Timestamp(at)).expect("writing to a String does not fail");
        for part in ["\",\"data\":", data.text(), "}"] {
            text.push_str(part);
        }
        Self(text)
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// The bytes, owned.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.0.into_bytes()
    }
}

// Event keys, such as a video, an order or an account.

text_form!(EventKey, "an event key as text");

/// Readable text, stored and never sent in a header.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventKey(Box<str>);

impl EventKey {
    /// The longest key in bytes.
    pub const BYTES_MAX: usize = 256;

    /// The key as text; never empty.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for EventKey {
    type Err = EventKeyError;

    fn from_str(text: &str) -> Result<Self, EventKeyError> {
        match text.len() {
            0 => Err(EventKeyError::Empty),
            bytes if bytes > Self::BYTES_MAX => Err(EventKeyError::TooLong { bytes }),
            _ => match text.char_indices().find(|(_, letter)| is_hidden(*letter)) {
                Some((at, letter)) => Err(EventKeyError::Character { letter, at }),
                None => Ok(Self(text.into())),
            },
        }
    }
}

impl fmt::Display for EventKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The text is not an event key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventKeyError {
    /// Empty: it would equate all events without a key.
    #[error("the event key is empty; leave it out where there is none")]
    Empty,
    /// Longer than [`EventKey::BYTES_MAX`].
    #[error("the event key has {bytes} bytes; at most {} are accepted", EventKey::BYTES_MAX)]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// An invisible character, or one that reorders others.
    #[error(
        "the event key has {letter:?} at byte {at}; expected no control character, line break or change of direction"
    )]
    Character {
        /// The character.
        letter: char,
        /// Its byte position.
        at: usize,
    },
}

// Limits on events.

/// The limits on offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// As offered, in bytes. The body is about 300 bytes longer at most. Pseudonyms may lengthen the data to
    /// [`Limits::EVENT_BYTES`], or the offered length if more, plus
    /// [`Shaping::GROWTH_BYTES_MAX`](super::Shaping::GROWTH_BYTES_MAX).
    pub event_bytes_max: usize,
    /// The longest batch in bytes.
    pub batch_bytes_max: usize,
    /// The most events in a batch.
    pub batch_events_max: usize,
    /// The event itself is the first level.
    pub depth_max: Depth,
}

impl Limits {
    /// Receivers must accept 20 kB and should accept 1 MB.
    pub const EVENT_BYTES: usize = 1 << 20;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            event_bytes_max: Self::EVENT_BYTES,
            batch_bytes_max: 16 << 20,
            batch_events_max: 10_000,
            depth_max: Depth::DEFAULT,
        }
    }
}

/// A number of JSON levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Depth(usize);

impl Depth {
    /// Many parsers stop at 128 levels; applications may wrap the body.
    pub const MAX: Self = Self(120);
    /// Deeper than handwritten events.
    pub const DEFAULT: Self = Self(64);

    /// From 1 to [`Depth::MAX`] levels.
    pub const fn new(levels: usize) -> Result<Self, DepthError> {
        if levels >= 1 && levels <= Self::MAX.0 { Ok(Self(levels)) } else { Err(DepthError { levels }) }
    }

    /// The number of levels.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0
    }
}

impl fmt::Display for Depth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of levels is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the limit on JSON's depth is {levels}; expected 1 to {}", Depth::MAX)]
pub struct DepthError {
    levels: usize,
}

#[cfg(test)]
mod body_tests {
    use super::*;
    use crate::event::Depth;

    #[test]
    fn a_body_is_the_four_fields_in_their_order_with_the_data_untouched() {
        let data = "{\"b\" : 1.0,\n\"a\":\"\\u00e9\",\"a\":12345678901234567890123}";
        let json = Json::parse(data.as_bytes(), Depth::DEFAULT).unwrap();
        let at = StoreTime(1_674_087_231_007_999_999);
        let body = Body::build(&"evt_1".parse().unwrap(), &"video.trending".parse().unwrap(), at, json);
        let expected = format!(
            "{{\"id\":\"evt_1\",\"type\":\"video.trending\",\"timestamp\":\"2023-01-19T00:13:51.007Z\",\"data\":{data}}}"
        );
        assert_eq!(body.as_bytes(), expected.as_bytes());
        assert_eq!(body.0.len(), body.0.capacity(), "one allocation, exactly as long as it must be");
    }
}
