//! A subscriber as operators write it and see it: its own fields, and its settings beside them.
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
use crate::operate::shown;
use crate::roster::Roster;
use crate::sign::{Keys, Retiring, Secret, Signer};
use crate::store::read;
use crate::subscriber::{Agreement, RegionSecrets, SettingsText};

/// The longest name, in bytes.
const NAME_BYTES_MAX: usize = 100;

/// What an operator wrote about a subscriber: all that may be written, nothing checked against anything else yet.
pub(super) struct Written {
    pub(super) name: Option<Arc<str>>,
    pub(super) url: Option<Arc<str>>,
    pub(super) events: Option<EventPatterns>,
    /// All else: settings.
    pub(super) settings: Value,
}

impl Written {
    /// Nothing, so that all stays as it is.
    pub(super) fn nothing() -> Self {
        Self { name: None, url: None, events: None, settings: Value::Object(Map::new()) }
    }

    /// Takes a subscriber's own fields out of an object; the rest is settings.
    pub(super) fn take(mut object: Map<String, Value>, guard: &Guard) -> Result<Self, Problem> {
        let name = take_text(&mut object, "name")?.map(checked_name).transpose()?;
        let url = take_text(&mut object, "url")?.map(|url| Target::parse(&url, guard)).transpose()?;
        let events = match object.remove("events") {
            None => None,
            Some(events) => Some(serde_json::from_value(events).map_err(|error| {
                let message =
                    format!("events cannot be read: {error}; expected a list such as [\"video.*\"]");
                Problem::unprocessable("bad_events", message).field("events")
            })?),
        };
        Ok(Self { name, url: url.map(|url| url.as_str().into()), events, settings: Value::Object(object) })
    }
}

fn checked_name(name: String) -> Result<Arc<str>, Problem> {
    let problem = if name.is_empty() || name.len() > NAME_BYTES_MAX {
        format!("the name has {} bytes; expected 1 to {NAME_BYTES_MAX}", name.len())
    } else if name.chars().any(char::is_control) || name.trim() != name {
        "the name holds control characters, or blanks at an end".to_owned()
    } else if name.contains('/') || name.starts_with("sub_") {
        "the name holds a '/', or begins with sub_ as an id does; both stand in paths".to_owned()
    } else {
        return Ok(name.into());
    };
    Err(Problem::unprocessable("bad_name", problem).field("name"))
}

/// Refuses an object without a field.
pub(super) fn required<T>(value: Option<T>, field: &str) -> Result<T, Problem> {
    value.ok_or_else(|| {
        Problem::unprocessable("missing_field", format!("the subscriber has no {field}")).field(field)
    })
}

/// Settings that hold, for the subscriber with this id, signed with these keys.
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

/// The secret that an operator gives, or a new one.
pub(super) fn secret_or(
    given: Option<String>,
    fresh: impl FnOnce() -> [u8; Secret::RANDOM_BYTES],
) -> Result<Secret, Problem> {
    given.map_or_else(|| Ok(Secret::generate(&fresh())), |text| Ok(Secret::parse(&text)?))
}

/// What a rotation is asked for with.
pub(super) struct Rotation {
    pub(super) secret: Option<String>,
    /// For how long the old secrets sign too.
    pub(super) overlap: Nanos,
}

impl Rotation {
    const OVERLAP_MAX: Nanos = Nanos::DAY.times(30);

    pub(super) fn take(mut object: Map<String, Value>) -> Result<Self, Problem> {
        let secret = take_text(&mut object, "secret")?;
        let overlap = match object.remove("overlap") {
            None => Nanos::DAY,
            Some(text) => serde_json::from_value(text)
                .ok()
                .filter(|overlap| *overlap <= Self::OVERLAP_MAX)
                .ok_or_else(|| {
                let message = format!(
                    "overlap cannot be read; expected a while such as 24h, up to {}",
                    Self::OVERLAP_MAX
                );
                Problem::unprocessable("bad_overlap", message).field("overlap")
            })?,
        };
        nothing_left(&object, &["secret", "overlap"])?;
        Ok(Self { secret, overlap })
    }
}

/// A subscriber in an answer, and what is wrong with it, as this process sees it.
pub(super) fn subscriber(subscriber: &read::Subscriber, roster: &Roster) -> Value {
    let fault = roster.get(subscriber.lane).and_then(|known| known.ready().err().map(ToString::to_string));
    shown::subscriber(subscriber, fault)
}

/// The keys that a lane signs with.
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
