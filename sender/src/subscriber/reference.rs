//! The reference of all settings, made of what [`text`](super::text) says of them.
//!
//! - `markdown`: `docs/settings.md`.
//! - `plain`: what `hookproof-sender settings` prints.
//! - `schema`: JSON Schema, also the settings of the API's document.
//! - `examples`: settings at work, before and after.

mod examples;
pub(crate) mod markdown;
pub(crate) mod plain;
pub(crate) mod schema;

use super::description::{Form, Group, Written};
use super::text::SettingsText;

/// All of a subscriber's settings.
pub(crate) fn settings() -> Group {
    match SettingsText::form() {
        Form::Group(group) => group,
        other => unreachable!("settings are a group, not {other:?}"),
    }
}

#[cfg(test)]
mod tests;
