use std::collections::BTreeMap;

use serde::Deserializer;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use serde_path_to_error::Track;

use super::error::SettingsError;
use super::form::object;
use super::text::{OauthText, PermissionText, SettingsText, ShapeText, TlsText};
use crate::oauth::token_url;

impl SettingsText {
    /// Errors name the field.
    pub fn read<'de, D: Deserializer<'de>>(source: D) -> Result<Self, SettingsError> {
        let mut track = Track::new();
        let tracked = serde_path_to_error::Deserializer::new(source, &mut track);
        match object(tracked) {
            Ok(settings) => Ok(settings.unwrap_or_default()),
            Err(error) => Err(SettingsError::at(&track.path(), &error.to_string())),
        }
    }

    pub fn from_json(text: &str) -> Result<Self, SettingsError> {
        // First, so that no field is blamed for a JSON syntax error.
        serde_json::from_str::<IgnoredAny>(text)
            .map_err(|error| SettingsError::not_json(&error.to_string()))?;
        Self::read(&mut serde_json::Deserializer::from_str(text))
    }

    #[must_use]
    pub fn to_json(&self) -> String {
        self.value().to_string()
    }

    /// Null where no value expresses the default. As a patch it changes nothing. A client secret is left out.
    #[must_use]
    pub fn in_effect(&self) -> Value {
        let mut whole = self.shown().value();
        for (section, fields) in [
            ("shape", ShapeText::FIELDS),
            ("tls", TlsText::FIELDS),
            ("oauth", OauthText::FIELDS),
            ("permission", PermissionText::FIELDS),
        ] {
            let unset = json!(fields.iter().map(|name| (*name, Value::Null)).collect::<BTreeMap<_, _>>());
            let given = std::mem::replace(&mut whole[section], unset);
            if let (Value::Object(shown), Value::Object(given)) = (&mut whole[section], given) {
                shown.extend(given);
            }
        }
        if let Value::Object(oauth) = &mut whole["oauth"]
            && oauth.get("client_secret").is_some_and(Value::is_string)
        {
            oauth.remove("client_secret");
        }
        whole
    }

    /// `null` resets a field, and missing fields stay. Groups are patched field by field, lists replaced.
    pub fn patched(&self, patch: &Value) -> Result<Self, SettingsError> {
        Self::changed(self.value(), patch)
    }

    /// As [`Self::patched`], of stored settings: a change may mend a field that cannot be read.
    pub fn patched_json(stored: &str, patch: &Value) -> Result<Self, SettingsError> {
        let whole = serde_json::from_str(stored);
        Self::changed(whole.map_err(|error| SettingsError::not_json(&error.to_string()))?, patch)
    }

    fn changed(mut whole: Value, patch: &Value) -> Result<Self, SettingsError> {
        // First, because a null would hide an unknown field.
        Self::read(patch)?;
        let is_moved = |url| token_url(&whole).is_some_and(|known| known != url);
        if token_url(patch).is_some_and(is_moved) && patch["oauth"].get("client_secret").is_none() {
            let problem = "has changed; set oauth.client_secret too, as the stored one is for the former URL";
            return Err(SettingsError::Contradiction { field: "oauth.token_url", problem: problem.into() });
        }
        if let (Value::Object(whole), Value::Object(patch)) = (&mut whole, patch) {
            for (name, change) in patch {
                change_field(whole, name, change);
            }
        }
        Self::read(&whole)
    }

    fn value(&self) -> Value {
        serde_json::to_value(self).expect("settings are text, numbers, lists and objects with names for keys")
    }
}

fn change_field(whole: &mut Map<String, Value>, name: &str, change: &Value) {
    match change {
        Value::Null => drop(whole.remove(name)),
        Value::Object(changes) => {
            let group = whole.entry(name).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(group) = group {
                for (name, change) in changes {
                    match change {
                        Value::Null => drop(group.remove(name)),
                        change => drop(group.insert(name.clone(), change.clone())),
                    }
                }
                if group.is_empty() {
                    whole.remove(name);
                }
            }
        }
        change => drop(whole.insert(name.to_owned(), change.clone())),
    }
}
