//! An event on its way to the sender, in the words of templates.

use std::borrow::Cow;

use super::template::{Lookup, Variables};
use super::words::EVENT_NAMES;

/// An event, in the words of templates.
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
    /// When it is offered, by the wall clock.
    pub unix_ns: u64,
}

/// What a template about an event may name: what is the event's own, before what any template may name.
pub(super) struct Words<'a> {
    pub(super) event: Option<&'a Event>,
    pub(super) others: &'a Variables,
}

impl Event {
    /// What a template names of it.
    pub(super) fn find(&self, name: &str) -> Option<Cow<'_, str>> {
        let own = match name {
            "data" => &self.data,
            "key" => &self.key,
            "now" => return Some(rfc3339(self.unix_ns / crate::scenario::SECOND).into()),
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
    let (year, month, day) = crate::endpoint::civil(unix_seconds / 86_400);
    let second = unix_seconds % 86_400;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}
