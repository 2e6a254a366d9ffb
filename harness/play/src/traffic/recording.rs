//! Parses a recording: CSV, JSON Lines or an access log with `time`, `type`, and optionally `key` and `bytes`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hookproof_judge::scenario::{COLUMNS, nearest};
use serde_json::Value;

use super::moment::moment;

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
    File { path: PathBuf, error: std::io::Error },
    #[error("{path}:{line}: {what}", path = path.display())]
    Line {
        path: PathBuf,
        /// From 1.
        line: usize,
        what: String,
    },
}

/// Reads a recording, sorted by time. `columns` has the file's names for some of the columns.
pub(super) fn read(path: &Path, columns: &[(String, String)]) -> Result<Vec<Recorded>, RecordingError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| RecordingError::File { path: path.to_owned(), error })?;
    parse(&text, columns).map_err(|(line, what)| RecordingError::Line { path: path.to_owned(), line, what })
}

fn parse(text: &str, columns: &[(String, String)]) -> Result<Vec<Recorded>, (usize, String)> {
    let names = Names(columns);
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = || text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let filled = || lines().filter(|(_, line)| !line.is_empty());
    let (first, head) = filled().next().ok_or((1, "the recording is empty".to_owned()))?;
    let form = if head.starts_with('{') {
        Form::Json
    } else if access(head).is_ok() {
        Form::Access
    } else {
        Form::Csv(names.header(head).map_err(|what| (first, what))?)
    };
    let skipped = usize::from(matches!(form, Form::Csv(_)));
    let mut events = Vec::new();
    for (number, line) in filled().skip(skipped) {
        events.push(form.event(line, names).map_err(|what| (number, what))?);
    }
    if events.is_empty() {
        return Err((first, "the recording has no event below its columns".to_owned()));
    }
    // Stable, so that simultaneous events keep their order.
    events.sort_by_key(|event| event.at);
    let first = events.first().map_or(0, |event| event.at);
    events.iter_mut().for_each(|event| event.at -= first);
    Ok(events)
}

/// The file's names where they differ.
#[derive(Clone, Copy)]
struct Names<'a>(&'a [(String, String)]);

impl Names<'_> {
    fn of<'s>(&'s self, column: &'s str) -> &'s str {
        self.0.iter().find(|(known, _)| known == column).map_or(column, |(_, name)| name)
    }

    fn is_given(&self, column: &str) -> bool {
        self.0.iter().any(|(known, _)| known == column)
    }

    /// Whether the file must have this column.
    fn is_needed(&self, column: &str) -> bool {
        self.is_given(column) || matches!(column, "time" | "type")
    }

    fn header(&self, head: &str) -> Result<[Option<usize>; 4], String> {
        let known = fields(head)?;
        let mut places = [None; 4];
        for (place, column) in places.iter_mut().zip(COLUMNS) {
            *place = known.iter().position(|name| name == self.of(column));
            if place.is_none() && self.is_needed(column) {
                return Err(self.missing(column, known.iter().map(String::as_str)));
            }
        }
        Ok(places)
    }

    fn missing<'k>(&self, column: &str, known: impl Iterator<Item = &'k str> + Clone) -> String {
        let name = self.of(column);
        let listed: Vec<&str> = known.clone().collect();
        let is_free = |name: &&str| COLUMNS.iter().all(|other| self.of(other) != *name);
        let hint = match nearest(name, known.filter(is_free)) {
            Some(meant) => format!("did you mean {column}={meant}?"),
            None => format!("expected a name for it: {column}=NAME"),
        };
        format!("no column {name:?} in {}; {hint}", listed.join(", "))
    }
}

enum Form {
    Csv([Option<usize>; 4]),
    Json,
    Access,
}

