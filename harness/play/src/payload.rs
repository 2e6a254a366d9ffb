//! Compares the body of a request with the events that it carries: data, type and key, as they were offered.
//!
//! The data is sought in the whole body, or at the place that the driver names: as JSON, as JSON in a string, in
//! base64, or in a form's field; an object may hold the data's members among its own. Numbers
//! are equal by value, and the order of members does not matter. The objects around the data may leave out its type
//! and key, but must not name another type or key of the run in their place.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::io::Read;
use std::sync::Arc;

use base64::Engine;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use hookproof_judge::trace::Payload;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Number, Value};

use crate::traffic::{Due, Schedule, Tokens};

/// After decompression.
pub const DECODED_BYTES_MAX: u64 = 8 << 20;
/// Strings within strings that are read as JSON.
const LAYERS_MAX: u32 = 4;
const QUOTED_MAX: usize = 80;
/// Shorter texts hold no token.
const BASE64_MIN: usize = 40;

/// Where the sender puts an event: `[payload]` of a driver file. Without a place the harness seeks.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Places {
    /// A JSON pointer.
    pub data: Option<String>,
    /// A JSON pointer.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// A JSON pointer.
    pub key: Option<String>,
    /// Whether the data's bytes arrive unchanged.
    #[serde(default)]
    pub exact: bool,
}

#[derive(Clone, Debug)]
pub struct Offered {
    pub schedule: Arc<Schedule>,
    pub tokens: Tokens,
    pub places: Places,
}

impl Offered {
    /// Compares a body, without its content coding, with the events of these tokens. None if the run offered none of
    /// them.
    #[must_use]
    pub fn compare(&self, body: &[u8], tokens: &[u64]) -> Option<Payload> {
        let (whole, mut found) = (parsed(body), None);
        for due in tokens.iter().filter_map(|token| self.schedule.due_of(*token)) {
            if let Err(why) = self.event(body, whole.as_ref(), due) {
                return Some(Payload::Altered(why.to_string().into()));
            }
            found = Some(Payload::Intact);
        }
        found
    }

    fn event(&self, body: &[u8], whole: Option<&Value>, due: &Due) -> Result<(), Altered> {
        let data = self.schedule.data(due, self.tokens);
        let is_verbatim = || memchr::memmem::find(body, data.as_bytes()).is_some();
        if self.places.exact && !is_verbatim() {
            return Err(Altered::Bytes);
        }
        // A format that is unknown here has the data as it was offered, and its envelope is not read.
        if !begins_as_json(body) && self.places.data.is_none() && is_verbatim() {
            return Ok(());
        }
        let wanted: Value = serde_json::from_str(&data).map_err(|_| Altered::Missing)?;
        let search = Search { schedule: &self.schedule, due, places: &self.places };
        let unread = || repeated(body).map_or(Altered::NotJson, Altered::Twice);
        search.body(whole.ok_or_else(unread)?, &wanted)
    }
}

#[derive(Debug)]
enum Altered {
    NotJson,
    Twice(String),
    Bytes,
    Missing,
    Place(String),
    Member { name: String, wanted: String, found: Option<String> },
    Envelope { name: String, wanted: String, found: String },
}

impl fmt::Display for Altered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson => f.write_str("the body is not JSON, and the data is not in it"),
            Self::Twice(name) => write!(f, "the body names {name:?} twice"),
            Self::Bytes => f.write_str("the data's bytes are not in the body"),
            Self::Missing => f.write_str("the data is not in the body"),
            Self::Place(place) => write!(f, "the body has nothing at {place}"),
            Self::Member { name, wanted, found: Some(found) } => {
                write!(f, "the data's {name} is {found}; offered was {wanted}")
            }
            Self::Member { name, wanted, found: None } => {
                write!(f, "the data's {name} is missing; offered was {wanted}")
            }
            Self::Envelope { name, wanted, found } => {
                write!(f, "the event's {name} is {found}; offered was {wanted}")
            }
        }
    }
}

struct Search<'a> {
    schedule: &'a Schedule,
    due: &'a Due,
    places: &'a Places,
}

