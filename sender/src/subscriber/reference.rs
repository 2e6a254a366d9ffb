mod examples;
pub(crate) mod markdown;
pub(crate) mod plain;
pub(crate) mod schema;

use super::description::{Form, Group, Written};
use super::text::SettingsText;

pub(crate) fn settings() -> Group {
    match SettingsText::form() {
        Form::Group(group) => group,
        other => unreachable!("settings are a group, not {other:?}"),
    }
}

#[cfg(test)]
mod tests;
