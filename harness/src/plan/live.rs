//! Subscribers and their measured latencies from a live sender's database, and recorded traffic in the scenario's place.

use std::path::Path;

use hookproof_sender::store::latency::{Histogram, Over};
use hookproof_sender::store::read::Subscriber;
use hookproof_sender::store::sqlite::SqliteReader;
use hookproof_sender::store::{Reader, StoreError};
use serde_json::Value;
use toml::Table;

use crate::scenario::Scenario;

/// Subscribers read at once; a plan for more is not what this is for.
const SUBSCRIBERS_MAX: u32 = 10_000;

/// What can't be planned from.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The database.
    #[error("{path} can't be read as a sender's database: {error}")]
    Database {
        /// Which.
        path: String,
        /// Why.
        error: StoreError,
    },
    /// There is nobody in it.
    #[error("{0} has no subscribers; expected a database in which a sender has some")]
    Nobody(String),
    /// The scenario that results is none.
    #[error("with what was read, the scenario is none: {0}")]
    Scenario(String),
}

/// The scenario with the subscribers of a sender's database in the place of its own. Their endpoints answer as fast as
/// they were measured to (between the median and the 95th percentile), and don't fail.
///
/// # Errors
/// When the database can't be read, or what it says can't be said in a scenario.
pub fn with_live(scenario: &Scenario, path: &Path) -> Result<Scenario, LiveError> {
    let failed = |error| LiveError::Database { path: path.display().to_string(), error };
    let reader = SqliteReader::open(path).map_err(failed)?;
    let subscribers = reader.subscribers_since(0, SUBSCRIBERS_MAX).map_err(failed)?;
    let lanes: Vec<_> = subscribers.iter().map(|one| one.lane).collect();
    let measured = reader.latencies(&lanes, Over::Ever).map_err(failed)?;
    if subscribers.is_empty() {
        return Err(LiveError::Nobody(path.display().to_string()));
    }
    let tables = subscribers.iter().map(|one| {
        let histogram = measured.iter().find(|(lane, _)| *lane == one.lane).map(|(_, histogram)| histogram);
        table(one, histogram)
    });
    let tables: Vec<toml::Value> = tables.map(toml::Value::Table).collect();
    replaced(scenario, &[("subscriber", Some(tables.into())), ("fault", None), ("expect", None)])
}

/// The scenario with recorded traffic in the place of its own.
///
/// # Errors
/// When the file's name can't be said in a scenario.
pub fn with_recorded(scenario: &Scenario, path: &Path) -> Result<Scenario, LiveError> {
    let path = path.canonicalize().map_err(|error| {
        LiveError::Scenario(format!("{} can't be read: {error}; expected a recording", path.display()))
    })?;
    let phase = Table::from_iter([
        ("shape".to_owned(), "recorded".into()),
        ("file".to_owned(), path.display().to_string().into()),
    ]);
    replaced(scenario, &[("traffic", Some(vec![toml::Value::Table(phase)].into()))])
}

/// The scenario with sections in the place of its own.
fn replaced(scenario: &Scenario, sections: &[(&str, Option<toml::Value>)]) -> Result<Scenario, LiveError> {
    let mut document: Table =
        scenario.text.parse().map_err(|error: toml::de::Error| LiveError::Scenario(error.to_string()))?;
    for (name, section) in sections {
        match section {
            Some(section) => document.insert((*name).to_owned(), section.clone()),
            None => document.remove(*name),
        };
    }
    let text = toml::to_string(&document).map_err(|error| LiveError::Scenario(error.to_string()))?;
    Scenario::from_text(&text, &scenario.name).map_err(|problems| {
        let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
        LiveError::Scenario(told.join("; "))
    })
}

/// A subscriber as a scenario says it.
fn table(subscriber: &Subscriber, measured: Option<&Histogram>) -> Table {
    let settings: Value = serde_json::from_str(&subscriber.settings).unwrap_or_default();
    let mut table = Table::new();
    let name: String =
        subscriber.name.chars().map(|letter| if letter.is_control() { '-' } else { letter }).collect();
    table.insert("name".to_owned(), name.into());
    let patterns: Vec<String> = serde_json::from_str(&subscriber.patterns).unwrap_or_default();
    table.insert("events".to_owned(), patterns.into());
    let fixed = settings["retry"]["backoff"] == "fixed";
    let additive = settings["retry"]["backoff"] == "additive";
    let mut retry = vec!["backoff", "attempts", "ttl", "retry_after_cap"];
    retry.extend(if fixed { &["schedule"][..] } else { &["base", "cap"] });
    retry.extend(additive.then_some("jitter"));
    let sections: [(&str, &[&str]); 4] = [
        ("limit", &["rate", "burst", "windows", "in_flight", "quarantine"]),
        ("queue", &["rows", "bytes", "when_full"]),
        ("retry", &retry),
        ("breaker", &["failures", "cooldown", "cooldown_max"]),
    ];
    for (section, keys) in sections {
        let kept = keys.iter().filter_map(|key| Some(((*key).to_owned(), said(&settings[section][*key])?)));
        table.insert(section.to_owned(), toml::Value::Table(kept.collect()));
    }
    for key in ["timeout", "dedupe", "sign"] {
        table.extend(said(&settings[key]).map(|value| (key.to_owned(), value)));
    }
    if let Some(percentiles) = measured.and_then(Histogram::percentiles) {
        let micros = [percentiles.p50, percentiles.p95].map(|length| length.0 / 1_000);
        table.insert("answers".to_owned(), format!("{}us..{}us", micros[0], micros[1]).into());
    }
    table
}

/// A setting as TOML; nothing for what isn't set.
fn said(value: &Value) -> Option<toml::Value> {
    if value.is_null() { None } else { toml::Value::try_from(value).ok() }
}
