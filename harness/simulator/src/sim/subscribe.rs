//! From the scenario's subscriber to the sender's, with the settings that the driver file sends over HTTP.

use hookproof_judge::scenario::{Duration, Limit, Subscriber};
use hookproof_play::settings::{of_limit, of_subscriber};
use hookproof_sender::event::{EventPatterns, Kind, PublicId};
use hookproof_sender::store::command::Subscribe;
use hookproof_sender::store::lane::Secret;
use hookproof_sender::subscriber::{RegionSecrets, SettingsText};
use serde_json::{Map, Value};

use super::error::SimError;
use super::options::EPOCH;

/// The settings that are JSON objects in the scenario's words.
const SETTINGS: [&str; 4] = ["limit", "queue", "retry", "breaker"];

pub(super) fn subscribe(subscriber: &Subscriber, number: u64, secret: &str) -> Result<Subscribe, SimError> {
    let wrong = |why: String| SimError::Subscriber { name: subscriber.name.clone(), why };
    let url = format!("http://{}.sim.invalid/", number);
    let words = of_subscriber(subscriber, &[], &url, secret);
    let json = |name: &str| {
        let text = words.get(name).map_or("null", String::as_str);
        serde_json::from_str::<Value>(text).map_err(|error| wrong(format!("{name}: {error}")))
    };
    let mut settings = Map::new();
    for name in SETTINGS {
        settings.insert(name.to_owned(), json(name)?);
    }
    settings.insert("coalesce".to_owned(), json("coalesce")?);
    for name in ["dedupe", "sign", "timeout"] {
        settings.insert(name.to_owned(), Value::from(words.get(name).map_or("", String::as_str)));
    }
    let mut unique = [0; PublicId::RANDOM_BYTES];
    unique[..8].copy_from_slice(&number.to_be_bytes());
    let id = PublicId::new(Kind::Subscriber, EPOCH, unique);
    let settings = settings_text(&Value::Object(settings)).map_err(wrong)?;
    let agreement =
        settings.validate(&id, &RegionSecrets::default()).map_err(|error| wrong(error.to_string()))?;
    let patterns: EventPatterns =
        serde_json::from_value(json("events")?).map_err(|error| wrong(error.to_string()))?;
    let patterns = serde_json::to_string(&patterns).map_err(|error| wrong(error.to_string()))?;
    Ok(Subscribe {
        id: id.as_str().into(),
        name: subscriber.name.as_str().into(),
        url: url.into(),
        patterns: patterns.into(),
        settings: settings.to_json().into(),
        bounds: agreement.bounds,
        secret: Secret::new(secret),
    })
}

pub(super) fn relimited(settings: &str, limit: &Limit, timeout: Duration) -> Result<String, String> {
    let mut value: Value = serde_json::from_str(settings).map_err(|error| error.to_string())?;
    let words = of_limit(limit);
    let limit = words.get("limit").map_or("{}", String::as_str);
    value["limit"] = serde_json::from_str(limit).map_err(|error| error.to_string())?;
    value["timeout"] = Value::from(timeout.to_string());
    Ok(settings_text(&value)?.to_json())
}

fn settings_text(value: &Value) -> Result<SettingsText, String> {
    SettingsText::from_json(&value.to_string()).map_err(|error| error.to_string())
}