impl Search<'_> {
    fn body(&self, body: &Value, wanted: &Value) -> Result<(), Altered> {
        let at = self.places.data.as_deref().unwrap_or_default();
        let place = body.pointer(at).ok_or_else(|| Altered::Place(at.to_owned()))?;
        if !holds(place, wanted, LAYERS_MAX) {
            return Err(nearest(place, wanted, LAYERS_MAX).unwrap_or(Altered::Missing));
        }
        self.envelope(body, wanted)
    }

    /// Compares type and key of the objects around `inner`.
    fn envelope(&self, body: &Value, inner: &Value) -> Result<(), Altered> {
        self.named(body)?;
        self.around(body, inner)
    }

    fn named(&self, body: &Value) -> Result<(), Altered> {
        let rows = [
            ("type", &self.places.kind, self.schedule.kind(self.due)),
            ("key", &self.places.key, self.schedule.key(self.due)),
        ];
        for (name, place, wanted) in rows {
            let Some(place) = place else { continue };
            let found = body.pointer(place);
            if found.and_then(Value::as_str) != Some(wanted) {
                let found = found.map_or_else(|| "missing".to_owned(), quoted);
                return Err(Altered::Envelope {
                    name: name.to_owned(),
                    wanted: format!("{wanted:?}"),
                    found,
                });
            }
        }
        Ok(())
    }

    /// Nobody named the places of type and key: compares with all of the run's.
    fn around(&self, body: &Value, inner: &Value) -> Result<(), Altered> {
        let (due, schedule, places) = (self.due, self.schedule, self.places);
        if places.kind.is_some() && places.key.is_some() {
            return Ok(());
        }
        let mut strings = Vec::new();
        collect(body, inner, LAYERS_MAX, &mut strings);
        strings.retain(|text| !text.is_empty());
        let others = [
            (&places.kind, "type", schedule.kind(due), strings.iter().find(|text| schedule.has_type(text))),
            (&places.key, "key", schedule.key(due), strings.iter().find(|text| schedule.has_key(text))),
        ];
        for (_, name, own, other) in others.into_iter().filter(|(place, ..)| place.is_none()) {
            if let Some(other) = other.filter(|_| !strings.iter().any(|text| text == own)) {
                let (wanted, found) = (format!("{own:?}"), format!("{other:?}"));
                return Err(Altered::Envelope { name: name.to_owned(), wanted, found });
            }
        }
        Ok(())
    }
}

/// The strings of the objects on the way from the root to the one that has the members of `inner`, and beside them.
fn collect(value: &Value, inner: &Value, layers: u32, strings: &mut Vec<String>) {
    let is_data = has_all(value, inner);
    if let Value::Object(members) = value {
        let beside = members.iter().filter(|(name, _)| !is_data || inner.get(name.as_str()).is_none());
        strings.extend(beside.filter_map(|(_, member)| member.as_str()).map(str::to_owned));
    }
    let next = || inside(value, layers).into_iter().find(|(one, layers)| holds(one, inner, *layers));
    if let Some((next, layers)) = Some(()).filter(|()| !is_data).and_then(|()| next()) {
        collect(&next, inner, layers, strings);
    }
}

/// Whether an object has the wanted members, perhaps beside others, or holds one that has them.
fn holds(value: &Value, wanted: &Value, layers: u32) -> bool {
    has_all(value, wanted)
        || inside(value, layers).iter().any(|(value, layers)| holds(value, wanted, *layers))
}

/// The first difference from the object that has the wanted token.
fn nearest(value: &Value, wanted: &Value, layers: u32) -> Option<Altered> {
    if let (Value::Object(found), Value::Object(wanted)) = (value, wanted)
        && found.get("token").is_some_and(|token| wanted.get("token") == Some(token))
    {
        let differs = wanted.iter().find(|(name, one)| !found.get(*name).is_some_and(|own| same(own, one)));
        return differs.map(|(name, one)| Altered::Member {
            name: format!("{name:?}"),
            wanted: quoted(one),
            found: found.get(name).map(quoted),
        });
    }
    inside(value, layers).iter().find_map(|(value, layers)| nearest(value, wanted, *layers))
}

