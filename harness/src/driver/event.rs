//! An event on its way to the sender, in the words of templates.

use super::template::Variables;

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

impl Event {
    /// What a template may name of it.
    pub(super) fn variables(&self) -> Variables {
        let own = [
            ("token", self.text.clone()),
            ("uuid", self.uuid.clone()),
            ("type", self.kind.clone()),
            ("key", self.key.clone()),
            ("data", self.data.clone()),
            ("now", rfc3339(self.unix_ns / crate::scenario::SECOND)),
        ];
        own.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

fn rfc3339(unix_seconds: u64) -> String {
    let (year, month, day) = crate::endpoint::civil(unix_seconds / 86_400);
    let second = unix_seconds % 86_400;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}
