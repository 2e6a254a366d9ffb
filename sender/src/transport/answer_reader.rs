//! Incremental parser for one HTTP/1 answer (RFC 9112). Reads the body to find the next answer, and keeps the beginning
//! of a failure's.

use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig, Response, Status};

use super::attempt_result::{ANSWER_BYTES_MAX, Answered, HEAD_BYTES_MAX};
use super::failure::{Cause, Failure};

const HEADERS_MAX: usize = 100;

/// Bytes beside the data, such as the lengths of chunks.
const FRAMING_BYTES_MAX: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct AnswerReader {
    part: Part,
    held: Vec<u8>,
    looked_at: usize,
    interim: usize,
    body: usize,
    framing: usize,
    persists: bool,
}

#[derive(Debug)]
enum Part {
    Head,
    Body(Answered, Length),
    Whole,
}

#[derive(Debug)]
enum Length {
    Left(u64),
    Chunked(Chunks),
    UntilClose,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) answered: Answered,
    pub(super) persists: bool,
    pub(super) has_surplus: bool,
}

impl AnswerReader {
    pub(super) const fn new() -> Self {
        Self {
            part: Part::Head,
            held: Vec::new(),
            looked_at: 0,
            interim: 0,
            body: 0,
            framing: 0,
            persists: false,
        }
    }

