//! The first thing in a request's own bytes that RFC 9110, RFC 9112 and RFC 9113 forbid a client.
//!
//! The endpoint reads as leniently as deployed servers do. This module is strict, and reads the bytes again. A reason
//! has at most [`REASON_BYTES_MAX`] bytes, and quotes no field's value but a host and a length: a value may be a
//! secret.

use std::fmt::Write as _;

const REASON_BYTES_MAX: usize = 200;
const QUOTED_CHARS_MAX: usize = 40;

/// Of an HTTP/1 head. A head that does not end yet is judged by its whole lines alone.
pub(super) fn forbidden(head: &[u8]) -> Option<String> {
    let mut lines = head.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    let first = lines.next()?;
    if matches!(first, b"\r\n" | b"\n") {
        return Some("an empty line precedes it (RFC 9112, 2.2)".to_owned());
    }
    let is_first_minor = match request_line(first) {
        Ok(is_first_minor) => is_first_minor,
        Err(why) => return Some(why),
    };
    let mut framing = Framing::default();
    for line in lines {
        if line == b"\r\n" {
            return framing.forbidden(is_first_minor);
        }
        match field(line) {
            Ok((name, value)) => framing.add(name, value),
            Err(why) => return Some(why),
        }
    }
    None
}

/// Of a chunk's first line, and of the two bytes after a chunk.
pub(super) fn forbidden_chunk(line: &[u8]) -> Option<String> {
    let size =
        line.split(|byte| matches!(byte, b';' | b'\r' | b'\n' | b' ' | b'\t')).next().unwrap_or_default();
    let has_extension = line.contains(&b';');
    let is_size = !size.is_empty() && size.iter().all(u8::is_ascii_hexdigit);
    let is_whole = whole(line).is_ok_and(|line| has_extension || line.len() == size.len());
    (!is_size || !is_whole).then(|| "a chunk's length is not digits and CRLF (RFC 9112, 7.1)".to_owned())
}

pub(super) fn forbidden_chunk_end(end: &[u8]) -> Option<String> {
    (end != b"\r\n")
        .then(|| "a chunk does not end with CRLF where its length says (RFC 9112, 7.1)".to_owned())
}

/// Of an HTTP/2 request that the library took: it refuses malformed names, values and frames itself.
pub(super) fn forbidden_second(parts: &http::request::Parts) -> Option<String> {
    let authority = parts.uri.authority().map(http::uri::Authority::as_str);
    let mut framing = Framing { named: u32::from(authority.is_some()), ..Framing::default() };
    for (name, value) in &parts.headers {
        let (name, value) = (name.as_str(), value.as_bytes());
        if value.trim_ascii().len() != value.len() {
            return Some(format!(
                "the value of {} begins or ends with a blank (RFC 9113, 8.2.1)",
                quoted(name)
            ));
        }
        // A host beside `:authority` must name the same.
        let is_same =
            name == "host" && authority.is_some_and(|known| known.as_bytes().eq_ignore_ascii_case(value));
        if !is_same {
            framing.add(name, value);
        }
    }
    framing.forbidden(true)
}

fn request_line(line: &[u8]) -> Result<bool, String> {
    let line = whole(line)?;
    let mut parts = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(
            "its first line is not a method, a target and a version, with one blank between (RFC 9112, 3)"
                .into(),
        );
    };
    if !is_token(method) {
        return Err("its method has an illegal character (RFC 9110, 9.1)".to_owned());
    }
    if !target.starts_with(b"/") || !target.iter().all(u8::is_ascii_graphic) || target.contains(&b'#') {
        return Err("its target is not a path with a query (RFC 9112, 3.2.1)".to_owned());
    }
    match version {
        b"HTTP/1.1" => Ok(true),
        b"HTTP/1.0" => Ok(false),
        _ => Err("its version is neither HTTP/1.1 nor HTTP/1.0 (RFC 9112, 2.3)".to_owned()),
    }
}

fn field(line: &[u8]) -> Result<(&str, &[u8]), String> {
    let line = whole(line)?;
    if matches!(line.first(), Some(b' ' | b'\t')) {
        return Err("a line begins with a blank: obsolete folding (RFC 9112, 5.2)".to_owned());
    }
    let Some(colon) = line.iter().position(|byte| *byte == b':') else {
        return Err("a line has no colon (RFC 9112, 5)".to_owned());
    };
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    let text = String::from_utf8_lossy(name);
    if text.ends_with([' ', '\t']) {
        return Err(format!("a blank precedes the colon of {} (RFC 9112, 5.1)", quoted(&text)));
    }
    if !is_token(name) {
        return Err(format!("the field name {} has an illegal character (RFC 9110, 5.1)", quoted(&text)));
    }
    if value.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
        return Err(format!("the value of {} has a control character (RFC 9110, 5.5)", quoted(&text)));
    }
    // A token is ASCII.
    Ok((std::str::from_utf8(name).unwrap_or_default(), value))
}

