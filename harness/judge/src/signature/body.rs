//! A signature in the body, and one over members of the body.

use std::borrow::Cow;

use serde_json::Value;

use super::definition::Definition;
use super::part::{IN_BODY, Part};

type Header = (String, Vec<u8>);

/// Of a body that tries a template.
const DATA: &str = r#"{"a":"b"}"#;

/// The request as it is sent: the values of [`IN_BODY`] are members of the body. None if it has them already.
#[must_use]
pub fn folded(headers: &[Header], body: &[u8]) -> Option<(Vec<Header>, Vec<u8>)> {
    let placeholder = format!("\"{IN_BODY}\"");
    let place = memchr::memmem::find(body, placeholder.as_bytes());
    let (own, rest): (Vec<_>, Vec<_>) = headers.iter().cloned().partition(|(name, _)| name == IN_BODY);
    let Some(place) = place else { return (!own.is_empty()).then(|| (rest, body.to_vec())) };
    let (front, behind) = (&body[..place], &body[place + placeholder.len()..]);
    let name = front.iter().rev().position(|byte| *byte == b':').map_or(0, |at| place - at - 1);
    let quotes = front[..name].iter().rev().enumerate().filter(|(_, byte)| **byte == b'"');
    let start = quotes.map(|(at, _)| name - at - 1).nth(1).unwrap_or(name);
    let members = own.iter().map(|(_, value)| [&front[start..], b"\"", &escaped(value), b"\""].concat());
    let members = members.collect::<Vec<_>>().join(&b","[..]);
    let (front, behind) =
        if members.is_empty() { joined(&front[..start], behind) } else { (&front[..start], behind) };
    Some((rest, [front, &members, behind].concat()))
}

/// Without the comma beside a member that is left out.
fn joined<'b>(front: &'b [u8], behind: &'b [u8]) -> (&'b [u8], &'b [u8]) {
    match (behind.trim_ascii_start().strip_prefix(b","), front.trim_ascii_end().strip_suffix(b",")) {
        (Some(behind), _) => (front, behind),
        (None, Some(front)) => (front, behind),
        (None, None) => (front, behind),
    }
}

/// Bytes that are no text stay.
fn escaped(value: &[u8]) -> Vec<u8> {
    let each = |byte: &u8| if b"\"\\".contains(byte) { vec![b'\\', *byte] } else { vec![*byte] };
    value.iter().flat_map(each).collect()
}

/// Null, and a member that is missing, are empty.
pub(super) fn text(json: &Value, pointer: &str) -> Cow<'static, [u8]> {
    match json.pointer(pointer) {
        None | Some(Value::Null) => Cow::Borrowed(b""),
        Some(Value::String(text)) => text.clone().into_bytes().into(),
        Some(other) => other.to_string().into_bytes().into(),
    }
}

fn other(value: Option<&Value>) -> Value {
    match value {
        Some(Value::Bool(flag)) => (!flag).into(),
        Some(Value::Number(number)) => number.as_i64().unwrap_or_default().wrapping_add(1).into(),
        Some(Value::String(text)) if text == "true" => "false".into(),
        Some(Value::String(text)) => format!("{text}1").into(),
        _ => "1".into(),
    }
}

impl Definition {
    /// Whether a signature holds for this body alone. One over members holds whatever else is in it.
    #[must_use]
    pub fn signs_body(&self) -> bool {
        let has_bytes = self.signed.iter().any(|part| matches!(part, Part::Body | Part::Crc32));
        has_bytes || self.members().next().is_none()
    }

    fn members(&self) -> impl Iterator<Item = &String> {
        self.signed.iter().filter_map(|part| match part {
            Part::Member(pointer) => Some(pointer),
            _ => None,
        })
    }

    /// The signature's header, or its member of the body.
    #[must_use]
    pub fn signature_place(&self) -> String {
        match &self.habits.signature_field {
            Some(pointer) => format!("{pointer} member"),
            None => format!("{} header", self.header),
        }
    }

    pub(super) fn json(&self, body: &[u8]) -> Value {
        match self.members().next() {
            None => Value::Null,
            Some(_) => serde_json::from_slice(body).unwrap_or_default(),
        }
    }

    #[must_use]
    pub const fn has_own_bodies(&self) -> bool {
        self.habits.body.is_some()
    }

    /// The bodies of the suite's deliveries, if the profile has its own.
    #[must_use]
    pub fn filled(&self, id: &str, event_type: &str, timestamp: &str, data: &str) -> Option<String> {
        let template = self.habits.body.as_deref()?;
        Some(filled(template, id, event_type, timestamp, data))
    }

    /// Each signed member with the body in which it has another value.
    #[must_use]
    pub fn with_other_members(&self, body: &[u8]) -> Vec<(String, Vec<u8>)> {
        let json = self.json(body);
        let changed = self.members().filter_map(|pointer| {
            let mut json = json.clone();
            if let Some(member) = json.pointer_mut(pointer) {
                *member = other(Some(&*member));
            } else {
                let (parent, name) = pointer.rsplit_once('/')?;
                let name = name.replace("~1", "/").replace("~0", "~");
                json.pointer_mut(parent)?.as_object_mut()?.insert(name, other(None));
            }
            Some((pointer.clone(), json.to_string().into_bytes()))
        });
        changed.collect()
    }

