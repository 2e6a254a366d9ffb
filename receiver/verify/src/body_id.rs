//! Ids and times in the body, read only after the signature was verified.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use sha2::{Digest as _, Sha256};

use super::headers::is_id;

/// The first `id` in the body's object, if it is a valid id; else `sha256:` and the hash of the body.
pub(super) fn of(body: &[u8]) -> Cow<'_, str> {
    written(body).unwrap_or_else(|| hashed(body).into())
}

fn written(body: &[u8]) -> Option<Cow<'_, str>> {
    first(body, "id").map(|Text(id)| id).filter(|id| is_id(id))
}

/// The first member of this name at the top, if it is a whole number and not negative.
pub(super) fn number(body: &[u8], name: &str) -> Option<i64> {
    first(body, name).filter(|count| *count >= 0)
}

pub(super) fn says(body: &[u8], name: &str, text: &str) -> bool {
    first(body, name).is_some_and(|Text(found)| found == text)
}

pub(super) fn has(body: &[u8], name: &str) -> bool {
    first::<IgnoredAny>(body, name).is_some()
}

fn first<'de, T: Deserialize<'de>>(body: &'de [u8], name: &str) -> Option<T> {
    let mut found = None;
    // The rest of the body need not be JSON.
    let _ = serde_json::Deserializer::from_slice(body).deserialize_map(Search { name, found: &mut found });
    found
}

pub(super) fn hashed(body: &[u8]) -> String {
    use fmt::Write as _;
    let mut text = "sha256:".to_owned();
    for byte in Sha256::digest(body) {
        write!(text, "{byte:02x}").expect("writing to a String does not fail");
    }
    text
}

struct Search<'p, T> {
    name: &'p str,
    found: &'p mut Option<T>,
}

/// Borrowed unless it has escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Search<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Text(name)) = map.next_key()? {
            if name == self.name {
                *self.found = Some(map.next_value()?);
                return Ok(());
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, expected: Option<&str>) {
        assert_eq!(written(body.as_bytes()).as_deref(), expected, "{body}");
    }

    #[test]
    fn the_first_id_at_the_top_counts() {
        check(r#"{"id":"evt_1","data":{"id":"other"}}"#, Some("evt_1"));
        check(r#"{"data":{"id":"other"},"id":"evt_1"}"#, Some("evt_1"));
        check(r#"{"id":"first","id":"second"}"#, Some("first"));
        check(r#"{"id":"\u0065vt_1"}"#, Some("evt_1"));
        check(r#" { "id" : "evt_1" , not json any more"#, Some("evt_1"));
    }

    #[test]
    fn an_invalid_id_is_none() {
        for body in [
            "",
            "{}",
            "[]",
            "null",
            r#"{"id":7}"#,
            r#"{"id":""}"#,
            r#"{"id":"a b"}"#,
            r#"{"id":"é"}"#,
            r#"["id","x"]"#,
        ] {
            check(body, None);
        }
        check(&format!(r#"{{"id":"{}"}}"#, "x".repeat(257)), None);
    }

    #[test]
    fn depth_costs_nothing() {
        let deep = "[".repeat(100_000);
        check(&format!(r#"{{"data":{deep}"#), None);
        check(&format!(r#"{{"id":"evt_1","data":{deep}"#), Some("evt_1"));
    }

    #[test]
    fn without_an_id_the_bytes_are_the_id() {
        assert_eq!(of(b"[]"), "sha256:4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945");
        assert_eq!(of(b"\xff"), of(b"\xff"));
        assert_ne!(of(b"[]"), of(b"[ ]"));
    }
}
