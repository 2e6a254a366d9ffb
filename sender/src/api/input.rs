//! Reads a request's path, query and body, all bounded. Unknown input is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt, Collected, LengthLimitError, Limited};
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::App;
use super::connection::TooSlow;
use super::problem::Problem;
use super::token::Caller;
use crate::engine::StoreTime;
use crate::event::Limits;
use crate::event::json::{Depth, Json, JsonError};
use crate::excerpt::Excerpt;
use crate::store::paging::Cursor;
use crate::store::read::{Lanes, Subscriber, SubscriberRef};

const COMMAND_BYTES_MAX: usize = 256 << 10;
const PAGE_DEFAULT: u32 = 100;
const PAGE_MAX: u32 = 1_000;

pub(super) struct Segment(pub(super) String);

impl FromRequestParts<App> for Segment {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let path: Result<Path<String>, PathRejection> = Path::from_request_parts(parts, app).await;
        let Path(segment) =
            path.map_err(|_| Problem::bad_request("bad_path", "the decoded path is not UTF-8"))?;
        Ok(Self(segment))
    }
}

/// After the body, because a rename meanwhile may take it out of the caller's restriction.
pub(super) async fn subscriber(app: &App, caller: &Caller, whom: &str) -> Result<Subscriber, Problem> {
    let (id, name): (Arc<str>, Arc<str>) = (whom.into(), whom.into());
    let found = app.sender().read(move |reader| match reader.subscriber(&SubscriberRef::Id(id))? {
        None => reader.subscriber(&SubscriberRef::Name(name)),
        found => Ok(found),
    });
    found.await??.filter(|found| caller.sees(&found.name)).ok_or_else(|| {
        let message = format!("there is no subscriber with the id or name {}", Excerpt::of(whom));
        Problem::not_found("unknown_subscriber", message).field("subscriber")
    })
}

#[derive(Debug)]
pub(super) struct Query(BTreeMap<String, String>);

impl Query {
    /// The client of an unknown or repeated parameter expects an effect.
    pub(super) fn read(text: Option<&str>, known: &[&str]) -> Result<Self, Problem> {
        let mut all = BTreeMap::new();
        for (name, value) in url::form_urlencoded::parse(text.unwrap_or_default().as_bytes()) {
            let shown = Excerpt::of(&name);
            if !known.contains(&&*name) {
                let message = match known {
                    [] => format!("unknown parameter {shown}; expected none"),
                    known => format!("unknown parameter {shown}; expected {}", known.join(", ")),
                };
                return Err(Problem::bad_request("unknown_parameter", message).field(shown.as_str()));
            }
            if all.insert(name.to_string(), value.into_owned()).is_some() {
                let message = format!("the parameter {shown} is given twice");
                return Err(Problem::bad_request("doubled_parameter", message).field(shown.as_str()));
            }
        }
        Ok(Self(all))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn word<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<Option<T>, Problem> {
        let Some(given) = self.get(name) else { return Ok(None) };
        let known = words.iter().find(|(word, _)| *word == given);
        known.map(|(_, meaning)| Some(*meaning)).ok_or_else(|| {
            let all: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            bad(name, given, &format!("one of {}", all.join(", ")))
        })
    }

    pub(super) fn limit(&self) -> Result<u32, Problem> {
        let Some(given) = self.get("limit") else { return Ok(PAGE_DEFAULT) };
        let limit = given.parse().ok().filter(|limit| (1..=PAGE_MAX).contains(limit));
        limit.ok_or_else(|| bad("limit", given, &format!("a whole number from 1 to {PAGE_MAX}")))
    }

    pub(super) fn cursor(&self) -> Result<Option<Cursor>, Problem> {
        let cursor = self.get("cursor").map(str::parse::<Cursor>).transpose();
        cursor.map_err(|error| Problem::bad_request("bad_cursor", error.to_string()).field("cursor"))
    }

    pub(super) async fn lanes(&self, app: &App, caller: &Caller) -> Result<Lanes, Problem> {
        match self.get("subscriber") {
            None => Ok(caller.lanes(&app.sender().roster())),
            Some(whom) => Ok(Lanes::One(subscriber(app, caller, whom).await?.lane)),
        }
    }
}

pub(super) fn bad(name: &str, given: &str, expected: &str) -> Problem {
    let message = format!("{name} is {}; expected {expected}", Excerpt::of(given));
    Problem::bad_request("bad_parameter", message).field(name)
}

pub(super) fn media_type(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(text.split(';').next().unwrap_or(text).trim().to_ascii_lowercase())
}

/// A browser sends this type only after a preflight, which protects a visitor's machine from web pages.
pub(super) fn unsupported(expected: &str) -> Problem {
    let message =
        format!("the content type of the body is not supported; set the header `content-type: {expected}`");
    Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message).field("content-type")
}

