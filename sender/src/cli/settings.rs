//! `KEY=VALUE` arguments.

use std::str::FromStr;

use serde_json::{Map, Value, json};

use super::failure::Failure;
use crate::event::Pattern;
use crate::event::{EventPatterns, PublicId};
use crate::excerpt::Excerpt;
use crate::guard::{Guard, Target, TargetError};
use crate::oauth::token_url;
use crate::store::read::Subscriber;
use crate::subscriber;

/// Settings with lists: values without brackets are split at commas.
const LISTS: [&str; 5] = ["limit.windows", "retry.schedule", "shape.allow", "shape.pseudonymise", "events"];

const CLIENT_SECRET: &str = "oauth.client_secret";

#[derive(Clone, Debug)]
pub(super) struct Setting {
    key: String,
    value: Value,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text
            .split_once('=')
            .filter(|(key, _)| !key.is_empty())
            .ok_or("expected KEY=VALUE, such as limit.rate=10/s")?;
        let value = read(key, value)?;
        let (group, field) = CLIENT_SECRET.split_once('.').unwrap_or_default();
        if (key == CLIENT_SECRET && value != "null") || (key == group && value[field].is_string()) {
            return Err(format!("{CLIENT_SECRET} would show in `ps`; expected --client-secret-env NAME"));
        }
        Ok(Self { key: key.to_owned(), value })
    }
}

/// Parses JSON if the value looks like it, and else text: `limit.rate=10/s` needs no quotes.
fn read(key: &str, text: &str) -> Result<Value, String> {
    if key == "name" || key == "url" {
        return Ok(Value::String(text.to_owned()));
    }
    if text.starts_with(['[', '{', '"']) {
        return serde_json::from_str(text)
            .map_err(|error| format!("the value begins like JSON but is invalid: {error}"));
    }
    if text.is_empty() {
        return Err("the value is empty; expected a value, or null for the default".to_owned());
    }
    if LISTS.contains(&key) && text != "null" {
        return Ok(text.split(',').map(|item| Value::String(item.trim().to_owned())).collect());
    }
    if key == "headers" && text != "null" {
        // A value may have commas, so text is one header.
        return Ok(json!([text]));
    }
    Ok(serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())))
}

#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) name: Option<String>,
    pub(super) url: Option<String>,
    pub(super) events: Option<EventPatterns>,
    /// For [`crate::subscriber::SettingsText::patched`].
    pub(super) patch: Value,
}

impl Changes {
    /// `secret`: the environment variable with the client secret.
    pub(super) fn new(settings: &[Setting], secret: Option<&str>) -> Result<Self, Failure> {
        let secret = secret.map(|variable| {
            let value = std::env::var(variable).map_err(|error| {
                Failure::usage(format_args!(
                    "the environment variable {variable} cannot be used: {error}; expected a client secret in it"
                ))
            })?;
            Ok::<_, Failure>(Setting { key: CLIENT_SECRET.to_owned(), value: Value::String(value) })
        });
        let secret = secret.transpose()?;
        let mut changes = Self::default();
        let mut patch = Map::new();
        let mut seen = Vec::new();
        for Setting { key, value } in settings.iter().chain(&secret) {
            if seen.contains(&key) {
                return Err(Failure::usage(format_args!(
                    "{} is set twice; expected it once",
                    Excerpt::of(key)
                )));
            }
            seen.push(key);
            match key.as_str() {
                "name" => changes.name = Some(checked_name(value.as_str().unwrap_or_default())?),
                "url" => changes.url = value.as_str().map(str::to_owned),
                "events" => changes.events = Some(events(value)?),
                _ => put(&mut patch, key, value)?,
            }
        }
        changes.patch = Value::Object(patch);
        Ok(changes)
    }
}

fn put(patch: &mut Map<String, Value>, key: &str, value: &Value) -> Result<(), Failure> {
    let Some((group, field)) = key.split_once('.') else {
        patch.insert(key.to_owned(), value.clone());
        return Ok(());
    };
    let group_value = patch.entry(group).or_insert_with(|| Value::Object(Map::new()));
    match group_value {
        Value::Object(fields) => {
            fields.insert(field.to_owned(), value.clone());
            Ok(())
        }
        _ => Err(Failure::usage(format_args!(
            "{} is set both as a whole and by field; expected one of the two",
            Excerpt::of(group)
        ))),
    }
}

fn events(value: &Value) -> Result<EventPatterns, Failure> {
    let problem = "expected patterns, such as events=video.trending,video.*";
    serde_json::from_value(value.clone())
        .map_err(|error| Failure::usage(format_args!("events cannot be read: {error}; {problem}")))
}

pub(super) fn patterns(patterns: &[Pattern]) -> Result<EventPatterns, Failure> {
    if patterns.is_empty() {
        return Ok(EventPatterns::all());
    }
    EventPatterns::try_from(patterns.to_vec()).map_err(Failure::usage)
}

pub(super) fn checked_name(name: &str) -> Result<String, Failure> {
    subscriber::checked_name(name).map(str::to_owned).map_err(Failure::usage)
}

/// Returns the normal form.
pub(super) fn checked_url(url: &str, guard: &Guard) -> Result<String, Failure> {
    let target = Target::parse(url, guard).map_err(|error| {
        let hint = match error {
            TargetError::Refused(_) => "; the options are --allow-private-targets and --allow-network CIDR",
            _ => "",
        };
        Failure::usage(format_args!("{error}{hint}"))
    });
    target.map(|target| target.as_str().to_owned())
}

pub(super) fn check_token_url(patch: &Value, guard: &Guard) -> Result<(), Failure> {
    token_url(patch).map_or(Ok(()), |url| checked_url(url, guard).map(drop))
}

/// Pseudonyms depend on it.
pub(super) fn read_id(subscriber: &Subscriber) -> Result<PublicId, Failure> {
    subscriber.id.parse().map_err(Failure::refused)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_read_as_what_their_key_expects() {
        let rows = [
            ("limit.rate=10/s", json!({"limit": {"rate": "10/s"}})),
            ("limit.burst=5", json!({"limit": {"burst": 5}})),
            (
                "limit.windows=60 per 1s, 900 per 1min",
                json!({"limit": {"windows": ["60 per 1s", "900 per 1min"]}}),
            ),
            ("retry.schedule=[\"1s\",\"2s\"]", json!({"retry": {"schedule": ["1s", "2s"]}})),
            ("headers=X-Team: a, b", json!({"headers": ["X-Team: a, b"]})),
            ("limit.windows=null", json!({"limit": {"windows": null}})),
            ("sign=stripe", json!({"sign": "stripe"})),
            ("a.b.c=1", json!({"a": {"b.c": 1}})),
        ];
        for (text, expected) in rows {
            let changes = Changes::new(&[text.parse().unwrap()], None).unwrap();
            assert_eq!(changes.patch, expected, "{text}");
        }
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        let rows = [
            &["limit.rate=1/s", "limit.rate=2/s"][..],
            &["limit=null", "limit.rate=2/s"],
            &["events=video.*x"],
            &["name="],
        ];
        for row in rows {
            let settings: Vec<Setting> = row.iter().map(|text| text.parse().unwrap()).collect();
            assert!(Changes::new(&settings, None).is_err(), "{row:?}");
        }
        for text in ["limit.rate", "=x", "limit.rate=", "limit.windows=[1"] {
            assert!(text.parse::<Setting>().is_err(), "{text}");
        }
        for secret in ["oauth.client_secret=shown", r#"oauth={"client_secret":"shown"}"#] {
            assert!(secret.parse::<Setting>().unwrap_err().contains("--client-secret-env"), "{secret}");
        }
    }
}