    /// Returns the answer once it is complete or exceeds the limit.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Option<Read>, Failure> {
        if !matches!(self.part, Part::Head) {
            return self.take_body(bytes);
        }
        if self.held.is_empty() {
            let used = self.take_heads(bytes)?;
            return self.after_heads(&bytes[used..]);
        }
        self.held.extend_from_slice(bytes);
        // Parses only if a head may be complete or its length has doubled: single bytes would cost quadratic time.
        let from = self.held.len().saturating_sub(bytes.len() + 3);
        if !ends_a_head(&self.held[from..])
            && self.held.len() < 2 * self.looked_at
            && self.held.len() <= HEAD_BYTES_MAX
        {
            return Ok(None);
        }
        let held = std::mem::take(&mut self.held);
        let used = self.take_heads(&held)?;
        self.after_heads(&held[used..])
    }

    pub(super) const fn body_bytes(&self) -> usize {
        self.body
    }

    pub(super) fn end(&mut self) -> Result<Read, Failure> {
        match std::mem::replace(&mut self.part, Part::Whole) {
            Part::Body(answered, Length::UntilClose) => {
                Ok(Read { answered, persists: false, has_surplus: false })
            }
            Part::Body(..) => Err(Failure::Half("the connection ended in its body".into())),
            Part::Whole => Err(Failure::Closed),
            Part::Head => {
                // Distinguishes a broken-off head from other bytes.
                self.part = Part::Head;
                let held = std::mem::take(&mut self.held);
                self.take_heads(&held).and(Err(Failure::Closed))
            }
        }
    }

    pub(super) fn fail(&self, error: &std::io::Error) -> Failure {
        match self.part {
            Part::Body(..) => Failure::Half(Cause::of(error)),
            Part::Head | Part::Whole => Failure::Broken(Cause::of(error)),
        }
    }

    fn after_heads(&mut self, rest: &[u8]) -> Result<Option<Read>, Failure> {
        if matches!(self.part, Part::Head) {
            // Blank lines are part of a head.
            let blank = blank_lines(rest);
            self.interim += blank;
            let rest = &rest[blank..];
            self.held.extend_from_slice(rest);
            self.looked_at = rest.len();
            return Ok(None);
        }
        self.take_body(rest)
    }

    fn take_heads(&mut self, bytes: &[u8]) -> Result<usize, Failure> {
        let mut used = 0;
        while matches!(self.part, Part::Head) {
            let rest = &bytes[used..];
            let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
            let mut head = Response::new(&mut []);
            let parsed =
                ParserConfig::default().parse_response_with_uninit_headers(&mut head, rest, &mut headers);
            let length = match parsed.map_err(|error| Failure::NotHttp(Cause::of(&error)))? {
                Status::Complete(length) => Some(length),
                Status::Partial => None,
            };
            if self.interim + length.unwrap_or(rest.len()) > HEAD_BYTES_MAX {
                return Err(Failure::NotHttp("its head is too long".into()));
            }
            let Some(length) = length else { break };
            used += length;
            self.interim += length;
            self.begin(&head)?;
        }
        Ok(used)
    }

    fn begin(&mut self, head: &Response<'_, '_>) -> Result<(), Failure> {
        let status = head.code.filter(|code| *code >= 100);
        let status = status.ok_or(Failure::NotHttp("its status is below 100".into()))?;
        if (100..200).contains(&status) && status != 101 {
            return Ok(());
        }
        let is_1_1 = head.version == Some(1);
        let says = |word| values(head.headers, "connection").any(|value| has_token(value, word));
        let length = length(status, is_1_1, head.headers)?;
        let keeps = !says("close") && (is_1_1 || says("keep-alive"));
        self.persists = keeps && status != 101 && !is_ambiguous(status, head.headers);
        self.part = Part::Body(answered(status, head.headers), length);
        Ok(())
    }

    fn take_body(&mut self, bytes: &[u8]) -> Result<Option<Read>, Failure> {
        let Part::Body(answered, length) = &mut self.part else { return Ok(None) };
        let (used, is_over) = match length {
            Length::Left(left) => {
                let used = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                *left -= used as u64;
                answered.add_body(&bytes[..used]);
                self.body += used;
                (used, *left == 0)
            }
            Length::Chunked(chunks) => {
                let (used, data) = chunks
                    .take(bytes, |data| answered.add_body(data))
                    .map_err(|wrong| Failure::Half(wrong.into()))?;
                self.body += data;
                self.framing += used - data;
                (used, chunks.are_over())
            }
            Length::UntilClose => {
                answered.add_body(bytes);
                self.body += bytes.len();
                (bytes.len(), false)
            }
        };
        answered.cut = self.body > ANSWER_BYTES_MAX || self.framing > FRAMING_BYTES_MAX;
        if !is_over && !answered.cut {
            return Ok(None);
        }
        if let Some(kept) = &mut answered.kept {
            kept.cut |= answered.cut;
        }
        // Later bytes must not pass for the next answer.
        let has_surplus = used < bytes.len();
        let persists = self.persists && is_over && !answered.cut && !has_surplus;
        let Part::Body(answered, _) = std::mem::replace(&mut self.part, Part::Whole) else { return Ok(None) };
        Ok(Some(Read { answered, persists, has_surplus }))
    }
}

fn blank_lines(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    while let Some(next) = rest.strip_prefix(b"\n").or_else(|| rest.strip_prefix(b"\r\n")) {
        rest = next;
    }
    bytes.len() - rest.len()
}

fn ends_a_head(bytes: &[u8]) -> bool {
    bytes.windows(2).any(|two| two == b"\n\n") || bytes.windows(3).any(|three| three == b"\n\r\n")
}