pub(super) async fn bytes(body: Body, max: usize) -> Result<Bytes, Problem> {
    let whole = Limited::new(body, max).collect().await;
    whole.map(Collected::to_bytes).map_err(|error| cut(&*error, max))
}

fn cut(error: &(dyn std::error::Error + Send + Sync + 'static), max: usize) -> Problem {
    if error.is::<LengthLimitError>() {
        let message = format!("the body is longer than {max} bytes");
        return Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message);
    }
    let mut causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    if causes.any(|error| error.is::<TooSlow>()) {
        return Problem::new(StatusCode::REQUEST_TIMEOUT, "body_too_slow", TooSlow.to_string());
    }
    Problem::bad_request("body_cut", "the body ended before it was complete")
}

/// For events being read or recorded. Requests beyond it must retry.
#[derive(Debug)]
pub(super) struct Room(Arc<Semaphore>);

/// Holds its room until dropped.
#[derive(Debug)]
pub(super) struct Events {
    pub(super) bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

impl Room {
    pub(super) fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes)))
    }

    /// Reserves room as bytes arrive. Copies the parts: a short part would hold far more memory than its bytes.
    pub(super) async fn read(&self, body: Body, max: usize) -> Result<Events, Problem> {
        let mut body = Limited::new(body, max);
        let (mut whole, mut room) = (Vec::new(), self.take(0)?);
        while let Some(frame) = body.frame().await {
            if let Ok(part) = frame.map_err(|error| cut(&*error, max))?.into_data() {
                room.merge(self.take(part.len())?);
                whole.extend_from_slice(&part);
            }
        }
        Ok(Events { bytes: whole.into_boxed_slice().into(), _room: room })
    }

    fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Problem> {
        let busy = || Problem::busy("the sender is reading too many events at once; try again");
        let bytes = u32::try_from(bytes).map_err(|_| busy())?;
        Arc::clone(&self.0).try_acquire_many_owned(bytes).map_err(|_| busy())
    }
}

pub(super) async fn object(request: Request) -> Result<Map<String, Value>, Problem> {
    if media_type(request.headers()).as_deref() != Some("application/json") {
        return Err(unsupported("application/json"));
    }
    read_object(&bytes(request.into_body(), COMMAND_BYTES_MAX).await?)
}

/// An empty body counts as an empty object.
pub(super) async fn object_or_nothing(request: Request) -> Result<Map<String, Value>, Problem> {
    let kind = media_type(request.headers());
    let bytes = bytes(request.into_body(), COMMAND_BYTES_MAX).await?;
    match kind.as_deref() {
        _ if bytes.is_empty() => Ok(Map::new()),
        Some("application/json") => read_object(&bytes),
        _ => Err(unsupported("application/json")),
    }
}