    /// The body with one more item, unsigned, behind or in front of the signed one, if that is in a list.
    #[must_use]
    pub fn with_another_item(&self, body: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
        let json = self.json(body);
        let items = |json: &Value, list: &str| json.pointer(list).and_then(Value::as_array).cloned();
        let mut lists = self.members().filter_map(|pointer| pointer.split_once("/0/"));
        let Some((list, signed)) = lists.find_map(|(list, _)| Some((list, items(&json, list)?))) else {
            return Vec::new();
        };
        let mut another = json.clone();
        for pointer in self.members() {
            if let Some(member) = another.pointer_mut(pointer) {
                *member = other(Some(&*member));
            }
        }
        let signature = self.habits.signature_field.as_deref();
        if let Some(own) = signature.and_then(|pointer| another.pointer_mut(pointer)) {
            *own = "".into();
        }
        let unsigned = items(&another, list).unwrap_or_default();
        let places = [
            ("behind the signed one", [signed.as_slice(), &unsigned].concat()),
            ("in front of the signed one", [unsigned.as_slice(), &signed].concat()),
        ];
        let bodies = places.into_iter().filter_map(|(place, items)| {
            let mut json = json.clone();
            *json.pointer_mut(list)? = items.into();
            Some((place, json.to_string().into_bytes()))
        });
        bodies.collect()
    }

    /// Of a profile for the suite, which makes the bodies.
    pub(super) fn check_template(&self) -> Result<(), String> {
        let Some(template) = &self.habits.body else {
            return if self.members().next().is_none() && self.habits.signature_field.is_none() {
                Ok(())
            } else {
                Err("body: it is missing; expected the deliveries' body, with {id} and {data}, and {signature} where it is signed"
                    .to_owned())
            };
        };
        if self.timestamp_field().is_some() || self.is_token() {
            return Err("body: expected it only without `timestamp_field`".to_owned());
        }
        let sample = filled(template, "i", "t", "s", DATA);
        let json: Value = serde_json::from_str(&sample).map_err(|error| {
            format!(
                "body: it is no JSON once {{id}}, {{type}}, {{timestamp}} and {{data}} have values: {error}"
            )
        })?;
        if let Some(missing) = ["{id}", "{data}"].into_iter().find(|one| !template.contains(one)) {
            return Err(format!("body: it lacks {missing}"));
        }
        let signature = self.habits.signature_field.as_deref();
        if let Some((above, _)) = signature.and_then(|pointer| pointer.rsplit_once('/'))
            && json.pointer(above).is_some_and(Value::is_array)
        {
            return Err(format!("signature_field: {above} is a list; expected a member of an object"));
        }
        let has_signature = |pointer: &&String| {
            let rest = signature.and_then(|signature| signature.strip_prefix(pointer.as_str()));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if let Some(pointer) = self.members().find(has_signature) {
            return Err(format!("signed: the signature is in {pointer}; a signature cannot cover itself"));
        }
        if self.with_other_members(sample.as_bytes()).len() < self.members().count() {
            return Err("signed: a member has no place in `body`; check its pointer".to_owned());
        }
        let another = self.json(filled(template, "j", "t", "s", DATA).as_bytes());
        let differs = |pointer: &String| text(&json, pointer) != text(&another, pointer);
        if !self.signs_body() && !self.signed.contains(&Part::Id) && !self.members().any(differs) {
            return Err(
                "signed: no signed member has the {id} of `body`, so one signature would hold for all"
                    .to_owned(),
            );
        }
        match signature {
            Some(pointer) if json.pointer(pointer).and_then(Value::as_str) != Some(IN_BODY) => {
                Err(format!("body: expected \"{IN_BODY}\" at {pointer}, its `signature_field`"))
            }
            None if template.contains(IN_BODY) => {
                Err(format!("body: it has {IN_BODY}; expected `signature_field` as well"))
            }
            _ => Ok(()),
        }
    }
}

fn filled(template: &str, id: &str, event_type: &str, timestamp: &str, data: &str) -> String {
    let texts = template.replace("{id}", id).replace("{type}", event_type);
    texts.replace("{timestamp}", timestamp).replace("{data}", data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_a_member_of_the_body_once_for_each_value() {
        let body = br#"{"a":{"sig":"{signature}","b":1}}"#;
        let check = |values: &[&str], expected: &str| {
            let own = values.iter().map(|value| (IN_BODY.to_owned(), value.as_bytes().to_vec()));
            let headers: Vec<Header> = own.chain([("Host".to_owned(), b"h".to_vec())]).collect();
            let (headers, body) = folded(&headers, body).unwrap();
            assert_eq!(headers, [("Host".to_owned(), b"h".to_vec())]);
            assert_eq!(String::from_utf8(body).unwrap(), expected);
        };
        check(&[], r#"{"a":{"b":1}}"#);
        check(&["x\""], r#"{"a":{"sig":"x\"","b":1}}"#);
        check(&["x", "y"], r#"{"a":{"sig":"x","sig":"y","b":1}}"#);
        let left_out = |body: &str| String::from_utf8(folded(&[], body.as_bytes()).unwrap().1).unwrap();
        for body in [r#"{"b":1,"sig":"{signature}"}"#, r#"{"b":1 , "sig":"{signature}"}"#] {
            assert_eq!(
                serde_json::from_str::<Value>(&left_out(body)).unwrap(),
                serde_json::json!({ "b": 1 })
            );
        }
        assert_eq!(left_out(r#"{"sig":"{signature}" ,"b":1}"#), r#"{"b":1}"#);
        assert_eq!(folded(&[], b"{}"), None);
        assert_eq!(folded(&[(IN_BODY.to_owned(), Vec::new())], b"{}"), Some((Vec::new(), b"{}".to_vec())));
    }
}
