//! Parses a recording: CSV or JSON Lines with `time`, `type`, and optionally `key` and `bytes`.

use std::path::{Path, PathBuf};

use serde::Deserialize;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Recorded {
    /// Nanoseconds since the recording's first event.
    pub(super) at: u64,
    pub(super) kind: String,
    pub(super) key: String,
    pub(super) bytes: Option<u32>,
}

#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    #[error("the recording {path} cannot be read: {error}; the path is relative to the scenario file", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error.
        error: std::io::Error,
    },
    #[error("{path}:{line}: {what}", path = path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        what: String,
    },
}

/// Reads a recording, sorted by time.
pub(super) fn read(path: &Path) -> Result<Vec<Recorded>, RecordingError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| RecordingError::File { path: path.to_owned(), error })?;
    parse(&text).map_err(|(line, what)| RecordingError::Line { path: path.to_owned(), line, what })
}

fn parse(text: &str) -> Result<Vec<Recorded>, (usize, String)> {
    let is_json = text.trim_start().starts_with('{');
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let columns = if is_json { None } else { Some(Columns::read(lines.next().unwrap_or((1, "")))?) };
    let mut events = Vec::new();
    for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
        let event = match &columns {
            None => json(line),
            Some(columns) => columns.event(line),
        };
        events.push(event.map_err(|what| (number, what))?);
    }
    // Stable, so that simultaneous events keep their order.
    events.sort_by_key(|event| event.at);
    let first = events.first().map_or(0, |event| event.at);
    events.iter_mut().for_each(|event| event.at -= first);
    Ok(events)
}

/// The indexes of a CSV file's columns.
struct Columns {
    time: usize,
    kind: usize,
    key: Option<usize>,
    bytes: Option<usize>,
}

impl Columns {
    fn read((line, head): (usize, &str)) -> Result<Self, (usize, String)> {
        let names: Vec<&str> = head.split(',').map(str::trim).collect();
        let find = |name: &str| names.iter().position(|known| *known == name);
        let need = |name: &str| {
            let missing = || format!("no column {name:?} in {head:?}; expected time,type,key,bytes");
            find(name).ok_or_else(|| (line, missing()))
        };
        Ok(Self { time: need("time")?, kind: need("type")?, key: find("key"), bytes: find("bytes") })
    }

    fn event(&self, line: &str) -> Result<Recorded, String> {
        let fields: Vec<&str> = line.split(',').map(|field| field.trim().trim_matches('"')).collect();
        let field = |at: usize| fields.get(at).copied().unwrap_or_default();
        let optional = |at: Option<usize>| at.map(field).filter(|text| !text.is_empty());
        let bytes = optional(self.bytes)
            .map(|text| text.parse().map_err(|_| format!("bytes is {text:?}; expected a whole number")));
        let kind = field(self.kind).to_owned();
        if kind.is_empty() {
            return Err("type is empty".to_owned());
        }
        let key = optional(self.key).unwrap_or_default().to_owned();
        Ok(Recorded { at: moment(field(self.time))?, kind, key, bytes: bytes.transpose()? })
    }
}

#[derive(Deserialize)]
struct JsonLine {
    time: serde_json::Value,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    key: String,
    bytes: Option<u32>,
}

fn json(line: &str) -> Result<Recorded, String> {
    let JsonLine { time, kind, key, bytes } =
        serde_json::from_str(line).map_err(|error| error.to_string())?;
    let time = match time {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    };
    Ok(Recorded { at: moment(&time)?, kind, key, bytes })
}

/// Parses seconds with up to nine decimals, since any beginning.
fn moment(text: &str) -> Result<u64, String> {
    let wrong = || format!("time is {text:?}; expected seconds, such as 12.5");
    let (seconds, decimals) = text.split_once('.').unwrap_or((text, ""));
    if decimals.len() > 9 || !decimals.bytes().chain(seconds.bytes()).all(|digit| digit.is_ascii_digit()) {
        return Err(wrong());
    }
    let seconds: u64 = seconds.parse().map_err(|_| wrong())?;
    let nanos: u64 = format!("{decimals:0<9}").parse().map_err(|_| wrong())?;
    seconds.checked_mul(1_000_000_000).and_then(|whole| whole.checked_add(nanos)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at: u64, kind: &str, key: &str, bytes: Option<u32>) -> Recorded {
        Recorded { at, kind: kind.to_owned(), key: key.to_owned(), bytes }
    }

    #[test]
    fn csv_and_json_lines_say_the_same_and_begin_at_nothing() {
        let expected = [event(0, "a", "k", Some(20)), event(1_500_000_000, "b", "", None)];
        assert_eq!(parse("time,type,key,bytes\n101.5,b,,\n100,a,k,20\n").unwrap(), expected);
        let json =
            "{\"time\":101.5,\"type\":\"b\"}\n\n{\"time\":\"100\",\"type\":\"a\",\"key\":\"k\",\"bytes\":20}";
        assert_eq!(parse(json).unwrap(), expected);
        assert_eq!(parse("type,time\na,3.25").unwrap(), [event(0, "a", "", None)]);
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, line) in [
            ("", 1),
            ("time,key\n1,2", 1),
            ("time,type\n1,a\nx,b", 3),
            ("time,type\n1,", 2),
            ("time,type,bytes\n1,a,-1", 2),
            ("{\"time\":1,\"type\":\"a\"}\n{\"time\":2}", 2),
        ] {
            assert_eq!(parse(text).unwrap_err().0, line, "{text:?}");
        }
    }
}
