//! Reading an answer, within bounds, as far as it has come.

/// The most headers of an answer.
const HEADERS_MAX: usize = 128;
/// The most bytes of an answer's head.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The most bytes of an answer's body that are kept. What comes after them is not read.
pub const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its headers, as they came.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Its body, or as much of it as is kept.
    pub body: Vec<u8>,
    /// Whether the connection may be used again.
    pub keeps_open: bool,
}

impl Answer {
    /// The value of a header, as text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<String> {
        let (_, value) = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(String::from_utf8_lossy(value).trim().to_owned())
    }

    /// `Retry-After` in seconds, where it is a number.
    #[must_use]
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.header("retry-after")?.parse().ok()
    }
}

/// How far an answer has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More bytes are needed.
    Partial,
    /// It is whole, and this many bytes long.
    Whole(Answer, usize),
    /// It is no HTTP.
    Malformed(String),
}

/// Reads what has come of an answer. `ended` says that nothing more will come.
#[must_use]
pub fn read(bytes: &[u8], ended: bool) -> Progress {
    let mut slots = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut slots);
    let head = match response.parse(bytes) {
        Ok(httparse::Status::Complete(head)) => head,
        Ok(httparse::Status::Partial) if bytes.len() > HEAD_BYTES_MAX => {
            return Progress::Malformed(format!("its head is longer than {HEAD_BYTES_MAX} bytes"));
        }
        Ok(httparse::Status::Partial) => return Progress::Partial,
        Err(error) => return Progress::Malformed(error.to_string()),
    };
    let status = response.code.unwrap_or_default();
    let after = &bytes[head..];
    if (100..200).contains(&status) {
        return match read(after, ended) {
            Progress::Whole(answer, length) => Progress::Whole(answer, head + length),
            other => other,
        };
    }
    let headers: Vec<(String, Vec<u8>)> =
        response.headers.iter().map(|header| (header.name.to_owned(), header.value.to_vec())).collect();
    let mut answer = Answer { status, headers, body: Vec::new(), keeps_open: response.version == Some(1) };
    let says = |name: &str, word: &str| {
        answer.header(name).is_some_and(|value| value.to_ascii_lowercase().contains(word))
    };
    let (closes, chunked) = (says("connection", "close"), says("transfer-encoding", "chunked"));
    answer.keeps_open &= !closes;
    if status == 204 || status == 304 {
        return Progress::Whole(answer, head);
    }
    if chunked {
        return match chunks(after) {
            Chunks::Whole(body, length) => Progress::Whole(Answer { body, ..answer }, head + length),
            Chunks::Partial(body) if body.len() >= BODY_BYTES_MAX => cut(answer, body, bytes.len()),
            Chunks::Partial(_) => Progress::Partial,
            Chunks::Malformed => Progress::Malformed("its chunks are not well formed".to_owned()),
        };
    }
    match answer.header("content-length").map(|text| text.parse::<usize>()) {
        Some(Ok(length)) if after.len() >= length => {
            answer.body = after[..length].to_vec();
            Progress::Whole(answer, head + length)
        }
        Some(Ok(_)) if after.len() < BODY_BYTES_MAX => Progress::Partial,
        Some(Err(_)) => Progress::Malformed("its content length is no number".to_owned()),
        None if !ended && after.len() < BODY_BYTES_MAX => Progress::Partial,
        Some(Ok(_)) | None => cut(answer, after.to_vec(), bytes.len()),
    }
}

/// An answer that ends with its connection, or of which the rest isn't read.
fn cut(answer: Answer, mut body: Vec<u8>, length: usize) -> Progress {
    body.truncate(BODY_BYTES_MAX);
    Progress::Whole(Answer { body, keeps_open: false, ..answer }, length)
}

enum Chunks {
    Whole(Vec<u8>, usize),
    Partial(Vec<u8>),
    Malformed,
}

fn chunks(bytes: &[u8]) -> Chunks {
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        match httparse::parse_chunk_size(&bytes[at..]) {
            Ok(httparse::Status::Complete((head, size))) => {
                let Ok(size) = usize::try_from(size) else { return Chunks::Malformed };
                let start = at + head;
                let Some(end) = start.checked_add(size) else { return Chunks::Malformed };
                if size == 0 {
                    // Trailers are read over: they end with an empty line.
                    let rest = &bytes[start..];
                    let empty = rest.starts_with(b"\r\n").then_some(2);
                    let end =
                        empty.or_else(|| Some(rest.windows(4).position(|four| four == b"\r\n\r\n")? + 4));
                    return end.map_or(Chunks::Partial(Vec::new()), |end| Chunks::Whole(body, start + end));
                }
                if body.len() + size > BODY_BYTES_MAX || bytes.len() < end + 2 {
                    body.extend_from_slice(&bytes[start..end.min(bytes.len())]);
                    return Chunks::Partial(body);
                }
                body.extend_from_slice(&bytes[start..end]);
                at = end + 2;
            }
            Ok(httparse::Status::Partial) => return Chunks::Partial(body),
            Err(_) => return Chunks::Malformed,
        }
    }
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
    fn what_is_no_answer_is_said_to_be_none() {
        assert!(matches!(read(b"SSH-2.0-x\r\n", false), Progress::Malformed(_)));
        assert!(matches!(
            read(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", false),
            Progress::Malformed(_)
        ));
        let endless = format!("HTTP/1.1 200 OK\r\nA: {}", "a".repeat(HEAD_BYTES_MAX));
        assert!(matches!(read(endless.as_bytes(), false), Progress::Malformed(_)));
    }
}
