//! Parses an answer incrementally, within bounds.

const HEADERS_MAX: usize = 128;
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The rest of a longer body is not read.
pub const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Interim answers (1xx) before the final one.
const INTERIM_MAX: usize = 16;
/// The whole answer, with the framing of small chunks.
const BYTES_MAX: usize = 2 * BODY_BYTES_MAX;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// Keeps their order and spelling.
    pub headers: Vec<(String, Vec<u8>)>,
    /// May be cut.
    pub body: Vec<u8>,
    pub keeps_open: bool,
}

impl Answer {
    #[must_use]
    pub fn header(&self, name: &str) -> Option<String> {
        let (_, value) = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(String::from_utf8_lossy(value).trim().to_owned())
    }

    /// None for a date.
    #[must_use]
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.header("retry-after")?.parse().ok()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    Partial,
    /// The number is its length.
    Whole(Answer, usize),
    Malformed(String),
}

/// Parses the bytes of an answer so far. `ended`: no more will come.
#[must_use]
pub fn read(bytes: &[u8], ended: bool) -> Progress {
    let mut start = 0;
    for _ in 0..=INTERIM_MAX {
        match read_next(&bytes[start..], ended) {
            Next::Interim(_, length) => start += length,
            Next::Final(Progress::Whole(answer, length)) => return Progress::Whole(answer, start + length),
            Next::Final(Progress::Partial) if bytes.len() > BYTES_MAX => {
                return Progress::Malformed(format!("it is longer than {BYTES_MAX} bytes"));
            }
            Next::Final(other) => return other,
        }
    }
    Progress::Malformed(format!("more than {INTERIM_MAX} interim answers came before it"))
}

/// Beginnings and parts of stack traces, as languages and frameworks print them.
const TRACES: [&str; 12] = [
    "Traceback (most recent call last)",
    "\n    at ",
    "\n\tat ",
    "\n   at ",
    "at org.springframework",
    "<br> &nbsp; &nbsp;at ",
    "panicked at",
    "goroutine ",
    "Stack trace:",
    "Exception in thread",
    ".rb:",
    "stack backtrace",
];

#[must_use]
pub fn has_trace(text: &str) -> bool {
    TRACES.iter().any(|trace| text.contains(trace))
}

/// Whether `100 Continue` is among the interim answers (1xx) that the bytes begin with.
#[must_use]
pub fn continues(bytes: &[u8]) -> bool {
    let mut start = 0;
    while let Next::Interim(status, length) = read_next(&bytes[start..], false) {
        if status == 100 {
            return true;
        }
        start += length;
    }
    false
}

enum Next {
    /// The status and the length of an interim answer, before another one.
    Interim(u16, usize),
    /// The final answer, as far as it has come.
    Final(Progress),
}

fn read_next(bytes: &[u8], ended: bool) -> Next {
    let mut slots = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut slots);
    let head = match response.parse(bytes) {
        Ok(httparse::Status::Complete(head)) => head,
        Ok(httparse::Status::Partial) if bytes.len() > HEAD_BYTES_MAX => {
            let why = format!("its head is longer than {HEAD_BYTES_MAX} bytes");
            return Next::Final(Progress::Malformed(why));
        }
        Ok(httparse::Status::Partial) => return Next::Final(Progress::Partial),
        Err(error) => return Next::Final(Progress::Malformed(error.to_string())),
    };
    let status = response.code.unwrap_or_default();
    if (100..200).contains(&status) {
        return Next::Interim(status, head);
    }
    let headers: Vec<(String, Vec<u8>)> =
        response.headers.iter().map(|header| (header.name.to_owned(), header.value.to_vec())).collect();
    let mut answer = Answer { status, headers, body: Vec::new(), keeps_open: response.version == Some(1) };
    let says = |name: &str, word: &str| {
        answer.header(name).is_some_and(|value| value.to_ascii_lowercase().contains(word))
    };
    let (closes, chunked) = (says("connection", "close"), says("transfer-encoding", "chunked"));
    answer.keeps_open &= !closes;
    Next::Final(match status {
        204 | 304 => Progress::Whole(answer, head),
        _ if chunked => read_chunked(answer, bytes, head),
        _ => read_plain(answer, bytes, head, ended),
    })
}

/// Ends by a length, or with the connection.
fn read_plain(mut answer: Answer, bytes: &[u8], head: usize, ended: bool) -> Progress {
    let after = &bytes[head..];
    match answer.header("content-length").map(|text| text.parse::<usize>()) {
        Some(Ok(length)) if after.len() >= length => {
            answer.body = after[..length].to_vec();
            Progress::Whole(answer, head + length)
        }
        Some(Ok(_)) if after.len() < BODY_BYTES_MAX => Progress::Partial,
        Some(Err(_)) => Progress::Malformed("its content-length is not a number".to_owned()),
        None if !ended && after.len() < BODY_BYTES_MAX => Progress::Partial,
        Some(Ok(_)) | None => cut(answer, after.to_vec(), bytes.len()),
    }
}

/// An answer that ends with its connection, or is not read to its end.
fn cut(answer: Answer, mut body: Vec<u8>, length: usize) -> Progress {
    body.truncate(BODY_BYTES_MAX);
    Progress::Whole(Answer { body, keeps_open: false, ..answer }, length)
}