fn whole(line: &[u8]) -> Result<&[u8], String> {
    let Some(bare) = line.strip_suffix(b"\r\n") else {
        return Err("a line ends with a bare LF (RFC 9112, 2.2)".to_owned());
    };
    if bare.contains(&b'\r') { Err("a line has a bare CR (RFC 9112, 2.2)".to_owned()) } else { Ok(bare) }
}

#[derive(Default)]
struct Framing {
    named: u32,
    host: Option<String>,
    lengths: u32,
    length: Option<String>,
    codings: u32,
    types: u32,
}

impl Framing {
    fn add(&mut self, name: &str, value: &[u8]) {
        let wrong = |is_right: bool| (!is_right).then(|| quoted(&String::from_utf8_lossy(value)));
        match () {
            () if name.eq_ignore_ascii_case("host") => {
                self.named += 1;
                self.host = self.host.take().or_else(|| wrong(is_host(value)));
            }
            () if name.eq_ignore_ascii_case("content-length") => {
                self.lengths += 1;
                let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
                self.length = self.length.take().or_else(|| wrong(is_number));
            }
            () if name.eq_ignore_ascii_case("transfer-encoding") => self.codings += 1,
            () if name.eq_ignore_ascii_case("content-type") => self.types += 1,
            () => {}
        }
    }

    fn forbidden(self, is_first_minor: bool) -> Option<String> {
        Some(match self {
            Self { named: 0, .. } if is_first_minor => "it names no host (RFC 9112, 3.2)".to_owned(),
            Self { named: 2.., .. } => "it names a host twice (RFC 9112, 3.2)".to_owned(),
            Self { host: Some(host), .. } => format!("its host {host} is none (RFC 9112, 3.2)"),
            Self { lengths: 1.., codings: 1.., .. } => {
                "it has Content-Length beside Transfer-Encoding (RFC 9112, 6.2)".to_owned()
            }
            Self { lengths: 2.., .. } => "it has several Content-Length fields (RFC 9110, 5.3)".to_owned(),
            Self { length: Some(length), .. } => {
                format!("its Content-Length {length} is not a number of digits (RFC 9110, 8.6)")
            }
            Self { codings: 1.., .. } if !is_first_minor => {
                "it has Transfer-Encoding in HTTP/1.0 (RFC 9112, 6.1)".to_owned()
            }
            Self { types: 2.., .. } => "it has several Content-Type fields (RFC 9110, 5.3)".to_owned(),
            _ => return None,
        })
    }
}

/// A name or an address, and perhaps a port.
fn is_host(value: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(value) else { return false };
    let end = text.rfind(']').map_or(0, |at| at + 1);
    let (host, port) = text[end..]
        .split_once(':')
        .map_or((text, ""), |(_, port)| (&text[..text.len() - port.len() - 1], port));
    let is_address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let in_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(&byte);
    let is_named = is_address.map_or_else(
        || !host.is_empty() && host.bytes().all(in_name),
        |address| address.parse::<std::net::Ipv6Addr>().is_ok(),
    );
    is_named && port.bytes().all(|digit| digit.is_ascii_digit())
}

/// RFC 9110, 5.6.2.
fn is_token(bytes: &[u8]) -> bool {
    let is_inside = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !bytes.is_empty() && bytes.iter().all(is_inside)
}