impl Form {
    fn event(&self, line: &str, names: Names<'_>) -> Result<Recorded, String> {
        let [time, kind, key, bytes] = match self {
            Self::Csv(places) => {
                let fields = fields(line)?;
                places.map(|place| place.and_then(|place| fields.get(place)).cloned().unwrap_or_default())
            }
            Self::Json => {
                let object: serde_json::Map<String, Value> =
                    serde_json::from_str(line).map_err(|error| error.to_string())?;
                let values = COLUMNS.map(|column| {
                    let value = object.get(names.of(column)).filter(|value| !value.is_null());
                    if value.is_none() && names.is_needed(column) {
                        return Err(names.missing(column, object.keys().map(String::as_str)));
                    }
                    Ok(value.map_or_else(String::new, |value| {
                        value.as_str().map_or_else(|| value.to_string(), str::to_owned)
                    }))
                });
                let [time, kind, key, bytes] = values;
                [time?, kind?, key?, bytes?]
            }
            Self::Access => {
                let fields = access(line)?;
                let values = COLUMNS.map(|column| match fields.get(names.of(column)) {
                    Some(value) => Ok(value.clone()),
                    None if names.is_given(column) => Err(names.missing(column, fields.keys().copied())),
                    None => Ok(String::new()),
                });
                let [time, kind, key, bytes] = values;
                [time?, kind?, key?, bytes?]
            }
        };
        if kind.is_empty() {
            return Err("type is empty".to_owned());
        }
        let wrong = |_| format!("bytes is {bytes:?}; expected a whole number");
        let bytes = if bytes.is_empty() { None } else { Some(bytes.parse().map_err(wrong)?) };
        Ok(Recorded { at: moment(&time)?, kind, key, bytes })
    }
}

/// The fields of a line of CSV; quotes hold commas, and two quotes are one.
fn fields(line: &str) -> Result<Vec<String>, String> {
    let (mut all, mut field, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                letters.next();
                field.push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => all.push(std::mem::take(&mut field).trim().to_owned()),
            letter => field.push(letter),
        }
    }
    if is_quoted {
        return Err("a quote is not closed in its line".to_owned());
    }
    all.push(field.trim().to_owned());
    Ok(all)
}

/// A line of the formats `common` and `combined` of nginx and Apache:
/// `192.0.2.7 - - [27/Nov/2026:20:00:00 +0000] "POST /video/trending HTTP/1.1" 202 512 …`. Its `type` is the path
/// without the query, with dots between its parts: `video.trending`. `/` is `root`, and a letter that no type has is
/// `_`. The size of an answer is no size of an event.
fn access(line: &str) -> Result<BTreeMap<&'static str, String>, String> {
    let wrong = || format!("{line:?} is no line of an access log; expected the format common or combined");
    let (address, rest) = line.split_once(' ').ok_or_else(wrong)?;
    let (_, rest) = rest.split_once('[').ok_or_else(wrong)?;
    let (time, rest) = rest.split_once(']').ok_or_else(wrong)?;
    let (request, rest) =
        rest.trim_start().strip_prefix('"').and_then(|rest| rest.split_once('"')).ok_or_else(wrong)?;
    let mut words = request.split(' ');
    let (method, target) = words.next().zip(words.next()).ok_or_else(wrong)?;
    let mut numbers = rest.split_whitespace();
    let (status, sent) = numbers.next().zip(numbers.next()).ok_or_else(wrong)?;
    let path = target.split_once('?').map_or(target, |(path, _)| path);
    let kind = match path.trim_matches('/') {
        "" => "root".to_owned(),
        path => path.replace('/', ".").replace(|letter: char| !is_of_type(letter), "_"),
    };
    let sent = if sent == "-" { "" } else { sent };
    let fields = [
        ("time", time),
        ("type", &kind),
        ("address", address),
        ("method", method),
        ("path", path),
        ("status", status),
        ("sent", sent),
    ];
    Ok(fields.into_iter().map(|(name, value)| (name, value.to_owned())).collect())
}

