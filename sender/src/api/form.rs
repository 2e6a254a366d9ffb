//! A subscriber in requests and answers: its own fields, and its settings beside them.
//!
//! ```json
//! { "name": "acme", "url": "https://acme.example/hook", "events": ["video.*"], "limit": { "rate": "50/s" } }
//! ```

use std::sync::Arc;

use serde_json::{Map, Value};

use super::input::{nothing_left, take_text};
use super::problem::Problem;
use crate::engine::{Nanos, StoreTime};
use crate::event::{EventPatterns, PublicId};
use crate::guard::{Guard, Target};
use crate::oauth::token_url;
use crate::operate::json_forms;
use crate::roster::Roster;
use crate::sign::{Keys, Retiring, Secret, Signer};
use crate::store::read;
use crate::subscriber::{Agreement, RegionSecrets, SettingsText, checked_name};

/// Input that is checked only by itself.
pub(super) struct Written {
    pub(super) name: Option<Arc<str>>,
    pub(super) url: Option<Arc<str>>,
    pub(super) events: Option<EventPatterns>,
    pub(super) settings: Value,
}

impl Written {
    pub(super) fn nothing() -> Self {
        Self { name: None, url: None, events: None, settings: Value::Object(Map::new()) }
    }

    pub(super) fn take(mut object: Map<String, Value>, guard: &Guard) -> Result<Self, Problem> {
        let name = take_text(&mut object, "name")?;
        let name = name.as_deref().map(checked_name).transpose();
        let name = name.map_err(|problem| Problem::unprocessable("bad_name", problem).field("name"))?;
        let url = take_text(&mut object, "url")?.map(|url| Target::parse(&url, guard)).transpose()?;
        let events = take_events(&mut object)?;
        let settings = Value::Object(object);
        if let Some(url) = token_url(&settings) {
            Target::parse(url, guard).map_err(|error| Problem::from(error).field("oauth.token_url"))?;
        }
        Ok(Self { name: name.map(Into::into), url: url.map(|url| url.as_str().into()), events, settings })
    }
}

pub(super) fn take_events(object: &mut Map<String, Value>) -> Result<Option<EventPatterns>, Problem> {
    let events = object.remove("events").map(serde_json::from_value).transpose();
    events.map_err(|error| {
        let message = format!("events cannot be read: {error}; expected a list such as [\"video.*\"]");
        Problem::unprocessable("bad_events", message).field("events")
    })
}

pub(super) fn required<T>(value: Option<T>, field: &str) -> Result<T, Problem> {
    value.ok_or_else(|| {
        Problem::unprocessable("missing_field", format!("the subscriber has no {field}")).field(field)
    })
}

pub(super) fn agree(
    settings: &SettingsText,
    id: &PublicId,
    keys: &Keys,
    regions: &RegionSecrets,
) -> Result<Agreement, Problem> {
    let agreement = settings.validate(id, regions)?;
    // A profile may need another kind of secret.
    Signer::new(agreement.profile, keys)?;
    Ok(agreement)
}

pub(super) struct Rotation {
    pub(super) secret: Option<String>,
    pub(super) overlap: Nanos,
}

impl Rotation {
    const OVERLAP_MAX: Nanos = Nanos::DAY.times(30);

    pub(super) fn take(mut object: Map<String, Value>) -> Result<Self, Problem> {
        let secret = take_text(&mut object, "secret")?;
        let overlap = length(&mut object, "overlap", Nanos::DAY, Self::OVERLAP_MAX)?;
        nothing_left(&object, &["secret", "overlap"])?;
        Ok(Self { secret, overlap })
    }
}

pub(super) fn length(
    object: &mut Map<String, Value>,
    name: &'static str,
    default: Nanos,
    max: Nanos,
) -> Result<Nanos, Problem> {
    let Some(given) = object.remove(name) else { return Ok(default) };
    let length = serde_json::from_value(given).ok().filter(|length| *length <= max);
    length.ok_or_else(|| {
        let message = format!("{name} cannot be read; expected a duration such as {default}, up to {max}");
        Problem::unprocessable("bad_length", message).field(name)
    })
}

/// Shows the fault as this process sees it.
pub(super) fn subscriber(subscriber: &read::Subscriber, roster: &Roster) -> Value {
    let fault = roster.get(subscriber.lane).and_then(|known| known.ready().err().map(ToString::to_string));
    json_forms::subscriber(subscriber, fault)
}

pub(super) fn keys(secrets: &[read::LiveSecret]) -> Result<Keys, Problem> {
    let defect = |message: String| Problem::conflict("broken_secrets", message);
    let parse = |live: &read::LiveSecret| Secret::parse(live.secret.reveal());
    let (newest, older) = secrets
        .split_first()
        .ok_or_else(|| defect("the subscriber has no secret; rotate it to give it one".to_owned()))?;
    let older = older.iter().map(|live| {
        let until = live.retires.unwrap_or(StoreTime(u64::MAX));
        Ok::<_, Problem>(Retiring::new(parse(live)?, until))
    });
    Keys::from_parts(parse(newest)?, older.collect::<Result<_, Problem>>()?)
        .map_err(|error| defect(error.to_string()))
}