/// The values in a value, with the layers of strings that may still be read.
fn inside(value: &Value, layers: u32) -> Vec<(Cow<'_, Value>, u32)> {
    match value {
        Value::Array(all) => all.iter().map(|one| (Cow::Borrowed(one), layers)).collect(),
        Value::Object(members) => members.values().map(|one| (Cow::Borrowed(one), layers)).collect(),
        Value::String(text) if layers > 0 => {
            parsed(text.as_bytes()).map(|value| (Cow::Owned(value), layers - 1)).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

fn begins_as_json(text: &[u8]) -> bool {
    matches!(text.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// The first name that an object of a JSON text has twice: readers differ in which member they take.
fn repeated(text: &[u8]) -> Option<String> {
    let (mut found, mut texts) = (None, serde_json::Deserializer::from_slice(text));
    while Names(&mut found).deserialize(&mut texts).is_ok() {}
    found
}

/// Reads any value, and keeps the first name that an object has twice.
struct Names<'a>(&'a mut Option<String>);

impl<'de> DeserializeSeed<'de> for Names<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Names<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut names = BTreeSet::new();
        while let Some(name) = members.next_key::<String>()? {
            members.next_value_seed(Names(self.0))?;
            if let Some(again) = names.replace(name) {
                self.0.get_or_insert(again);
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Names(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// From JSON, a line of JSON for each event, a form, or any of them in base64.
fn parsed(text: &[u8]) -> Option<Value> {
    if begins_as_json(text) {
        let values = serde_json::Deserializer::from_slice(text).into_iter();
        let mut values: Vec<Value> = values.collect::<Result<_, _>>().ok()?;
        if repeated(text).is_some() {
            return None;
        }
        return if values.len() > 1 { Some(Value::Array(values)) } else { values.pop() };
    }
    if let Some(plain) = from_base64(text) {
        return parsed(&plain);
    }
    if !text.contains(&b'=') || !text.iter().all(u8::is_ascii_graphic) {
        return None;
    }
    let fields = url::form_urlencoded::parse(text);
    Some(fields.map(|(name, value)| (name.into_owned(), Value::String(value.into_owned()))).collect())
}

/// With or without padding, in either alphabet.
fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    let text = text.trim_ascii();
    if text.len() < BASE64_MIN {
        return None;
    }
    let config = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let alphabet = if text.iter().any(|byte| matches!(byte, b'-' | b'_')) { URL_SAFE } else { STANDARD };
    GeneralPurpose::new(&alphabet, config).decode(text).ok()
}

/// The tokens of this run in a body without its content coding, also in base64.
#[must_use]
pub fn tokens_in(tokens: Tokens, body: &[u8]) -> Vec<u64> {
    let plain = tokens.find_all(body);
    if !plain.is_empty() {
        return plain;
    }
    let mut found = Vec::new();
    if let Some(value) = parsed(body) {
        seek(tokens, &value, LAYERS_MAX, &mut found);
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn seek(tokens: Tokens, value: &Value, layers: u32, found: &mut Vec<u64>) {
    if let Value::String(text) = value {
        found.extend(tokens.find_all(text.as_bytes()));
    }
    for (value, layers) in inside(value, layers) {
        seek(tokens, &value, layers, found);
    }
}

pub fn decoded<'a>(body: &'a [u8], coding: Option<&str>) -> Result<Cow<'a, [u8]>, &'static str> {
    let read = |reader: &mut dyn Read| {
        let mut plain = Vec::new();
        let read = reader.take(DECODED_BYTES_MAX + 1).read_to_end(&mut plain);
        let read = read.map_err(|_| "its body is not in its content-encoding")?;
        if u64::try_from(read).unwrap_or(u64::MAX) > DECODED_BYTES_MAX {
            return Err("its body has more than 8 MiB without its content-encoding");
        }
        Ok(Cow::Owned(plain))
    };
    match coding.map(|coding| coding.trim().to_ascii_lowercase()).as_deref() {
        None | Some("" | "identity") => Ok(Cow::Borrowed(body)),
        Some("gzip" | "x-gzip") => read(&mut MultiGzDecoder::new(body)),
        Some("deflate") => read(&mut ZlibDecoder::new(body)),
        Some(_) => Err("the harness does not read its content-encoding"),
    }
}

fn has_all(value: &Value, wanted: &Value) -> bool {
    let (Value::Object(own), Value::Object(wanted)) = (value, wanted) else { return false };
    // The offered data always has a token, and objects rarely share one: this comparison ends most searches.
    own.get("token") == wanted.get("token")
        && wanted.iter().all(|(name, one)| own.get(name).is_some_and(|own| same(own, one)))
}

/// Equal by value.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => equal(one, other),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let is_same =
                |(name, value): (&String, &Value)| other.get(name).is_some_and(|own| same(value, own));
            one.len() == other.len() && one.iter().all(is_same)
        }
        _ => one == other,
    }
}

fn equal(one: &Number, other: &Number) -> bool {
    match (one.as_i128(), other.as_i128()) {
        (Some(one), Some(other)) => one == other,
        (None, None) => one.as_f64() == other.as_f64(),
        (Some(whole), None) => is_whole(other, whole),
        (None, Some(whole)) => is_whole(one, whole),
    }
}

/// Beyond 2^53 an integer that went through a float may be another one.
#[expect(clippy::cast_precision_loss, reason = "below 2^53 every integer is a float")]
fn is_whole(float: &Number, whole: i128) -> bool {
    whole.unsigned_abs() <= 1 << 53 && float.as_f64() == Some(whole as f64)
}

fn quoted(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(QUOTED_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
