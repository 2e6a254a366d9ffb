//! Rows in PostgreSQL's text form for copies: a line each, with columns separated by tabs, and `\N` for NULL.

use std::fmt::Write as _;

use rusqlite::types::{Value, ValueRef};

use super::super::event_id::EventId;
use crate::excerpt::Excerpt;

/// The type of a column in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Number,
    Text,
    Bytes,
    /// An event's id, which a file stores in a special form.
    EventId,
}

impl Kind {
    /// From the type that the file declares.
    pub(super) fn of(declared: &str) -> Self {
        match declared {
            "INTEGER" => Self::Number,
            "BLOB" => Self::Bytes,
            "ANY" => Self::EventId,
            _ => Self::Text,
        }
    }
}

/// The treatment of NUL characters, which a server's texts cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zeros {
    /// For texts that people read. Another character replaces it, as in a server's own records.
    Replaced,
    /// For texts that are still to be processed.
    Refused,
}

/// Appends a value to its line.
pub(super) fn write(line: &mut String, value: ValueRef<'_>, zeros: Zeros) -> Result<(), String> {
    match value {
        ValueRef::Null => line.push_str("\\N"),
        ValueRef::Integer(number) => line.push_str(&number.to_string()),
        ValueRef::Real(number) => return Err(format!("{number} is no whole number")),
        ValueRef::Text(text) => {
            let text = std::str::from_utf8(text).map_err(|_| "a text is not UTF-8".to_owned())?;
            for letter in text.chars() {
                match letter {
                    '\0' if zeros == Zeros::Replaced => line.push('\u{fffd}'),
                    '\0' => {
                        return Err(format!("{} has a NUL, which a server can't keep", Excerpt::of(text)));
                    }
                    '\\' => line.push_str("\\\\"),
                    '\t' => line.push_str("\\t"),
                    '\n' => line.push_str("\\n"),
                    '\r' => line.push_str("\\r"),
                    letter => line.push(letter),
                }
            }
        }
        ValueRef::Blob(bytes) => {
            line.push_str("\\\\x");
            for byte in bytes {
                // Writing to a string cannot fail.
                let _ = write!(line, "{byte:02x}");
            }
        }
    }
    Ok(())
}

pub(super) fn read(column: &str, kind: Kind) -> Result<Value, String> {
    if column == "\\N" {
        return Ok(Value::Null);
    }
    Ok(match kind {
        Kind::Number => Value::Integer(column.parse().map_err(|_| format!("{column:?} is no number"))?),
        Kind::Text => Value::Text(unescaped(column)?),
        Kind::Bytes => Value::Blob(bytes(column)?),
        Kind::EventId => EventId::new(&unescaped(column)?).into(),
    })
}

fn unescaped(column: &str) -> Result<String, String> {
    let mut text = String::with_capacity(column.len());
    let mut letters = column.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            text.push(letter);
            continue;
        }
        text.push(match letters.next() {
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\u{b}',
            Some('\\') => '\\',
            other => return Err(format!("a backslash before {other:?} means nothing")),
        });
    }
    Ok(text)
}

fn bytes(column: &str) -> Result<Vec<u8>, String> {
    let wrong = || "bytes that are no hexadecimal digits".to_owned();
    let digits = column.strip_prefix("\\\\x").ok_or_else(wrong)?;
    let pair = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).map_err(|_| wrong())?;
        u8::from_str_radix(pair, 16).map_err(|_| wrong())
    };
    if digits.len() % 2 != 0 {
        return Err(wrong());
    }
    digits.as_bytes().chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: Value, kind: Kind, expected: &str) {
        let mut line = String::new();
        write(&mut line, ValueRef::from(&value), Zeros::Refused).unwrap();
        assert_eq!(line, expected);
        assert_eq!(read(&line, kind), Ok(value));
    }

    #[test]
    fn what_is_written_reads_back() {
        check(Value::Null, Kind::Text, "\\N");
        check(Value::Integer(i64::MIN), Kind::Number, "-9223372036854775808");
        check(Value::Text("a\tb\\N\r\nü".to_owned()), Kind::Text, "a\\tb\\\\N\\r\\nü");
        check(Value::Text("\\N".to_owned()), Kind::Text, "\\\\N");
        check(Value::Text(String::new()), Kind::Text, "");
        check(Value::Blob(vec![0, 10, 255]), Kind::Bytes, "\\\\x000aff");
        check(Value::Blob(Vec::new()), Kind::Bytes, "\\\\x");
    }

    #[test]
    fn what_the_other_side_cannot_keep_is_refused() {
        let written = |value, zeros| {
            let mut line = String::new();
            write(&mut line, value, zeros).map(|()| line)
        };
        let zero = ValueRef::Text(b"a\0b");
        let why = r#""a\0b" has a NUL, which a server can't keep"#;
        assert_eq!(written(zero, Zeros::Refused), Err(why.to_owned()));
        assert_eq!(written(zero, Zeros::Replaced), Ok("a\u{fffd}b".to_owned()));
        assert!(written(ValueRef::Text(b"\xff"), Zeros::Replaced).is_err());
        assert!(written(ValueRef::Real(0.5), Zeros::Replaced).is_err());
        assert!(read("1.5", Kind::Number).is_err() && read("\\q", Kind::Text).is_err());
        assert!(read("\\\\x0", Kind::Bytes).is_err() && read("\\\\xzz", Kind::Bytes).is_err());
    }
}
