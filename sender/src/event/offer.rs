//! Offers of emitters: one event, or a batch.

use std::borrow::Cow;
use std::fmt::Write as _;

use hookproof_words::subscriber_names::SubscriberNames;

use super::event_type::EventType;
use super::json::{Depth, Json, JsonKind};
use super::key::EventKey;
use super::public_id::PublicId;
use super::refusal::Refusal;
use super::timestamp::Timestamp;
use crate::engine::time::StoreTime;
use crate::excerpt::Excerpt;
use crate::spans::TraceParent;

#[cfg(test)]
mod tests;

/// One checked event: `{"type": "video.trending", "key": "v1", "data": {…}}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer<'a> {
    /// Equal ids mean the same event.
    pub id: Option<PublicId>,
    pub event_type: EventType,
    pub key: Option<EventKey>,
    /// Kept byte for byte.
    pub data: Json<'a>,
    /// One subscriber without room refuses the event for all.
    pub atomic: bool,
    /// All subscribers if none.
    pub within: Option<SubscriberNames>,
    /// The span of the program that offers it.
    pub parent: Option<TraceParent>,
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
            event_type: offered(&text("type", event_type)?)?,
            key: optional("key", key)?.map(|key| key.parse()).transpose()?,
            data: data.ok_or(Refusal::MissingField { field: "data" })?,
            atomic: truth("atomic", atomic)?,
            within: None,
            parent: None,
        })
    }

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
            event_type: offered(event_type)?,
            key: key.map(str::parse).transpose()?,
            data: whole("data", Json::parse(data, limits.depth_max)?)?,
            atomic: false,
            within: None,
            parent: None,
        })
    }
}

fn offered(event_type: &str) -> Result<EventType, Refusal> {
    let event_type: EventType = event_type.parse()?;
    if event_type.is_reserved() { Err(Refusal::Reserved(event_type)) } else { Ok(event_type) }
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

/// `{"id":…,"type":…,"timestamp":…,"data":…}`.
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

    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.0.into_bytes()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The body is about 300 bytes longer at most. Pseudonyms may lengthen the data to [`Limits::EVENT_BYTES`], or
    /// the offered length if more, plus [`Shaping::GROWTH_BYTES_MAX`](super::Shaping::GROWTH_BYTES_MAX).
    pub event_bytes_max: usize,
    pub batch_bytes_max: usize,
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