fn read_object(bytes: &[u8]) -> Result<Map<String, Value>, Problem> {
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(object)) => match doubled(bytes) {
            Err(error) => Err(Problem::bad_request("not_json", format!("the body is not JSON: {error}"))),
            Ok(None) => Ok(object),
            Ok(Some(field)) => {
                let problem =
                    Problem::unprocessable("doubled_field", format!("the field {field} comes twice"));
                Err(problem.field(field.as_str()))
            }
        },
        Ok(_) => Err(Problem::unprocessable("not_an_object", "the body is JSON, but not an object")),
        Err(error) => {
            let problem = Problem::bad_request("not_json", format!("the body is not JSON: {error}"));
            Err(with_lone_surrogate(bytes).map_or(problem, |field| {
                let message =
                    format!("the field {field} has half of a surrogate pair; expected Unicode text");
                Problem::unprocessable("lone_surrogate", message).field(field.as_str())
            }))
        }
    }
}

/// The first field that comes twice in an object: of these, parsing keeps the last.
fn doubled(bytes: &[u8]) -> Result<Option<Excerpt>, JsonError> {
    fn within(json: Json<'_>) -> Option<Excerpt> {
        let mut names = BTreeSet::new();
        for (name, value) in json.fields() {
            let text = name.string().unwrap_or(name.text().into());
            if let Some(found) = within(value) {
                return Some(found);
            }
            if names.contains(&text) {
                return Some(Excerpt::of(&text));
            }
            names.insert(text);
        }
        json.elements().find_map(within)
    }
    Ok(within(Json::parse(bytes, Depth::MAX)?))
}

/// The first field with a lone surrogate, if the rest is JSON.
fn with_lone_surrogate(bytes: &[u8]) -> Option<Excerpt> {
    let mut fields = Json::parse(bytes, Limits::default().depth_max).ok()?.fields();
    let (name, _) =
        fields.find(|(name, value)| name.lone_surrogate().or(value.lone_surrogate()).is_some())?;
    Some(Excerpt::of(&name.string().unwrap_or(name.text().into())))
}

pub(super) fn take_text(object: &mut Map<String, Value>, name: &str) -> Result<Option<String>, Problem> {
    match object.remove(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => {
            Err(Problem::unprocessable("not_text", format!("the field {name} must be text")).field(name))
        }
    }
}

pub(super) fn nothing_left(object: &Map<String, Value>, known: &[&str]) -> Result<(), Problem> {
    let Some(name) = object.keys().next() else { return Ok(()) };
    let shown = Excerpt::of(name);
    let message = format!("unknown field {shown}; expected {}", known.join(", "));
    Err(Problem::unprocessable("unknown_field", message).field(shown.as_str()))
}

pub(super) fn time_text(at: StoreTime) -> Value {
    Value::String(crate::operate::json_forms::moment(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn concurrent_bodies_share_one_bound() {
        let room = Room::new(10);
        let first = room.read(Body::from("12345678"), 100).await.unwrap();
        let refused = room.read(Body::from("1234"), 100).await.unwrap_err();
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(&*room.read(Body::from("12"), 100).await.unwrap().bytes, b"12");
        drop(first);
        assert_eq!(&*room.read(Body::from("1234"), 100).await.unwrap().bytes, b"1234");
        let too_long = room.read(Body::from("1234"), 3).await.unwrap_err();
        assert_eq!(too_long.status(), StatusCode::PAYLOAD_TOO_LARGE);
    }

    struct Part {
        byte: [u8; 1],
        _kept: Arc<()>,
    }

    impl AsRef<[u8]> for Part {
        fn as_ref(&self) -> &[u8] {
            &self.byte
        }
    }

    #[tokio::test]
    async fn of_a_body_in_many_short_parts_no_part_is_kept() {
        let letters: Vec<u8> = (b'a'..=b'z').cycle().take(10_000).collect();
        let kept = Arc::new(());
        let parts = letters.clone().into_iter().map(move |letter| {
            assert!(Arc::strong_count(&kept) <= 3, "{} parts are kept", Arc::strong_count(&kept) - 1);
            Ok::<_, std::io::Error>(Bytes::from_owner(Part { byte: [letter], _kept: Arc::clone(&kept) }))
        });
        let body = Body::from_stream(futures_util::stream::iter(parts));
        let read = Room::new(letters.len()).read(body, letters.len()).await.unwrap();
        assert_eq!(read.bytes, letters);
    }
}