const fn is_of_type(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn event(at: u64, kind: &str, key: &str, bytes: Option<u32>) -> Recorded {
        Recorded { at, kind: kind.to_owned(), key: key.to_owned(), bytes }
    }

    fn named(columns: &[(&str, &str)]) -> Vec<(String, String)> {
        columns.iter().map(|(column, name)| ((*column).to_owned(), (*name).to_owned())).collect()
    }

    #[test]
    fn csv_and_json_lines_say_the_same_and_begin_at_nothing() {
        let expected = [event(0, "a", "k", Some(20)), event(1_500_000_000, "b", "", None)];
        assert_eq!(parse("time,type,key,bytes\n101.5,b,,\n100,a,k,20\n", &[]).unwrap(), expected);
        let json =
            "{\"time\":101.5,\"type\":\"b\"}\n\n{\"time\":\"100\",\"type\":\"a\",\"key\":\"k\",\"bytes\":20}";
        assert_eq!(parse(json, &[]).unwrap(), expected);
        assert_eq!(parse("\u{feff}type,time\na,3.25", &[]).unwrap(), [event(0, "a", "", None)]);
    }

    #[test]
    fn columns_have_the_names_of_the_file() {
        let columns = named(&[("time", "created_at"), ("type", "event"), ("key", "video_id")]);
        let expected = [event(0, "a", "7", None), event(SECOND, "b", "8,9", None)];
        let csv = "event,video_id,created_at\na,7,2026-11-27T20:00:00Z\nb,\"8,9\",2026-11-27T20:00:01Z\n";
        assert_eq!(parse(csv, &columns).unwrap(), expected);
        let json = "{\"event\":\"a\",\"video_id\":7,\"created_at\":1700000000000}\n\
                    {\"event\":\"b\",\"video_id\":\"8,9\",\"created_at\":1700000001000}";
        assert_eq!(parse(json, &columns).unwrap(), expected);
    }

    #[test]
    fn an_access_log_has_a_type_for_each_path() {
        let log = "192.0.2.7 - - [27/Nov/2026:20:00:00 +0000] \"POST /video/trending HTTP/1.1\" 202 512 \"-\" \"curl\"\n\
                   2001:db8::7 - bob [27/Nov/2026:21:00:02 +0100] \"POST /video/rank?id=7 HTTP/1.1\" 202 -\n";
        let expected = [event(0, "video.trending", "", None), event(2 * SECOND, "video.rank", "", None)];
        assert_eq!(parse(log, &[]).unwrap(), expected);
        let odd = "1.2.3.4 - - [27/Nov/2026:20:00:00 +0000] \"GET / HTTP/1.1\" 200 -\n\
                   1.2.3.4 - - [27/Nov/2026:20:00:00 +0000] \"GET /caf%C3%A9 HTTP/1.1\" 200 7";
        let bytes = parse(odd, &named(&[("bytes", "sent")])).unwrap();
        assert_eq!(bytes, [event(0, "root", "", None), event(0, "caf_C3_A9", "", Some(7))]);
        let by_address = parse(log, &named(&[("key", "address"), ("type", "method")])).unwrap();
        assert_eq!(by_address[0], event(0, "POST", "192.0.2.7", None));
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, line) in [
            ("", 1),
            ("time,type\n", 1),
            ("time,key\n1,2", 1),
            ("time,type\n1,a\nx,b", 3),
            ("time,type\n1,", 2),
            ("time,type,bytes\n1,a,-1", 2),
            ("time,type\n1,\"a", 2),
            ("{\"time\":1,\"type\":\"a\"}\n{\"time\":2}", 2),
            ("1.2.3.4 - - [27/Nov/2026:20:00:00 +0000] \"POST /a HTTP/1.1\" 202 5\n\n1.2.3.4 - -", 3),
        ] {
            assert_eq!(parse(text, &[]).unwrap_err().0, line, "{text:?}");
        }
    }

    #[test]
    fn an_unknown_column_is_named_with_the_nearest() {
        let told = |text: &str, columns: &[(&str, &str)]| parse(text, &named(columns)).unwrap_err().1;
        let created = [("time", "creatd_at")];
        let expected = "no column \"creatd_at\" in created_at, type; did you mean time=created_at?";
        assert_eq!(told("created_at,type\n1,a", &created), expected);
        assert_eq!(told("{\"created_at\":1,\"type\":\"a\"}", &created), expected);
        let log = "1.2.3.4 - - [27/Nov/2026:20:00:00 +0000] \"POST /a HTTP/1.1\" 202 5";
        assert!(told(log, &[("key", "adress")]).ends_with("did you mean key=address?"));
        let strange = told("when,type\n1,a", &[]);
        assert_eq!(strange, "no column \"time\" in when, type; expected a name for it: time=NAME");
    }
}