fn read_chunked(answer: Answer, bytes: &[u8], head: usize) -> Progress {
    let after = &bytes[head..];
    // Scanned first and copied once, since this runs again for every read.
    let mut pieces = Vec::new();
    let (mut at, mut kept) = (0, 0);
    let whole = loop {
        let (line, size) = match httparse::parse_chunk_size(&after[at..]) {
            Ok(httparse::Status::Complete(line)) => line,
            Ok(httparse::Status::Partial) => return Progress::Partial,
            Err(_) => return Progress::Malformed("its chunks are malformed".to_owned()),
        };
        let start = at + line;
        if size == 0 {
            match trailers(&after[start..]) {
                Some(length) => break Some(start + length),
                None => return Progress::Partial,
            }
        }
        let room = BODY_BYTES_MAX - kept;
        let Some(size) = usize::try_from(size).ok().filter(|size| *size <= room) else {
            if after.len() < start + room {
                return Progress::Partial;
            }
            pieces.push(start..start + room);
            break None;
        };
        if after.len() < start + size + 2 {
            return Progress::Partial;
        }
        pieces.push(start..start + size);
        (at, kept) = (start + size + 2, kept + size);
    };
    let body = pieces.into_iter().flat_map(|piece| &after[piece]).copied().collect();
    match whole {
        Some(length) => Progress::Whole(Answer { body, ..answer }, head + length),
        None => cut(answer, body, bytes.len()),
    }
}

/// Counts the final empty line.
fn trailers(bytes: &[u8]) -> Option<usize> {
    if bytes.starts_with(b"\r\n") {
        return Some(2);
    }
    Some(bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, ended: bool, expected: Option<(u16, &str, bool, usize)>) {
        let found = match read(text.as_bytes(), ended) {
            Progress::Whole(answer, length) => Some((
                answer.status,
                String::from_utf8_lossy(&answer.body).into_owned(),
                answer.keeps_open,
                length,
            )),
            _ => None,
        };
        let expected = expected.map(|(status, body, open, length)| (status, body.to_owned(), open, length));
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn an_answer_ends_where_its_framing_says() {
        let whole = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        check(&format!("{whole}HTTP/1.1"), false, Some((200, "ok", true, whole.len())));
        check(&whole[..whole.len() - 1], false, None);
        check("HTTP/1.1 204 No Content\r\n\r\n", false, Some((204, "", true, 27)));
        check("HTTP/1.1 200 OK\r\n\r\nok", false, None);
        check("HTTP/1.1 200 OK\r\n\r\nok", true, Some((200, "ok", false, 21)));
        check("HTTP/1.0 204 No Content\r\n\r\n", false, Some((204, "", false, 27)));
        check("HTTP/1.1 204 No\r\nConnection: Close\r\n\r\n", false, Some((204, "", false, 38)));
    }

    #[test]
    fn chunks_are_put_together_and_trailers_read_over() {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let whole = format!("{head}1\r\no\r\n1\r\nk\r\n0\r\nA: b\r\n\r\n");
        check(&whole, false, Some((200, "ok", true, whole.len())));
        check(&whole[..whole.len() - 1], false, None);
        check(&format!("{head}0\r\n\r\n"), false, Some((200, "", true, head.len() + 5)));
    }

    #[test]
    fn a_continue_is_read_over() {
        let text = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";
        check(text, false, Some((204, "", true, text.len())));
    }

    #[test]
    fn a_continue_is_told_from_other_interim_answers() {
        let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
        let rows = [
            ("HTTP/1.1 100 Continue\r\n\r\n".to_owned(), true),
            (format!("{hints}HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 X\r\n"), true),
            (format!("{hints}HTTP/1.1 100 Continue\r\n"), false),
            (format!("{hints}HTTP/1.1 204 No Content\r\n\r\n"), false),
            ("HTTP/1.1 102 Processing\r\n\r\n".to_owned(), false),
        ];
        for (text, expected) in rows {
            assert_eq!(continues(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn an_answer_that_never_comes_to_an_end_is_cut_off() {
        #[track_caller]
        fn is_malformed(bytes: &[u8]) {
            assert!(matches!(read(bytes, false), Progress::Malformed(_)), "{:?}", read(bytes, false));
        }
        let interim = "HTTP/1.1 100 Continue\r\n\r\n";
        let last = "HTTP/1.1 204 No Content\r\n\r\n";
        let some = format!("{}{last}", interim.repeat(INTERIM_MAX));
        check(&some, false, Some((204, "", true, some.len())));
        is_malformed(interim.repeat(100_000).as_bytes());
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        is_malformed(format!("{head}0\r\n{}", "A: b\r\n".repeat(BYTES_MAX / 6)).as_bytes());
        is_malformed(format!("{head}{}", "1\r\nx\r\n".repeat(BYTES_MAX / 6)).as_bytes());
    }

    #[test]
    fn as_much_of_a_body_is_kept_as_may_be() {
        let large = "x".repeat(BODY_BYTES_MAX + 1);
        let heads = ["", "Content-Length: 1000000000000\r\n", "Transfer-Encoding: chunked\r\n"];
        for (head, framing) in heads.into_iter().zip(["", "", "fffffffffffffff0\r\n"]) {
            let text = format!("HTTP/1.1 200 OK\r\n{head}\r\n{framing}{large}");
            match read(text.as_bytes(), false) {
                Progress::Whole(answer, _) => {
                    assert_eq!(answer.body.len(), BODY_BYTES_MAX, "{head}");
                    assert!(!answer.keeps_open);
                }
                other => panic!("{head}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_malformed_answer_is_reported() {
        assert!(matches!(read(b"SSH-2.0-x\r\n", false), Progress::Malformed(_)));
        assert!(matches!(
            read(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", false),
            Progress::Malformed(_)
        ));
        let endless = format!("HTTP/1.1 200 OK\r\nA: {}", "a".repeat(HEAD_BYTES_MAX));
        assert!(matches!(read(endless.as_bytes(), false), Progress::Malformed(_)));
    }
}