/// How the body ends (RFC 9112, section 6.3).
fn length(status: u16, is_1_1: bool, headers: &[Header<'_>]) -> Result<Length, Failure> {
    if matches!(status, 101 | 204 | 304) {
        return Ok(Length::Left(0));
    }
    if let Some(coding) = values(headers, "transfer-encoding").last() {
        if !is_1_1 {
            return Err(Failure::NotHttp("HTTP/1.0 has no transfer-encoding".into()));
        }
        let last = coding.rsplit(|byte| *byte == b',').next().unwrap_or_default();
        let is_chunked = last.trim_ascii().eq_ignore_ascii_case(b"chunked");
        return Ok(if is_chunked { Length::Chunked(Chunks::new()) } else { Length::UntilClose });
    }
    let mut known = None;
    for value in values(headers, "content-length").flat_map(|value| value.split(|byte| *byte == b',')) {
        let length = number(value.trim_ascii()).filter(|length| known.is_none_or(|known| known == *length));
        known = Some(length.ok_or(Failure::NotHttp("its content-length is not a number".into()))?);
    }
    Ok(known.map_or(Length::UntilClose, Length::Left))
}

/// Whether other parsers might find another end of the body.
fn is_ambiguous(status: u16, headers: &[Header<'_>]) -> bool {
    let is_coded = values(headers, "transfer-encoding").next().is_some();
    let mut lengths = values(headers, "content-length");
    match status {
        // It has no body, but may be sent as if it had one.
        204 => is_coded || lengths.any(|length| number(length.trim_ascii()) != Some(0)),
        // Its length may be that of another answer.
        304 => is_coded,
        _ => is_coded && lengths.next().is_some(),
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    let all_digits = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    if all_digits { std::str::from_utf8(digits).ok()?.parse().ok() } else { None }
}

fn values<'h>(headers: &'h [Header<'_>], name: &'static str) -> impl Iterator<Item = &'h [u8]> {
    headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value)
}

fn has_token(value: &[u8], token: &str) -> bool {
    value.split(|byte| *byte == b',').any(|part| part.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

fn answered(status: u16, headers: &[Header<'_>]) -> Answered {
    let first = |name| values(headers, name).next().map(<[u8]>::trim_ascii);
    let mut answered = Answered::of(status, first("retry-after"), first("date"));
    answered.keep(|name| values(headers, name).next());
    answered
}

// RFC 9112, section 7.1.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunks {
    at: At,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// In a chunk's length; `None` before its first digit.
    Length(Option<u64>),
    /// After a length: in blanks, or in an extension.
    Blank(u64),
    Extension(u64),
    LengthEnd(u64),
    Data(u64),
    DataReturn,
    DataEnd,
    /// At the start of a line after the last chunk, or within it.
    TrailerBegin,
    Trailer,
    LastEnd,
    Over,
}

impl Chunks {
    pub(super) const fn new() -> Self {
        Self { at: At::Length(None) }
    }

    pub(super) fn are_over(self) -> bool {
        self.at == At::Over
    }

    /// Bytes of the body, and how many of these are data. `each` takes the data.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(&[u8]),
    ) -> Result<(usize, usize), &'static str> {
        let (mut used, mut data) = (0, 0);
        while let Some(byte) = bytes.get(used).copied().filter(|_| !self.are_over()) {
            if let At::Data(left) = self.at {
                let rest = bytes.len() - used;
                let here = usize::try_from(left).map_or(rest, |left| left.min(rest));
                each(&bytes[used..used + here]);
                used += here;
                data += here;
                let left = left - here as u64;
                self.at = if left == 0 { At::DataReturn } else { At::Data(left) };
            } else {
                used += 1;
                self.at = self.at.after(byte)?;
            }
        }
        Ok((used, data))
    }
}

impl At {
    fn after(self, byte: u8) -> Result<Self, &'static str> {
        match (self, byte) {
            (Self::Length(length), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = char::from(byte).to_digit(16).map_or(0, u64::from);
                let longer = length.unwrap_or(0).checked_mul(16).and_then(|length| length.checked_add(digit));
                longer.map(|length| Self::Length(Some(length))).ok_or("the length of a chunk is too large")
            }
            (Self::Length(Some(length)) | Self::Blank(length), b' ' | b'\t') => Ok(Self::Blank(length)),
            (Self::Length(Some(length)) | Self::Blank(length), b';') => Ok(Self::Extension(length)),
            (Self::Length(Some(length)) | Self::Blank(length) | Self::Extension(length), b'\r') => {
                Ok(Self::LengthEnd(length))
            }
            (Self::Length(_) | Self::Blank(_), _) => Err("a chunk has no length"),
            (Self::Extension(_), b'\n') => Err("the length line of a chunk is malformed"),
            (Self::Extension(length), _) => Ok(Self::Extension(length)),
            (Self::LengthEnd(0), b'\n') => Ok(Self::TrailerBegin),
            (Self::LengthEnd(length), b'\n') => Ok(Self::Data(length)),
            (Self::LengthEnd(_), _) => Err("the length line of a chunk is malformed"),
            (Self::DataReturn, b'\r') => Ok(Self::DataEnd),
            (Self::DataEnd, b'\n') => Ok(Self::Length(None)),
            (Self::DataReturn | Self::DataEnd, _) => Err("a chunk is longer than its length"),
            (Self::TrailerBegin, b'\r') => Ok(Self::LastEnd),
            (Self::TrailerBegin | Self::Trailer, b'\n') => Ok(Self::TrailerBegin),
            (Self::TrailerBegin | Self::Trailer, _) => Ok(Self::Trailer),
            (Self::LastEnd, b'\n') => Ok(Self::Over),
            (Self::LastEnd, _) => Err("its end is malformed"),
            // Unreachable: `take` handles both.
            (Self::Data(_) | Self::Over, _) => Ok(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::{Random, Target};
    use crate::store::command::KeptAnswer;

    fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Read, Failure> {
        let mut reader = AnswerReader::new();
        for piece in pieces {
            if let Some(read) = reader.take(piece)? {
                return Ok(read);
            }
        }
        reader.end()
    }

    #[track_caller]
    fn check(answer: &str, status: u16, persists: bool) {
        let read = read([answer.as_bytes()]).unwrap();
        assert_eq!(
            (Answered { kept: None, ..read.answered }, read.persists),
            (Answered::of(status, None, None), persists),
            "{answer:?}"
        );
    }

    #[test]
    fn bytes_after_an_answer_are_noticed() {
        for (answer, has_surplus) in [
            ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", false),
            ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok!", true),
            ("HTTP/1.1 204 No Content\r\ncontent-length: 2\r\n\r\nok", true),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\n\r\nto the end", false),
        ] {
            assert_eq!(read([answer.as_bytes()]).unwrap().has_surplus, has_surplus, "{answer:?}");
        }
    }

    #[test]
    fn an_answer_ends_where_its_head_says() {
        check("HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n", 204, true);
        check("HTTP/1.1 304 Not Modified\r\ncontent-length: 7\r\n\r\n", 304, true);
        for (status, header) in [
            (204, "content-length: 7"),
            (204, "transfer-encoding: chunked"),
            (304, "transfer-encoding: chunked"),
        ] {
            check(&format!("HTTP/1.1 {status} Oh\r\n{header}\r\n\r\n"), status, false);
        }
        check("HTTP/1.1 200 OK\r\ncontent-length: 2, 2\r\ncontent-length: 2\r\n\r\nok", 200, true);
        check("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok!", 200, false);
        check("HTTP/1.1 200 OK\r\n\r\nto the end", 200, false);
        check("HTTP/1.0 200 OK\r\nconnection: x, Keep-Alive\r\ncontent-length: 0\r\n\r\n", 200, true);
        check("HTTP/1.0 200 OK\r\nconnection: close, keep-alive\r\ncontent-length: 0\r\n\r\n", 200, false);
        check("HTTP/1.1 200 OK\r\nconnection: x, Close\r\ncontent-length: 0\r\n\r\n", 200, false);
        check("HTTP/1.1 101 Other\r\nconnection: upgrade\r\n\r\n", 101, false);
        check(
            "HTTP/1.1 100 Go on\r\n\r\nHTTP/1.1 103 Soon\r\nlink: x\r\n\r\nHTTP/1.1 202 Yes\r\ncontent-length: 0\r\n\r\n",
            202,
            true,
        );
        let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, Chunked\r\n";
        check(&format!("{chunked}\r\n2 ;x\r\nok\r\n00\r\na: b\r\n\r\n"), 200, true);
        check(&format!("{chunked}content-length: 9\r\n\r\n0\r\n\r\n"), 200, false);
        check("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 200, false);
    }

    #[test]
    fn a_malformed_answer_differs_from_a_partial_one() {
        let chunk = |text: &str| format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{text}");
        let rows = [
            ("HTTP/1.1 099 No\r\n\r\n".to_owned(), "not_http"),
            ("HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_owned(), "not_http"),
            ("HTTP/1.1 200 OK\r\ncontent-length: +1\r\n\r\nx".to_owned(), "not_http"),
            ("HTTP/1.1 200 OK\r\ncontent-length: \r\n\r\n".to_owned(), "not_http"),
            ("HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551616\r\n\r\n".to_owned(), "not_http"),
            (format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(101)), "not_http"),
            ("HTTP/1.1 100 Go on\r\n\r\n".repeat(2_000), "not_http"),
            ("\n".repeat(HEAD_BYTES_MAX + 1), "not_http"),
            ("HTTP/1.1 100 Go on\r\n\r\n".to_owned(), "closed"),
            ("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n".to_owned(), "closed"),
            ("HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551615\r\n\r\nx".to_owned(), "half_answer"),
            (chunk("ok\r\n"), "half_answer"),
            (chunk("\r\n"), "half_answer"),
            (chunk("2\nok\r\n0\r\n\r\n"), "half_answer"),
            (chunk("2;x\nok\r\n0\r\n\r\n"), "half_answer"),
            (chunk("2\r\nokk\r\n0\r\n\r\n"), "half_answer"),
            (chunk("ffffffffffffffffff\r\n"), "half_answer"),
            (chunk("0\r\n\rx"), "half_answer"),
            (chunk("0\r\n"), "half_answer"),
        ];
        for (answer, expected) in rows {
            let failure = read([answer.as_bytes()]).expect_err(&answer);
            assert_eq!(failure.code(), expected, "{answer:.80?}");
        }
    }

    #[test]
    fn framing_has_a_bound_of_its_own() {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let blown_up = format!("{head}1;{}", "x".repeat(FRAMING_BYTES_MAX + 1));
        let read = read([blown_up.as_bytes()]).unwrap();
        assert!(read.answered.cut && !read.persists);
    }

    #[test]
    fn a_failures_answer_is_kept_without_its_framing_up_to_the_bound() {
        let long = "x".repeat(KeptAnswer::BODY_BYTES_MAX);
        let long = long.as_str();
        let head = "HTTP/1.1 500 Oh\r\nServer: a\r\nServer: b\r\nx: y\r\n";
        let chunked = |chunks: &str| format!("{head}transfer-encoding: chunked\r\n\r\n{chunks}0\r\n\r\n");
        let rows = [
            (format!("{head}content-length: 2\r\n\r\nno"), "no", false),
            (chunked("2\r\nno\r\n1;x\r\n!\r\n"), "no!", false),
            (format!("{head}\r\n{long}"), long, false),
            (format!("{head}\r\n{long}x"), long, true),
            (chunked(&format!("800\r\n{long}\r\n1\r\nx\r\n")), long, true),
        ];
        for (answer, body, cut) in rows {
            for read in [read([answer.as_bytes()]), read(answer.as_bytes().chunks(1))] {
                let kept = read.unwrap().answered.kept.unwrap();
                assert_eq!(
                    (kept.head.as_str(), &*kept.text(), kept.cut),
                    ("server: a\n", body, cut),
                    "{answer}"
                );
            }
        }
        let success = read([&b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"[..]]).unwrap();
        assert_eq!(success.answered.kept, None);
    }

    fn outcome(answer: &[u8], random: &mut Random) -> String {
        let whole = read([answer]);
        for other in [read(random.pieces(answer)), read(answer.chunks(1))] {
            // Surplus bytes may arrive too late; the check before the next request finds them.
            let same = match (&whole, &other) {
                (Ok(whole), Ok(other)) => {
                    whole.answered == other.answered && (!whole.persists || other.persists)
                }
                (whole, other) => whole == other,
            };
            assert!(same, "{whole:?} {other:?}");
        }
        whole.map_or_else(
            |failure| failure.to_string(),
            |read| format!("{} {} {}", read.answered.status / 100, read.persists, read.has_surplus),
        )
    }

    fn target() -> Target<'static> {
        let head = "HTTP/1.1 200 OK\r\n";
        let corpus = [
            format!("{head}content-length: 3\r\nretry-after: 7\r\n\r\nabc"),
            format!("{head}transfer-encoding: gzip, chunked\r\n\r\n2;x\r\nok\r\n0\r\na: b\r\n\r\n"),
            format!("HTTP/1.1 100 Go on\r\n\r\n{head}connection: close\r\n\r\nto the end"),
            "HTTP/1.0 503 Oh\nconnection: keep-alive\ncontent-length: 0\n\n".to_owned(),
        ];
        let words = &[
            "HTTP/1.1 204 No\r\n",
            "HTTP/1.0 304 Oh\n",
            "HTTP/1.1 101 Other\r\n\r\n",
            "content-length: 3\r\n",
            "transfer-encoding: chunked\r\n",
            "connection: x, close\r\n",
            "\r\n",
            "\n",
            "a;b",
            ",",
        ];
        Target { quick: 20_000, corpus: corpus.map(String::into_bytes).into(), words, check: &outcome }
    }

    #[test]
    fn any_answer_is_read_alike_in_any_pieces() {
        target().try_some();
    }

    #[test]
    #[ignore = "takes HOOKPROOF_SECONDS"]
    fn any_answer_is_read_alike_in_any_pieces_at_length() {
        target().try_at_length();
    }
}

#[cfg(test)]
mod chunks_tests {
    use super::*;
    use crate::fuzzing::{Random, Target};

    /// Bytes taken, bytes of data, and whether the body is over.
    type TakeResult = Result<(usize, usize, bool), &'static str>;

    fn take(pieces: &[&[u8]]) -> TakeResult {
        let (mut chunks, mut used, mut data) = (Chunks::new(), 0, 0);
        for piece in pieces {
            let mut given = 0;
            let (more, of_data) = chunks.take(piece, |data| given += data.len())?;
            assert_eq!(given, of_data);
            assert!(of_data <= more && more <= piece.len());
            assert!(more == piece.len() || chunks.are_over());
            (used, data) = (used + more, data + of_data);
        }
        Ok((used, data, chunks.are_over()))
    }

    fn outcome(input: &[u8], random: &mut Random) -> String {
        let whole = take(&[input]);
        assert_eq!(take(&random.pieces(input)), whole);
        let mut body = Vec::new();
        for piece in random.pieces(input) {
            let length = format!("{:0zeros$x} \t;x=\"\r\n", piece.len(), zeros = random.below(4));
            body.extend(length.replace('"', ["", "y"][random.below(2)]).bytes());
            body.extend(piece);
            body.extend(b"\r\n");
        }
        body.extend(b"0\r\na: b\r\n\r\n");
        let length = body.len();
        body.extend(b"HTTP/1.1 200 OK");
        assert_eq!(take(&random.pieces(&body)), Ok((length, input.len(), true)));
        whole.map_or_else(str::to_owned, |(.., is_over)| is_over.to_string())
    }

    fn target() -> Target<'static> {
        let corpus = ["2 ;x\r\nok\r\n00\r\na: b\r\n\r\n", "Aa\r\nabc", "0\r\n\r\n"];
        let words = &["\r\n", "0\r\n", "1\r\nx\r\n", ";", "ffffffffffffffff", "\t"];
        Target { quick: 10_000, corpus: corpus.map(Vec::from).into(), words, check: &outcome }
    }

    #[test]
    fn any_body_is_taken_alike_in_any_pieces() {
        target().try_some();
    }

    #[test]
    #[ignore = "takes HOOKPROOF_SECONDS"]
    fn any_body_is_taken_alike_in_any_pieces_at_length() {
        target().try_at_length();
    }
}
