use std::fmt::Write as _;

use hookproof_judge::scenario::{Reply, RetryAfter, SECOND};

use super::date::http_date;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    pub status: u16,
    /// `Retry-After`, word for word.
    pub retry_after: Option<String>,
    /// Its header fields, in order.
    pub fields: Vec<(&'static str, String)>,
    /// The length of the body. It repeats one letter, so it is never stored.
    pub body_bytes: u64,
}

impl Rendered {
    /// The bytes of its head over HTTP/1.1.
    pub fn head(&self) -> Vec<u8> {
        /// The size of most heads.
        const USUAL_BYTES: usize = 256;
        let mut head = String::with_capacity(USUAL_BYTES);
        // Writing to a string never fails.
        let _ = write!(head, "HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        let mut head = head.into_bytes();
        for (name, value) in &self.fields {
            head.extend_from_slice(name.as_bytes());
            head.extend_from_slice(b": ");
            // A line break inside a value would begin another field.
            head.extend(value.bytes().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"\r\n");
        head
    }
}

/// Renders an answer that is given at a moment of the wall clock.
pub fn render(reply: &Reply, unix_ns: u64) -> Rendered {
    let seconds = unix_ns / SECOND;
    let retry_after = reply.retry_after.as_ref().map(|retry_after| match retry_after {
        RetryAfter::Seconds(seconds) => seconds.to_string(),
        RetryAfter::Date(ahead) => http_date(unix_ns.saturating_add(ahead.0) / SECOND),
        RetryAfter::Text(text) => text.clone(),
    });
    let bodiless = matches!(reply.status, 204 | 304);
    let body_bytes = if bodiless { 0 } else { reply.body.0 };
    let fields = [
        Some(("date", http_date(seconds))),
        retry_after.clone().map(|text| ("retry-after", text)),
        reply.location.clone().map(|location| ("location", location)),
        (!bodiless).then(|| ("content-length", body_bytes.to_string())),
    ];
    let fields = fields.into_iter().flatten().collect();
    Rendered { status: reply.status, retry_after, fields, body_bytes }
}

fn reason(status: u16) -> &'static str {
    http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("Unknown")
}

#[cfg(test)]
mod tests {
    use hookproof_judge::scenario::{Duration, Size};

    use super::*;

    #[track_caller]
    fn check(reply: Reply, expected: &str) {
        let rendered = render(&reply, 784_111_777_900_000_000);
        assert_eq!(String::from_utf8(rendered.head()).unwrap().replace("\r\n", "|"), expected);
    }

    fn reply(status: u16, retry_after: Option<RetryAfter>) -> Reply {
        Reply { status, retry_after, body: Size(0), location: None }
    }

    #[test]
    fn answers_say_what_the_scenario_asks_for_and_when() {
        check(reply(204, None), "HTTP/1.1 204 No Content|date: Sun, 06 Nov 1994 08:49:37 GMT||");
        check(
            reply(429, Some(RetryAfter::Seconds(3))),
            "HTTP/1.1 429 Too Many Requests|date: Sun, 06 Nov 1994 08:49:37 GMT|retry-after: 3|content-length: 0||",
        );
        check(
            reply(503, Some(RetryAfter::Date(Duration(200_000_000)))),
            "HTTP/1.1 503 Service Unavailable|date: Sun, 06 Nov 1994 08:49:37 GMT|\
             retry-after: Sun, 06 Nov 1994 08:49:38 GMT|content-length: 0||",
        );
        check(
            reply(299, Some(RetryAfter::Text("1\r\nx: y".to_owned()))),
            "HTTP/1.1 299 Unknown|date: Sun, 06 Nov 1994 08:49:37 GMT|retry-after: 1  x: y|content-length: 0||",
        );
    }
}
