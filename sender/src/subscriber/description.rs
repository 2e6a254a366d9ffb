//! What is said of a setting, beside reading it: form, range, default, and what it means. [`text`](super::text) says it of
//! every setting, the [reference](super::reference) shows it.

mod form;
mod range;

use serde::Serialize;
use serde_json::Value;

pub(crate) use form::{Form, Written};
pub(super) use form::{PATH, fields, written};
pub(crate) use range::{Bound, Range};

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
    /// The groups among the settings, each with the setting that it is.
    pub(super) fn groups(&self) -> impl Iterator<Item = (&Setting, &Self)> {
        self.settings.iter().filter_map(|setting| match &setting.form {
            Form::Group(group) => Some((setting, group)),
            _ => None,
        })
    }

    /// The settings that are no groups.
    pub(super) fn plain(&self) -> Vec<&Setting> {
        self.settings.iter().filter(|setting| !matches!(setting.form, Form::Group(_))).collect()
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<&Setting> {
        self.settings.iter().collect()
    }
}

/// A value as it is written: text without its quotes, an empty list as `none`.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        other => other.to_string(),
    }
}

fn to_json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("a setting is text, a number, a list or an object with names for keys")
}
