//! Subscribers and latencies from a live sender's database, and traffic from a recording.

use std::collections::BTreeSet;
use std::path::Path;

use hookproof_sender::store::lane::LaneState;
use hookproof_sender::store::latency::{Histogram, Over};
use hookproof_sender::store::read::Subscriber;
use hookproof_sender::store::sqlite::SqliteReader;
use hookproof_sender::store::{Reader, StoreError};
use serde_json::Value;
use toml::Table;

use hookproof_judge::scenario::Scenario;

const SUBSCRIBERS_MAX: u32 = 10_000;

/// Those that a scenario can express.
const SAID: [&str; 8] = ["limit", "queue", "retry", "breaker", "timeout", "dedupe", "sign", "coalesce"];

#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    #[error("{path} cannot be read as a sender's database: {error}")]
    Database { path: String, error: StoreError },
    #[error("{0} has no active subscribers; expected a database in which a sender has some")]
    Nobody(String),
    #[error("the scenario with the data of the sender is invalid: {0}")]
    Scenario(String),
}

#[derive(Clone, Debug)]
pub struct Live {
    pub scenario: Scenario,
    /// Differences from the database, a line each.
    pub notes: Vec<String>,
}

/// Replaces a scenario's subscribers by those of a sender's database. Their endpoints never fail, and answer
/// as measured (median to 95th percentile). Paused subscribers are left out.
///
/// # Errors When the database can't be read, or a scenario can't express its content.
pub fn with_live(scenario: &Scenario, path: &Path) -> Result<Live, LiveError> {
    let failed = |error| LiveError::Database { path: path.display().to_string(), error };
    let reader = SqliteReader::open(path).map_err(failed)?;
    let all = reader.subscribers_since(0, SUBSCRIBERS_MAX).map_err(failed)?;
    let (active, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.state == LaneState::Active);
    let present = others.iter().filter(|one| one.state != LaneState::Removed);
    let mut notes: Vec<String> = present
        .map(|one| format!("{} is {}, so the plan leaves it out", one.name, word(one.state)))
        .collect();
    if active.is_empty() {
        return Err(LiveError::Nobody(path.display().to_string()));
    }
    let lanes: Vec<_> = active.iter().map(|one| one.lane).collect();
    let measured = reader.latencies(&lanes, Over::Ever).map_err(failed)?;
    let (mut names, mut tables) = (BTreeSet::new(), Vec::new());
    for one in &active {
        let measured = measured.iter().find(|(lane, _)| *lane == one.lane).map(|(_, histogram)| histogram);
        let name = free_name(&one.name, &mut names);
        if name != *one.name {
            notes.push(format!("{:?} is named {name} in this plan", one.name));
        }
        tables.push(toml::Value::Table(table(one, name, measured.map(|it| &it.answer), &mut notes)));
    }
    let sections = [("subscriber", Some(tables.into())), ("fault", None), ("expect", None)];
    Ok(Live { scenario: replaced(scenario, &sections)?, notes })
}

const fn word(state: LaneState) -> &'static str {
    match state {
        LaneState::Active => "active",
        LaneState::Paused => "paused",
        LaneState::Disabled => "disabled",
        LaneState::Removed => "removed",
    }
}

const NAME_MAX: usize = 64;

/// A valid, unused name for a scenario; the sender accepts any text.
fn free_name(name: &str, taken: &mut BTreeSet<String>) -> String {
    let fine = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let plain: String =
        name.chars().map(|letter| if fine(letter) { letter } else { '-' }).take(NAME_MAX).collect();
    let plain = if plain.is_empty() { "unnamed".to_owned() } else { plain };
    let mut free = plain.clone();
    for number in 2_u64.. {
        if taken.insert(free.clone()) {
            break;
        }
        let mark = format!("-{number}");
        free = plain.chars().take(NAME_MAX - mark.len()).chain(mark.chars()).collect();
    }
    free
}