fn quoted(text: &str) -> String {
    let mut shown = String::new();
    for letter in text.chars().take(QUOTED_CHARS_MAX) {
        // Writing to a string does not fail.
        let _ = write!(shown, "{}", letter.escape_debug());
    }
    shown.truncate(shown.floor_char_boundary(REASON_BYTES_MAX / 2));
    format!("\"{shown}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(head: &str, expected: Option<&str>) {
        let found = forbidden(head.as_bytes());
        let is_right = match (&found, expected) {
            (Some(found), Some(expected)) => found.contains(expected) && found.len() <= REASON_BYTES_MAX,
            (found, expected) => found.is_none() && expected.is_none(),
        };
        assert!(is_right, "{head:?}: {found:?}, expected {expected:?}");
    }

    #[test]
    fn a_right_head_is_not_forbidden() {
        for fields in [
            "host: a.example\r\n",
            "Host:a.example:8443\r\ncontent-length: 0\r\n",
            "host: [::1]:80\r\ntransfer-encoding: chunked\r\n",
            "host: 127.0.0.1:\r\nx-ünsaid: no\r\n".replace('ü', "u").as_str(),
            "host: a\r\nx-empty:\r\nx-latin: gr\u{fc}n\tand more \r\nx-a: 1\r\nx-a: 2\r\n",
        ] {
            check(&format!("POST /a?b=c HTTP/1.1\r\n{fields}\r\n"), None);
        }
        check("POST / HTTP/1.0\r\n\r\n", None);
    }

    #[test]
    fn each_forbidden_head_has_its_reason() {
        let host = "host: a\r\n";
        for (fields, expected) in [
            ("", "names no host"),
            ("host:\r\n", "host \"\" is none"),
            ("host: a b\r\n", "is none"),
            ("host: a/b\r\n", "is none"),
            ("host: a:b\r\n", "is none"),
            ("host: [::g]\r\n", "is none"),
            ("host: ::1\r\n", "is none"),
            ("host: a\r\nHOST: a\r\n", "a host twice"),
            ("host: a\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n", "beside Transfer-Encoding"),
            ("host: a\r\ncontent-length: 2\r\nContent-Length: 3\r\n", "several Content-Length"),
            ("host: a\r\ncontent-length: 2\r\ncontent-length: 2\r\n", "several Content-Length"),
            ("host: a\r\ncontent-length: +2\r\n", "not a number of digits"),
            ("host: a\r\ncontent-length: 2, 2\r\n", "not a number of digits"),
            ("host: a\r\ncontent-length:\r\n", "not a number of digits"),
            ("host: a\r\ncontent-type: a/b\r\ncontent-type: a/b\r\n", "several Content-Type"),
            ("host: a\r\nx: 1\r\n 2\r\n", "obsolete folding"),
            (" host: a\r\n", "obsolete folding"),
            ("host : a\r\n", "precedes the colon"),
            ("host: a\r\nx y: 1\r\n", "illegal character"),
            ("host: a\r\n: 1\r\n", "illegal character"),
            ("host: a\r\nx(y): 1\r\n", "illegal character"),
            ("host: a\r\nnone\r\n", "no colon"),
            ("host: a\r\nx: 1\0\r\n", "control character"),
            ("host: a\r\nx: 1\u{7f}2\r\n", "control character"),
            ("host: a\n", "bare LF"),
            ("host: a\r\nx: 1\r2\r\n", "bare CR"),
        ] {
            check(&format!("POST / HTTP/1.1\r\n{fields}\r\n"), Some(expected));
        }
        for (line, expected) in [
            ("\r\nPOST / HTTP/1.1\r\n", "empty line precedes"),
            ("POST  / HTTP/1.1\r\n", "first line"),
            ("POST / HTTP/1.1 \r\n", "first line"),
            ("PO{ST / HTTP/1.1\r\n", "method"),
            ("POST http://a/ HTTP/1.1\r\n", "target"),
            ("POST /#a HTTP/1.1\r\n", "target"),
            ("POST / HTTP/1.2\r\n", "version"),
            ("POST / HTTP/1.1\n", "bare LF"),
        ] {
            check(&format!("{line}{host}\r\n"), Some(expected));
        }
        check("POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n", Some("in HTTP/1.0"));
    }

    #[test]
    fn a_part_of_a_head_is_judged_by_its_whole_lines() {
        check("POST / HTTP/1.1\r\nx: 1\r\nhos", None);
        check("POST / HTTP/1.1\r\nx : 1\r\nhos", Some("precedes the colon"));
        check("\u{16}\u{3}\u{1}", None);
    }

    #[test]
    fn a_long_name_is_cut() {
        check(
            &format!("POST / HTTP/1.1\r\n{} : 1\r\n\r\n", "\u{1}".repeat(9_000)),
            Some("precedes the colon"),
        );
    }

    #[test]
    fn a_chunk_says_its_length_in_digits() {
        for line in ["5\r\n", "1aF\r\n", "5;x=y\r\n", "5 ;x\r\n", "0\r\n"] {
            assert_eq!(forbidden_chunk(line.as_bytes()), None, "{line:?}");
        }
        for line in ["5\n", "+5\r\n", " 5\r\n", "5 \r\n", "0x5\r\n", "\r\n", "5;x=y\n"] {
            assert!(forbidden_chunk(line.as_bytes()).is_some(), "{line:?}");
        }
        assert!(forbidden_chunk_end(b"\n2").is_some() && forbidden_chunk_end(b"\r\n").is_none());
    }

    #[test]
    fn over_http_2_a_request_names_its_host_once() {
        let check = |request: http::request::Builder, expected: Option<&str>| {
            let found = forbidden_second(&request.body(()).expect("a request").into_parts().0);
            assert_eq!(found.is_some(), expected.is_some(), "{found:?}");
            assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()), "{expected:?}");
        };
        let request = || http::Request::post("http://a.example:80/x");
        check(request(), None);
        check(request().header("host", "A.example:80").header("content-length", "2"), None);
        check(request().header("host", "b.example"), Some("twice"));
        check(http::Request::post("/x"), Some("no host"));
        check(http::Request::post("/x").header("host", "a"), None);
        check(request().header("content-length", "2").header("content-length", "2"), Some("several"));
        check(request().header("x", " 1"), Some("blank"));
    }
}
