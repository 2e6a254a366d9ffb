//! The parts of a signed text.

use std::fmt;

use crate::spelling::nearest;

/// Stands in a body for the signature. A header of this name, which no client can send, has its value until `folded`.
pub const IN_BODY: &str = "{signature}";

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    Id,
    Timestamp,
    Body,
    Url,
    Method,
    /// The pairs of a form, sorted by name, without separators. Empty for another body, whose digest is in the URL.
    Form,
    /// The value of another header.
    Header(String),
    /// The text that names the receiver.
    Audience,
    /// Of the body, in decimal.
    Crc32,
    /// The text of a member of the body, which is JSON, by its pointer.
    Member(String),
    Text(String),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id => f.write_str("{id}"),
            Self::Timestamp => f.write_str("{timestamp}"),
            Self::Body => f.write_str("{body}"),
            Self::Url => f.write_str("{url}"),
            Self::Method => f.write_str("{method}"),
            Self::Form => f.write_str("{form}"),
            Self::Audience => f.write_str("{audience}"),
            Self::Crc32 => f.write_str("{crc32}"),
            Self::Header(name) => write!(f, "{{header.{name}}}"),
            Self::Member(pointer) => write!(f, "{{body{pointer}}}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Parses texts such as `{timestamp}.{body}`.
pub(super) fn parts(text: &str) -> Result<Vec<Part>, String> {
    const KNOWN: [(&str, Part); 8] = [
        ("id", Part::Id),
        ("timestamp", Part::Timestamp),
        ("body", Part::Body),
        ("url", Part::Url),
        ("method", Part::Method),
        ("form", Part::Form),
        ("audience", Part::Audience),
        ("crc32", Part::Crc32),
    ];
    const HEADER: &str = "header.";
    const MEMBER: &str = "body";
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some((before, after)) = rest.split_once('{') {
        let wrong = |hint: String| {
            format!(
                "signed: {text:?} is not understood; expected {{id}}, {{timestamp}}, {{body}}, {{url}}, {{method}}, {{form}}, {{audience}}, {{crc32}}, {{header.NAME}}, {{body/POINTER}}, or a text without braces{hint}"
            )
        };
        let (name, after) = after.split_once('}').ok_or_else(|| wrong(String::new()))?;
        if !before.is_empty() {
            parts.push(Part::Text(before.to_owned()));
        }
        let known = KNOWN.iter().find(|(known, _)| *known == name).map(|(_, part)| part.clone());
        parts.push(match (known, name.strip_prefix(HEADER)) {
            (Some(part), _) => part,
            (None, _) if name.strip_prefix(MEMBER).is_some_and(|rest| rest.starts_with('/')) => {
                is_pointer("signed", &name[MEMBER.len()..])?;
                Part::Member(name[MEMBER.len()..].to_owned())
            }
            (None, Some(header)) => {
                is_name("signed", header)?;
                Part::Header(header.to_owned())
            }
            (None, None) => {
                let meant = nearest(name, KNOWN.iter().map(|(known, _)| *known));
                return Err(wrong(
                    meant.map_or(String::new(), |meant| format!("; did you mean {{{meant}}}?")),
                ));
            }
        });
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest.to_owned()));
    }
    Ok(parts)
}

pub(super) fn is_name(key: &str, text: &str) -> Result<(), String> {
    let is_right = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if !text.is_empty() && text.bytes().all(is_right) {
        return Ok(());
    }
    Err(format!("{key}: {text:?} is not a header name; expected letters, digits and hyphens"))
}

pub(super) fn is_pointer(key: &str, text: &str) -> Result<(), String> {
    if text.len() > 1 && text.starts_with('/') {
        return Ok(());
    }
    Err(format!("{key}: {text:?} is not a JSON pointer; expected one such as /data/id"))
}