/// `columns` has the file's names for some columns.
///
/// # Errors When a scenario can't express the file's name.
pub fn with_recorded(
    scenario: &Scenario,
    path: &Path,
    columns: &[(String, String)],
) -> Result<Scenario, LiveError> {
    let path = path.canonicalize().map_err(|error| {
        LiveError::Scenario(format!("{} cannot be read: {error}; expected a recording", path.display()))
    })?;
    let columns = columns.iter().map(|(column, name)| (column.clone(), name.clone().into()));
    let phase = Table::from_iter([
        ("shape".to_owned(), "recorded".into()),
        ("file".to_owned(), path.display().to_string().into()),
        ("columns".to_owned(), toml::Value::Table(columns.collect())),
    ]);
    replaced(scenario, &[("traffic", Some(vec![toml::Value::Table(phase)].into()))])
}

fn replaced(scenario: &Scenario, sections: &[(&str, Option<toml::Value>)]) -> Result<Scenario, LiveError> {
    let mut document: Table =
        scenario.text.parse().map_err(|error: toml::de::Error| LiveError::Scenario(error.to_string()))?;
    for (name, section) in sections {
        match section {
            Some(section) => document.insert((*name).to_owned(), section.clone()),
            None => document.remove(*name),
        };
    }
    scenario_of(scenario, &document)
}

/// Keeps the old name.
pub(super) fn scenario_of(scenario: &Scenario, document: &Table) -> Result<Scenario, LiveError> {
    let text = toml::to_string(document).map_err(|error| LiveError::Scenario(error.to_string()))?;
    Scenario::from_text(&text, &scenario.name).map_err(|problems| {
        let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
        LiveError::Scenario(told.join("; "))
    })
}

fn table(
    subscriber: &Subscriber,
    name: String,
    measured: Option<&Histogram>,
    notes: &mut Vec<String>,
) -> Table {
    let settings: Value = serde_json::from_str(&subscriber.settings).unwrap_or_default();
    let unsaid = settings.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
    let unsaid: Vec<&str> = unsaid.filter(|key| !SAID.contains(key)).collect();
    if !unsaid.is_empty() {
        notes
            .push(format!("{name}: the plan ignores {}, which a scenario cannot express", unsaid.join(", ")));
    }
    let mut table = Table::new();
    table.insert("name".to_owned(), name.into());
    let patterns: Vec<String> = serde_json::from_str(&subscriber.patterns).unwrap_or_default();
    table.insert("events".to_owned(), patterns.into());
    let fixed = settings["retry"]["backoff"] == "fixed";
    let additive = settings["retry"]["backoff"] == "additive";
    let mut retry = vec!["backoff", "attempts", "ttl", "retry_after_cap"];
    retry.extend(if fixed { &["schedule"][..] } else { &["base", "cap"] });
    retry.extend(additive.then_some("jitter"));
    let sections: [(&str, &[&str]); 4] = [
        ("limit", &["rate", "burst", "windows", "in_flight", "pace", "quarantine", "doubt"]),
        ("queue", &["rows", "bytes", "when_full"]),
        ("retry", &retry),
        ("breaker", &["failures", "cooldown", "cooldown_max"]),
    ];
    for (section, keys) in sections {
        let kept =
            keys.iter().filter_map(|key| Some(((*key).to_owned(), toml_value(&settings[section][*key])?)));
        table.insert(section.to_owned(), toml::Value::Table(kept.collect()));
    }
    for key in ["timeout", "dedupe", "sign"] {
        table.extend(toml_value(&settings[key]).map(|value| (key.to_owned(), value)));
    }
    let coalesced: Vec<toml::Value> = settings["coalesce"].as_array().map_or_else(Vec::new, |rules| {
        let rule = |rule: &Value| {
            let words = [("type", toml_value(&rule["events"])?), ("window", toml_value(&rule["window"])?)];
            Some(toml::Value::Table(words.map(|(key, value)| (key.to_owned(), value)).into_iter().collect()))
        };
        rules.iter().filter_map(rule).collect()
    });
    if !coalesced.is_empty() {
        table.insert("coalesce".to_owned(), coalesced.into());
    }
    if let Some(percentiles) = measured.and_then(Histogram::percentiles) {
        let micros = [percentiles.p50, percentiles.p95].map(|length| length.0 / 1_000);
        table.insert("answers".to_owned(), format!("{}us..{}us", micros[0], micros[1]).into());
    }
    table
}

/// None if it is not set.
fn toml_value(value: &Value) -> Option<toml::Value> {
    if value.is_null() { None } else { toml::Value::try_from(value).ok() }
}
