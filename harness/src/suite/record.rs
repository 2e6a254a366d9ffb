//! An exchange in a report: bounded text, without the secret.

use std::time::Duration;

use serde::Serialize;

use super::settings::Settings;
use super::want::words;
use crate::wire::answer::Answer;
use crate::wire::exchange::{Exchange, Outcome};
use crate::wire::request::{Framing, Request, Spelling, Target};

const BODY_SHOWN_MAX: usize = 600;
const HEAD_SHOWN_MAX: usize = 4_000;
const BODY_CURL_MAX: usize = 16_000;

#[derive(Clone, Debug, Serialize)]
pub struct Recorded {
    pub label: String,
    pub request: String,
    pub wanted: String,
    /// The result, in a few words.
    pub came: String,
    pub answer: String,
    pub seconds: f64,
    pub met: bool,
    /// A command that repeats it, where one can.
    pub curl: Option<String>,
    pub no_curl: Option<String>,
}

/// The way in which a command line repeats an exchange.
#[derive(Clone, Copy, Debug)]
pub(super) enum Repeat<'a> {
    Curl,
    /// With further options.
    With(&'static str),
    /// So many times at once.
    AtOnce(usize),
    /// On the connection of this request, after it.
    After(&'a Request),
    /// With the output of this command as its body, which has no end.
    Fed(&'static str),
    /// No command line does, for this reason.
    Not(&'static str),
}

impl Recorded {
    pub(super) fn new(
        label: &str,
        wanted: &str,
        met: bool,
        request: &Request,
        exchange: &Exchange,
        repeat: Repeat<'_>,
        settings: &Settings,
    ) -> Self {
        let request = &*request.sent();
        let (curl, no_curl) = match repeated(&settings.target, request, repeat) {
            Ok(line) => (Some(settings.redact_text(&line)), None),
            Err(why) => (None, Some(why)),
        };
        // Redacts first: half a secret, or an escaped one, would not be recognised.
        let shown = |head: &[u8], body: &[u8]| display_text(&settings.redact(head), &settings.redact(body));
        let answer = match &exchange.outcome {
            Outcome::Answer(answer) => shown(&head(answer), &answer.body),
            _ => String::new(),
        };
        Self {
            label: label.to_owned(),
            request: shown(&request.head(), &request.body),
            wanted: wanted.to_owned(),
            came: settings.redact_text(&words(&exchange.outcome)),
            answer,
            seconds: rounded(exchange.took),
            met,
            curl,
            no_curl,
        }
    }

    /// The command that repeats it, or the reason why none does.
    pub(super) fn repeat(&self) -> String {
        let none = || format!("no command: {}", self.no_curl.as_deref().unwrap_or_default());
        self.curl.clone().unwrap_or_else(none)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a time for people, far below 2^53 tenths of a millisecond")]
pub(super) fn rounded(length: Duration) -> f64 {
    (length.as_micros() / 100) as f64 / 10_000.0
}

fn head(answer: &Answer) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {}\r\n", answer.status).into_bytes();
    for (name, value) in &answer.headers {
        head.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
    }
    head
}

fn display_text(head: &[u8], body: &[u8]) -> String {
    let cut = |bytes: &[u8], most: usize| {
        let text: String = bytes[..bytes.len().min(most)].escape_ascii().to_string();
        let text =
            text.replace("\\r\\n", "\n").replace("\\n", "\n").replace("\\\"", "\"").replace("\\'", "'");
        if bytes.len() > most { format!("{text} … ({} bytes)", bytes.len()) } else { text }
    };
    format!("{}\n{}", cut(head, HEAD_SHOWN_MAX), cut(body, BODY_SHOWN_MAX))
}

fn repeated(target: &Target, request: &Request, repeat: Repeat<'_>) -> Result<String, String> {
    is_short(request.headers.iter().map(|(_, value)| value.len()).sum())?;
    if let Some(command) = &target.command {
        let bytes = request.bytes();
        return fits(&bytes)
            .map(|()| format!("printf %s {} | sh -c {}", quoted(&bytes), quoted(command.as_bytes())));
    }
    let line = |request| Ok::<_, String>(format!("curl {} {}", options(target, request), body(request)?));
    match repeat {
        Repeat::Curl => line(request),
        Repeat::With(more) => Ok(format!("{} {more}", line(request)?)),
        Repeat::AtOnce(times) => Ok(format!("for _ in $(seq {times}); do {} & done; wait", line(request)?)),
        Repeat::After(first) => {
            let first = &*first.sent();
            Ok(format!("{} --next {} {}", line(first)?, options(target, request), body(request)?))
        }
        Repeat::Fed(command) => {
            Ok(format!("{command} | curl {} -H 'Expect:' -T .", options(target, request)))
        }
        Repeat::Not(why) => Err(why.to_owned()),
    }
}

/// Bytes that are no text use the shell's `$'…'`.
fn options(target: &Target, request: &Request) -> String {
    let origin = target.url.strip_suffix(&target.path);
    let url = origin.map_or_else(|| target.url.clone(), |origin| format!("{origin}{}", request.path));
    let mut line = format!("-sS -i -X {} {}", request.method, quoted(url.as_bytes()));
    for (name, value) in &request.headers {
        // curl omits a header without a value unless it ends with a semicolon.
        let header = if value.is_empty() {
            format!("{name};").into_bytes()
        } else {
            [name.as_bytes(), b": ", value].concat()
        };
        line.push_str(&format!(" -H {}", quoted(&header)));
    }
    line
}

fn is_short(length: usize) -> Result<(), String> {
    if length > BODY_CURL_MAX {
        return Err(format!("it has {length} bytes, and a command line holds {BODY_CURL_MAX}"));
    }
    Ok(())
}

fn fits(bytes: &[u8]) -> Result<(), String> {
    is_short(bytes.len())?;
    if bytes.contains(&0) {
        return Err("it has a NUL byte, which no command line holds".to_owned());
    }
    Ok(())
}

fn body(request: &Request) -> Result<String, String> {
    fits(&request.body)?;
    let chunked = match request.framing {
        Framing::Length => "",
        Framing::Chunks(_, Spelling::Plain | Spelling::UpperCase) => "-H 'Transfer-Encoding: chunked' ",
        Framing::Chunks(_, Spelling::Extended | Spelling::Trailer) => {
            return Err("curl writes neither chunk extensions nor trailers".to_owned());
        }
    };
    Ok(format!("{chunked}--data-binary {}", quoted(&request.body)))
}

pub(crate) fn quoted(bytes: &[u8]) -> String {
    let plain = |byte: &u8| matches!(byte, b' '..=b'~') && *byte != b'\'';
    if bytes.iter().all(plain) {
        return format!("'{}'", String::from_utf8_lossy(bytes));
    }
    let mut text = String::from("$'");
    for byte in bytes {
        match byte {
            b'\'' | b'\\' => text.extend(['\\', char::from(*byte)]),
            b' '..=b'~' => text.push(char::from(*byte)),
            other => text.push_str(&format!("\\x{other:02x}")),
        }
    }
    text.push('\'');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_carries_every_byte() {
        assert_eq!(quoted(b"{\"a\": 1}"), "'{\"a\": 1}'");
        assert_eq!(quoted(b"it's\n\xff\\"), r"$'it\'s\x0a\xff\\'");
    }

    #[test]
    fn an_exchange_is_repeated_in_its_way_or_the_reason_is_told() {
        let target = Target::parse("http://127.0.0.1:9/hook").unwrap();
        let request = |body: &[u8]| Request {
            method: "POST",
            path: "/hook".to_owned(),
            headers: vec![("A".to_owned(), b"b".to_vec())],
            body: body.to_vec(),
            framing: Framing::Length,
        };
        let (plain, other) = (request(b"{}"), request(b"[]"));
        let long = request(&[b'x'; BODY_CURL_MAX + 1]);
        let curl = "curl -sS -i -X POST 'http://127.0.0.1:9/hook' -H 'A: b'";
        let rows = [
            (Repeat::Curl, Ok(format!("{curl} --data-binary '{{}}'"))),
            (Repeat::With("-m 1"), Ok(format!("{curl} --data-binary '{{}}' -m 1"))),
            (
                Repeat::AtOnce(3),
                Ok(format!("for _ in $(seq 3); do {curl} --data-binary '{{}}' & done; wait")),
            ),
            (
                Repeat::After(&other),
                Ok(format!("{curl} --data-binary '[]' --next {} --data-binary '{{}}'", &curl[5..])),
            ),
            (Repeat::After(&long), Err("it has 16001 bytes, and a command line holds 16000".to_owned())),
            (Repeat::Fed("yes"), Ok(format!("yes | {curl} -H 'Expect:' -T ."))),
            (Repeat::Not("why"), Err("why".to_owned())),
        ];
        for (repeat, expected) in rows {
            assert_eq!(repeated(&target, &plain, repeat), expected, "{repeat:?}");
        }
        let wide = Request { headers: vec![("A".to_owned(), vec![b'b'; BODY_CURL_MAX + 1])], ..request(b"") };
        assert!(repeated(&target, &wide, Repeat::Curl).is_err());
    }

    #[test]
    fn a_secret_that_is_cut_or_escaped_is_taken_out_all_the_same() {
        use hookproof_judge::signature::{Profile, Secret};

        use crate::suite::{Bodies, Hooks, Known, Selection};
        use crate::wire::request::Target;
        let secret = |text: &str| Secret::parse(Profile::GITHUB, text).unwrap();
        let settings = Settings {
            target: Target::parse("http://127.0.0.1:9/").unwrap(),
            profile: Profile::GITHUB,
            secret: secret("it's a \"secret\""),
            retired: Some(secret("an older, retired one")),
            verify_token: Some("let me in".to_owned()),
            tolerance_seconds: Settings::TOLERANCE_SECONDS,
            bodies: Bodies::All,
            timeout: Settings::TIMEOUT,
            slow_limit: Settings::SLOW_LIMIT,
            hooks: Hooks::default(),
            selection: Selection::default(),
            known: Known::default(),
            strict: false,
            again: String::new(),
        };
        let filler = "x".repeat(BODY_SHOWN_MAX - 30);
        let body = format!("{{it's a \"secret\"}}{filler}an older, retired one").into_bytes();
        let answer = Answer { status: 401, headers: Vec::new(), body, keeps_open: false };
        let outcome = Outcome::Answer(answer);
        let exchange = Exchange { outcome, took: Duration::ZERO, written: 0 };
        let request = Request {
            method: "GET",
            path: "/?token=let%20me%20in".to_owned(),
            headers: Vec::new(),
            body: b"let me in".to_vec(),
            framing: Framing::Length,
        };
        let Recorded { request, answer, curl, .. } =
            Recorded::new("", "", true, &request, &exchange, Repeat::Curl, &settings);
        assert!(answer.contains("{(secret)}x") && !answer.contains("an old"), "{answer}");
        assert_eq!(request, "GET /?token=(secret) HTTP/1.1\nContent-Length: 9\n\n(secret)");
        let line = "curl -sS -i -X GET 'http://127.0.0.1:9/?token=(secret)' --data-binary '(secret)'";
        assert_eq!(curl.as_deref(), Some(line));
    }

    #[test]
    fn a_recorded_exchange_is_bounded_and_readable() {
        let text = display_text(b"POST / HTTP/1.1\r\nA: b\r\n", &[b'a'; 10_000]);
        assert!(text.starts_with("POST / HTTP/1.1\nA: b\n\naaa") && text.ends_with("… (10000 bytes)"));
    }
}
