//! A setting's documentation. [`text`](super::text) declares it, and the [reference](super::reference) shows it.

mod form;
mod range;

use serde::Serialize;
use serde_json::Value;

pub(crate) use form::{Form, Written};
pub(super) use form::{PATH, fields, written};
pub(crate) use range::{Bound, Range};

/// In source order.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) about: &'static str,
    pub(crate) settings: Vec<Setting>,
}

#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) form: Form,
    pub(crate) range: Range,
    pub(crate) default: Default,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Default {
    Value(Value),
    /// No value expresses it.
    Unset(&'static str),
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
            Self::Value(value) => f.write_str(&plain_text(value)),
            Self::Unset(what) => f.write_str(what),
            Self::Required => f.write_str("required"),
        }
    }
}

impl Group {
    pub(super) fn groups(&self) -> impl Iterator<Item = (&Setting, &Self)> {
        self.settings.iter().filter_map(|setting| match &setting.form {
            Form::Group(group) => Some((setting, group)),
            _ => None,
        })
    }

    pub(super) fn plain(&self) -> Vec<&Setting> {
        self.settings.iter().filter(|setting| !matches!(setting.form, Form::Group(_))).collect()
    }

    pub(super) fn all(&self) -> Vec<&Setting> {
        self.settings.iter().collect()
    }
}

/// Omits quotes; `none` for an empty list.
pub(super) fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        other => other.to_string(),
    }
}

fn to_json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("a setting is text, a number, a list or an object with names for keys")
}
