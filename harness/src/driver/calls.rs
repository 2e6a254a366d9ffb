//! The calls of a driver file, their accepted answers, and the values saved from these.

use std::collections::BTreeMap;
use std::fmt;

use hookproof_judge::scenario::{Duration, Size};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::template::Template;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    pub request: Template,
    /// Header fields; beside a body, `content-type: application/json` by default.
    #[serde(default)]
    pub headers: BTreeMap<String, Template>,
    pub body: Option<Template>,
    /// Sent in place of the body, as `application/x-www-form-urlencoded`.
    #[serde(default)]
    pub form: BTreeMap<String, Template>,
    /// 2xx by default.
    #[serde(default)]
    pub accept: Vec<u16>,
    /// Variable and JSON pointer.
    #[serde(default)]
    pub save: BTreeMap<String, String>,
    /// JSON pointers and values, which a repeated call must show.
    #[serde(default)]
    pub until: BTreeMap<String, Scalar>,
    /// Half a minute by default.
    #[serde(default, deserialize_with = "some_length")]
    pub within: Option<Duration>,
}

impl Request {
    pub(super) fn templates(&self) -> impl Iterator<Item = &Template> {
        self.headers.values().chain(self.form.values()).chain(&self.body).chain([&self.request])
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Emit {
    pub request: Template,
    #[serde(default)]
    pub headers: BTreeMap<String, Template>,
    /// The body of one event; in a batch, one line.
    pub body: Option<Template>,
    /// A form in place of the body.
    #[serde(default)]
    pub form: BTreeMap<String, Template>,
    /// They accept all events; 2xx by default.
    #[serde(default)]
    pub accept: Vec<u16>,
    /// One call takes many events, one on each line.
    #[serde(default)]
    pub batch: bool,
    /// 1 to 10,000.
    #[serde(default = "five_hundred", deserialize_with = "up_to::<_, 10_000>")]
    pub batch_max: usize,
    /// Event data in a batch; a single event may have more. 8 MiB by default.
    #[serde(default = "eight_mib", deserialize_with = "size")]
    pub batch_bytes_max: Size,
    /// Calls under way at once: 1 to 1,000.
    #[serde(default = "four", deserialize_with = "up_to::<_, 1_000>")]
    pub calls: usize,
    /// A pointer into the answer, or each of its lines, to the number of matching subscribers.
    pub matched: Option<String>,
    /// A pointer into a line. A line without a status is accepted.
    pub status: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Depth {
    pub request: Template,
    #[serde(default)]
    pub headers: BTreeMap<String, Template>,
    /// A pointer to the number of waiting deliveries.
    pub pointer: String,
    pub bytes: Option<String>,
    pub dead: Option<String>,
    pub delivered: Option<String>,
    pub coalesced: Option<String>,
    pub each: Option<Each>,
    pub kept: Option<RetainedCall>,
}

/// Lists deliveries retained after success, the oldest on the first page.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetainedCall {
    pub request: Template,
    #[serde(default)]
    pub headers: BTreeMap<String, Template>,
    pub list: String,
    /// A pointer to its time.
    pub delivered: String,
}

/// Pointers into the same answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Each {
    pub list: String,
    /// Pointer in each item.
    pub name: String,
    pub pointer: String,
    pub bytes: Option<String>,
    pub dead: Option<String>,
    pub delivered: Option<String>,
    pub coalesced: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dead {
    /// Gets the first page.
    pub request: Template,
    /// Further pages, which may name `{{ next }}`. Required beside `next`.
    pub page: Option<Template>,
    #[serde(default)]
    pub headers: BTreeMap<String, Template>,
    pub list: String,
    /// A pointer to the next page's cursor; absent on the last page.
    pub next: Option<String>,
    /// The subscriber's name, or its saved `id`.
    pub subscriber: String,
    pub id: Option<String>,
    pub reason: Option<String>,
    pub attempts: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// Called for each process.
    pub request: Template,
    #[serde(default)]
    pub headers: BTreeMap<String, Template>,
    pub list: String,
    /// Pointer in each item.
    pub name: String,
    /// A pointer: null or false where the asked process does not serve it.
    pub here: String,
}

/// A string, a number or a boolean, compared with a value of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scalar(pub String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_any(AnyScalar)
    }
}

struct AnyScalar;

impl Visitor<'_> for AnyScalar {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a whole number, true or false")
    }

    fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar(text.to_owned()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Scalar, E> {
        Ok(Scalar(number.to_string()))
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Scalar, E> {
        Ok(Scalar(truth.to_string()))
    }
}

pub(super) fn one_or_more<'de, D: Deserializer<'de>>(source: D) -> Result<Vec<Request>, D::Error> {
    source.deserialize_any(Calls)
}

struct Calls;

impl<'de> Visitor<'de> for Calls {
    type Value = Vec<Request>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table with a request, or a list of them")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vec<Request>, A::Error> {
        Ok(vec![Request::deserialize(MapAccessDeserializer::new(map))?])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Vec<Request>, A::Error> {
        let calls = Vec::deserialize(SeqAccessDeserializer::new(list))?;
        if calls.is_empty() {
            return Err(serde::de::Error::custom("expected at least one call"));
        }
        Ok(calls)
    }
}

fn size<'de, D: Deserializer<'de>>(source: D) -> Result<Size, D::Error> {
    let text = String::deserialize(source)?;
    text.parse().map_err(|problem| serde::de::Error::custom(format_args!("{text:?}: {problem}")))
}

fn up_to<'de, D: Deserializer<'de>, const MOST: usize>(source: D) -> Result<usize, D::Error> {
    let number = usize::deserialize(source)?;
    if (1..=MOST).contains(&number) {
        return Ok(number);
    }
    Err(serde::de::Error::custom(format_args!("{number}: expected 1 to {MOST}")))
}

const fn five_hundred() -> usize {
    500
}

const fn eight_mib() -> Size {
    Size(8 << 20)
}

const fn four() -> usize {
    4
}

pub(super) fn some_length<'de, D: Deserializer<'de>>(source: D) -> Result<Option<Duration>, D::Error> {
    length(source).map(Some)
}

pub(super) fn length<'de, D: Deserializer<'de>>(source: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(source)?;
    text.parse().map_err(|problem| serde::de::Error::custom(format_args!("{text:?}: {problem}")))
}
