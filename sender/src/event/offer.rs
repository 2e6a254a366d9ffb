//! Offers of emitters: one event, or a batch.

use std::borrow::Cow;

use super::event_type::EventType;
use super::json::{Json, JsonKind};
use super::key::EventKey;
use super::limits::Limits;
use super::public_id::PublicId;
use super::refusal::Refusal;
use crate::excerpt::Excerpt;

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

#[cfg(test)]
mod tests;
