//! The reference of all settings, made of the types that read them: the comments, defaults and ranges of
//! [`text`](super::text), so that nothing is said twice.
//!
//! - `markdown`: `docs/settings.md`.
//! - `plain`: what `hookproof-sender settings` prints.
//! - `schema`: JSON Schema, also the settings of the API's document.
//! - `form`, `range`: how a setting is written, and within what bounds.
//! - `examples`: settings at work, before and after.

mod examples;
mod form;
pub(crate) mod markdown;
pub(crate) mod plain;
mod range;
pub(crate) mod schema;

use serde::Serialize;
use serde_json::Value;

pub(crate) use form::{Form, Written};
pub(crate) use range::{Bound, Range};

use super::text::SettingsText;

/// The settings of one group, or the fields of one rule, in the order of the source.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) about: &'static str,
    pub(crate) settings: Vec<Setting>,
}

/// One setting.
#[derive(Debug)]
pub(crate) struct Setting {
    /// Its name inside its group.
    pub(crate) name: &'static str,
    /// What it means.
    pub(crate) about: &'static str,
    pub(crate) form: Form,
    pub(crate) range: Range,
    pub(crate) default: Default,
}

/// What holds where a setting is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Default {
    /// This.
    Value(Value),
    /// Something that no value of it says.
    Unset(&'static str),
    /// It can't be left out.
    Required,
}

impl Default {
    pub(crate) fn value(value: &impl Serialize) -> Self {
        Self::Value(to_json(value))
    }
}

impl std::fmt::Display for Default {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Value(value) => f.write_str(&shown(value)),
            Self::Unset(what) => f.write_str(what),
            Self::Required => f.write_str("required"),
        }
    }
}

impl Group {
    /// All of a subscriber's settings.
    pub(crate) fn of_settings() -> Self {
        match SettingsText::form() {
            Form::Group(group) => group,
            other => unreachable!("settings are a group, not {other:?}"),
        }
    }

    /// The groups among the settings, each with the setting that it is.
    fn groups(&self) -> impl Iterator<Item = (&Setting, &Self)> {
        self.settings.iter().filter_map(|setting| match &setting.form {
            Form::Group(group) => Some((setting, group)),
            _ => None,
        })
    }

    /// The settings that are no groups.
    fn plain(&self) -> Vec<&Setting> {
        self.settings.iter().filter(|setting| !matches!(setting.form, Form::Group(_))).collect()
    }

    fn all(&self) -> Vec<&Setting> {
        self.settings.iter().collect()
    }
}

/// A value as it is written: text without its quotes, an empty list as `none`.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        other => other.to_string(),
    }
}

fn to_json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("a setting is text, a number, a list or an object with names for keys")
}

#[cfg(test)]
mod tests;
