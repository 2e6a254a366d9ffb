//! An event as the templates of a driver file see it.

use std::borrow::Cow;

use super::template::{Lookup, Variables};
use hookproof_play::settings::EVENT_NAMES;

/// An event as templates see it.
#[derive(Clone, Debug)]
pub struct Event {
    /// The harness's number for it.
    pub token: u64,
    /// The token as text.
    pub text: String,
    /// The token as a UUID.
    pub uuid: String,
    /// Its type.
    pub kind: String,
    /// Its key.
    pub key: String,
    /// Its data, a JSON object.
    pub data: String,
    /// When it is offered, on the wall clock.
    pub unix_ns: u64,
}

/// The variables of a template about an event: its own hide the shared ones.
pub(super) struct Words<'a> {
    pub(super) event: Option<&'a Event>,
    pub(super) others: &'a Variables,
}

impl Event {
    pub(super) fn find(&self, name: &str) -> Option<Cow<'_, str>> {
        let own = match name {
            "data" => &self.data,
            "key" => &self.key,
            "now" => return Some(rfc3339(self.unix_ns / hookproof_judge::scenario::SECOND).into()),
            "token" => &self.text,
            "type" => &self.kind,
            "uuid" => &self.uuid,
            _ => return None,
        };
        Some(own.into())
    }
}

impl Lookup for Words<'_> {
    fn find(&self, name: &str) -> Option<Cow<'_, str>> {
        self.event.and_then(|event| event.find(name)).or_else(|| self.others.find(name))
    }

    fn names(&self) -> Vec<&str> {
        let own: &[&str] = if self.event.is_some() { &EVENT_NAMES } else { &[] };
        let mut names = [own, &self.others.names()].concat();
        names.sort_unstable();
        names.dedup();
        names
    }
}

fn rfc3339(unix_seconds: u64) -> String {
    let (year, month, day) = hookproof_play::endpoint::civil(unix_seconds / 86_400);
    let second = unix_seconds % 86_400;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}
