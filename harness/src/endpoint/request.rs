//! Reads HTTP/1.1 requests from a connection. No server library stops before the first byte, stamps it, answers half,
//! drips bytes or resets.
//!
//! Pipelined requests are read while an answer is pending, and keep the time of their own first byte.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use hookproof_judge::signature::{Key, Received, sha256_hex};
use hookproof_judge::trace::{
    Answer, Arrival, Asked, Cut, CutKind, Head, Payload, Record, Shared, Signed, Text, Verified,
};
use hookproof_play::endpoint::Rendered;
use hookproof_play::payload::{decoded, tokens_in};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::stream::Stream;
use super::{Broken, Endpoint, form};
use crate::clock::Clock;

pub(super) const HEAD_BYTES_MAX: usize = 64 << 10;
const FIELDS_MAX: usize = 100;
/// The longest body. Senders cap events far below.
pub(super) const BODY_BYTES_MAX: usize = 32 << 20;
/// Between requests.
const IDLE_BYTES_MAX: usize = 64 << 10;
const READ_BYTES: usize = 16 << 10;
/// Read ahead of the current answer.
const AHEAD_BYTES_MAX: usize = 1 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) fields: Fields,
    /// Excludes chunk framing.
    pub(super) body: Vec<u8>,
    pub(super) keep_alive: bool,
    pub(super) forbidden: Option<String>,
    pub(super) http2: bool,
}

/// Names and values in order and spelling, in two buffers, since a request has ten or more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    names: String,
    values: Vec<u8>,
    ends: Vec<(usize, usize)>,
}

impl Fields {
    fn clear(&mut self) {
        self.names.clear();
        self.values.clear();
        self.ends.clear();
    }

    pub(super) fn push(&mut self, name: &str, value: &[u8]) {
        self.names.push_str(name);
        self.values.extend_from_slice(value);
        self.ends.push((self.names.len(), self.values.len()));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let mut from = (0, 0);
        self.ends.iter().map(move |end| {
            let (name, value) = from;
            from = *end;
            (&self.names[name..end.0], &self.values[value..end.1])
        })
    }
}

impl Request {
    #[must_use]
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        let found = fields.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.and_then(|(_, value)| std::str::from_utf8(value).ok())
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("the peer closed the connection after {read} bytes of a request")]
    Closed {
        /// Bytes of the incomplete request.
        read: usize,
    },
    #[error("this is not an HTTP request: {0}")]
    Malformed(Cow<'static, str>),
    #[error("reading a request failed: {0}")]
    Io(#[from] io::Error),
}

impl From<ReadError> for Broken {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io(_) | ReadError::Closed { .. } => CutKind::PeerGone.into(),
            ReadError::Malformed(why) => Self { how: CutKind::Malformed, why: Some(why) },
        }
    }
}

/// A connection, with the bytes read beyond the last request.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) stream: Stream,
    clock: Clock,
    buffer: Vec<u8>,
    /// Length and time, in order.
    came: VecDeque<(usize, u64)>,
    /// A finished request, kept for its capacity.
    done: Request,
}

impl Wire {
    pub(super) fn new(stream: Stream, clock: Clock) -> Self {
        let (buffer, came) = (Vec::with_capacity(READ_BYTES), VecDeque::new());
        Self { stream, clock, buffer, came, done: Request::default() }
    }

    pub(super) fn reuse(&mut self, mut request: Request) {
        request.body.clear();
        request.body.shrink_to(IDLE_BYTES_MAX);
        self.done = request;
    }

    /// None without unparsed bytes.
    pub(super) fn first_byte(&self) -> Option<u64> {
        self.came.front().map(|(_, t)| *t)
    }

    pub(super) fn rest(&self) -> &[u8] {
        &self.buffer
    }

    /// After [`AHEAD_BYTES_MAX`] buffered bytes the end can no longer be seen.
    pub(super) async fn gone(&mut self) {
        while self.buffer.len() < AHEAD_BYTES_MAX {
            if !matches!(self.more().await, Ok(1..)) {
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    pub(super) async fn readable(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() { self.stream.readable().await } else { Ok(()) }
    }

    /// Also reads everything that is ready. None if the peer has closed.
    pub(super) async fn begin(&mut self) -> io::Result<Option<u64>> {
        if self.buffer.is_empty() && self.more().await? == 0 {
            return Ok(None);
        }
        // A read that filled the buffer, or stopped at a TLS record, may have left bytes.
        let more = |wire: &Self| wire.buffer.len() == wire.buffer.capacity() || wire.stream.reads_in_pieces();
        while more(self) && self.buffer.len() < AHEAD_BYTES_MAX {
            self.buffer.reserve(READ_BYTES);
            match self.stream.try_read_buf(&mut self.buffer) {
                Ok(read @ 1..) => self.came.push_back((read, self.clock.now())),
                // The next read reports the same error.
                _ => break,
            }
        }
        Ok(self.first_byte())
    }

    pub(super) async fn request(&mut self) -> Result<Request, ReadError> {
        let (mut request, head) = self.head().await?;
        if request.field("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue")) {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
            self.stream.flush().await?;
        }
        match framing(&request)? {
            Framing::Length(length) => {
                while self.buffer.len() < head + length {
                    self.more_or_closed().await?;
                }
                request.body.extend_from_slice(&self.buffer[head..head + length]);
                self.consume(head + length);
            }
            Framing::Chunked => {
                self.consume(head);
                let (body, forbidden) = self.chunks().await?;
                request.body = body;
                request.forbidden = request.forbidden.or(forbidden);
            }
        }
        self.buffer.shrink_to(IDLE_BYTES_MAX);
        Ok(request)
    }

    /// Consumes nothing; returns the request without a body, and the head's length.
    pub(super) async fn head(&mut self) -> Result<(Request, usize), ReadError> {
        loop {
            if let Some(head) = parse(&self.buffer, &mut self.done)? {
                return Ok((std::mem::take(&mut self.done), head));
            }
            if self.buffer.len() > HEAD_BYTES_MAX {
                return Err(ReadError::Malformed("its head is too long".into()));
            }
            self.more_or_closed().await?;
        }
    }

    pub(super) fn read_now(&mut self) {
        let now = self.clock.now();
        self.came.iter_mut().for_each(|(_, t)| *t = now);
    }

    async fn chunks(&mut self) -> Result<(Vec<u8>, Option<String>), ReadError> {
        let (mut body, mut forbidden) = (Vec::new(), None);
        loop {
            let line = self.line().await?;
            forbidden = forbidden.or_else(|| form::forbidden_chunk(&line));
            let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
            let length =
                std::str::from_utf8(digits).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
            let length = length.ok_or(ReadError::Malformed("a chunk's length is not a number".into()))?;
            if length == 0 {
                while !self.line().await?.trim_ascii_end().is_empty() {}
                return Ok((body, forbidden));
            }
            if body.len().saturating_add(length) > BODY_BYTES_MAX {
                return Err(ReadError::Malformed("its body is too long".into()));
            }
            while self.buffer.len() < length + 2 {
                self.more_or_closed().await?;
            }
            body.extend_from_slice(&self.buffer[..length]);
            forbidden = forbidden.or_else(|| form::forbidden_chunk_end(&self.buffer[length..length + 2]));
            self.consume(length + 2);
        }
    }

    async fn line(&mut self) -> Result<Vec<u8>, ReadError> {
        const LINE_BYTES_MAX: usize = 8 << 10;
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer[..=end].to_vec();
                self.consume(end + 1);
                return Ok(line);
            }
            if self.buffer.len() > LINE_BYTES_MAX {
                return Err(ReadError::Malformed("a line between chunks is too long".into()));
            }
            self.more_or_closed().await?;
        }
    }

    async fn more_or_closed(&mut self) -> Result<(), ReadError> {
        if self.more().await? == 0 { Err(ReadError::Closed { read: self.buffer.len() }) } else { Ok(()) }
    }

    async fn more(&mut self) -> io::Result<usize> {
        self.buffer.reserve(READ_BYTES);
        let read = self.stream.read_buf(&mut self.buffer).await?;
        if read > 0 {
            self.came.push_back((read, self.clock.now()));
        }
        Ok(read)
    }

    pub(super) fn forget(&mut self) {
        self.consume(self.buffer.len());
    }

    fn consume(&mut self, mut bytes: usize) {
        self.buffer.drain(..bytes);
        while let Some((first, _)) = self.came.front_mut() {
            if *first > bytes {
                *first -= bytes;
                return;
            }
            bytes -= *first;
            self.came.pop_front();
        }
    }
}

enum Framing {
    Length(usize),
    Chunked,
}

fn framing(request: &Request) -> Result<Framing, ReadError> {
    if let Some(coding) = request.field("transfer-encoding") {
        let chunked = coding.trim().eq_ignore_ascii_case("chunked");
        return if chunked {
            Ok(Framing::Chunked)
        } else {
            Err(ReadError::Malformed("its transfer-encoding is not chunked".into()))
        };
    }
    let Some(length) = request.field("content-length") else { return Ok(Framing::Length(0)) };
    match length.trim().parse() {
        Ok(length) if length <= BODY_BYTES_MAX => Ok(Framing::Length(length)),
        Ok(_) => Err(ReadError::Malformed("its body is too long".into())),
        Err(_) => Err(ReadError::Malformed("its content-length is not a number".into())),
    }
}

/// Returns the head's length, or none if it is incomplete.
fn parse(buffer: &[u8], request: &mut Request) -> Result<Option<usize>, ReadError> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut parsed = httparse::Request::new(&mut []);
    let status = parsed.parse_with_uninit_headers(buffer, &mut fields);
    let status = status.map_err(|_| {
        ReadError::Malformed(form::forbidden(buffer).map_or("its head cannot be parsed".into(), Cow::Owned))
    })?;
    let httparse::Status::Complete(head) = status else { return Ok(None) };
    for (own, read) in [(&mut request.method, parsed.method), (&mut request.path, parsed.path)] {
        own.clear();
        own.push_str(read.unwrap_or_default());
    }
    request.fields.clear();
    parsed.headers.iter().for_each(|field| request.fields.push(field.name, field.value));
    request.body.clear();
    let connection = request.field("connection").unwrap_or_default().to_ascii_lowercase();
    request.keep_alive = if parsed.version == Some(1) {
        !connection.contains("close")
    } else {
        connection.contains("keep-alive")
    };
    (request.forbidden, request.http2) = (form::forbidden(&buffer[..head]), false);
    Ok(Some(head))
}

/// `body` is without its content coding.
fn disclosed(secrets: &[Key], request: &Request, body: &[u8]) -> Option<String> {
    const NAME_CHARS_MAX: usize = 40;
    let is_in = |bytes: &[u8]| secrets.iter().any(|secret| secret.is_in(bytes));
    if is_in(request.path.as_bytes()) {
        return Some("its target".to_owned());
    }
    if let Some((name, _)) = request.fields.iter().find(|(_, value)| is_in(value)) {
        return Some(format!("its header {}", name.chars().take(NAME_CHARS_MAX).collect::<String>()));
    }
    is_in(body).then(|| "its body".to_owned())
}

impl Endpoint {
    /// By the times of its first byte, if there was one, and its last. A broken one ends now.
    pub(super) fn answered(
        &self,
        n: u64,
        rendered: Rendered,
        (first, last): (Option<u64>, u64),
        whole: bool,
    ) {
        let Rendered { status, retry_after, .. } = rendered;
        let now = self.stage.clock.now();
        let (t, end) = (first.unwrap_or(now), if whole { last } else { now });
        let retry_after = retry_after.map(Text::from);
        self.stage.recorder.record(Record::Answer(Answer { t, end, n, status, retry_after, whole }));
    }

    pub(super) fn cut(&self, n: u64, how: CutKind) {
        self.record_cut(Some(n), how.into(), None, None);
    }

    pub(super) fn unread(&self, wire: &Wire, how: CutKind) {
        self.record_cut(None, how.into(), wire.first_byte(), self.stage.tokens.find(wire.rest()));
    }

    pub(super) fn broken_off(&self, wire: &mut Wire, began: u64, how: Broken) {
        self.record_cut(None, how, Some(began), self.stage.tokens.find(wire.rest()));
        // After an invalid request the next one's beginning is unknown.
        wire.forget();
    }

    pub(super) fn record_cut(&self, n: Option<u64>, how: Broken, began: Option<u64>, token: Option<u64>) {
        let (t, endpoint) = (self.stage.clock.now(), self.text.clone());
        let Broken { how, why } = how;
        let why = why.as_deref().map(Text::from);
        self.stage.recorder.record(Record::Cut(Cut { t, endpoint, n, how, began, token, why }));
    }

    /// The record lacks its number.
    pub(super) fn arrival(&self, request: &Request, t: u64, read: u64, connection: u64) -> Arrival {
        let fields: Vec<_> = request.fields.iter().collect();
        let secrets = self.secrets.read().unwrap_or_else(PoisonError::into_inner);
        let received = Received {
            method: &request.method,
            url: &self.url,
            target: Some(&request.path),
            headers: &fields,
            body: &request.body,
        };
        let seen = self.scheme.verify(&secrets, &received);
        let verified = match seen.verdict {
            _ if !self.scheme.is_signed() => Verified::Unchecked("the sender does not sign".into()),
            _ if secrets.is_empty() => Verified::Unchecked("the subscriber's secret is not known".into()),
            Ok(keys) => Verified::Keys(keys.into()),
            Err(wrong) => Verified::No(wrong.to_string().into()),
        };
        let (body, unread) = match decoded(&request.body, request.field("content-encoding")) {
            Ok(body) => (body, None),
            Err(why) => (Cow::Borrowed(request.body.as_slice()), Some(Payload::Unread(why.into()))),
        };
        let disclosed = disclosed(&secrets, request, &body).map(Text::from);
        drop(secrets);
        let tokens = tokens_in(self.stage.tokens, &body);
        let payload =
            self.stage.offered.as_ref().and_then(|offered| offered.compare(&body, &tokens).or(unread));
        let mut tokens = tokens.into_iter();
        Arrival {
            t,
            read,
            n: 0,
            endpoint: self.text.clone(),
            connection,
            token: tokens.next(),
            more: tokens.collect(),
            id: seen.id.map(Text::from),
            attempt: seen.attempt.map(Text::from),
            head: self.head(request),
            bytes: u64::try_from(request.body.len()).unwrap_or(u64::MAX),
            sha256: sha256_hex(&request.body).into(),
            payload,
            signed: Signed {
                signature: seen.signature.map(Box::from),
                verified,
                surplus: u32::try_from(seen.surplus).unwrap_or(u32::MAX),
                disclosed,
                timestamp: seen.timestamp.map(Text::from),
            },
        }
    }

    /// The answer to a request for permission, which is no arrival.
    pub(super) fn permit(&self, request: &Request) -> Option<Vec<(&'static str, String)>> {
        let (permission, asked) = self.permission.as_ref().filter(|_| request.method == "OPTIONS")?;
        let origin = request.field("webhook-request-origin").map(str::to_owned);
        let is_first = asked.fetch_add(1, Ordering::SeqCst) < permission.refusals;
        let is_own = self.url.ends_with(&request.path);
        let granted = is_own
            && !is_first
            && origin.as_ref().is_some_and(|it| it.eq_ignore_ascii_case(&permission.origin));
        let (t, endpoint) = (self.stage.clock.now(), self.name.clone());
        self.stage.recorder.record(Record::Permission(Asked { t, endpoint, origin, granted }));
        let headers = [("webhook-allowed-origin", &*permission.origin), ("webhook-allowed-rate", "*")];
        let headers = headers.into_iter().filter(|_| granted);
        Some(headers.map(|(name, value)| (name, value.to_owned())).collect())
    }

    fn head(&self, request: &Request) -> Shared<Head> {
        let content_type = request.field("content-type");
        let origin = request.field("webhook-request-origin");
        let mut last = self.last_head.lock().unwrap_or_else(PoisonError::into_inner);
        let same = last.as_ref().filter(|head| {
            let own = (head.method.as_str(), head.path.as_str(), head.content_type.as_deref());
            own == (request.method.as_str(), request.path.as_str(), content_type)
                && head.forbidden.as_deref() == request.forbidden.as_deref()
                && head.origin.as_deref() == origin
                && head.http2 == request.http2
        });
        if let Some(same) = same {
            return same.clone();
        }
        let (method, path) = (request.method.as_str().into(), request.path.as_str().into());
        let forbidden = request.forbidden.as_deref().map(Text::from);
        let content_type = content_type.map(Text::from);
        let (origin, http2) = (origin.map(Text::from), request.http2);
        let head = Shared::from(Head { method, path, content_type, forbidden, origin, http2 });
        *last = Some(head.clone());
        head
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, TcpStream};

    async fn read(pieces: &[&[u8]]) -> Vec<Result<Request, ReadError>> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut wire = Wire::new(Stream::Plain(listener.accept().await.unwrap().0), Clock::begun());
        for piece in pieces {
            peer.write_all(piece).await.unwrap();
        }
        peer.shutdown().await.unwrap();
        let mut read = Vec::new();
        while wire.begin().await.unwrap().is_some() {
            read.push(wire.request().await);
            if read.last().is_some_and(Result::is_err) {
                break;
            }
        }
        read
    }

    #[track_caller]
    fn bodies(read: Vec<Result<Request, ReadError>>) -> Vec<String> {
        read.into_iter().map(|request| String::from_utf8(request.unwrap().body).unwrap()).collect()
    }

    #[tokio::test]
    async fn requests_on_one_connection_are_told_apart_however_they_are_framed() {
        let read = read(&[
            b"POST /a?b HTTP/1.1\r\nContent-Length: 5\r\n\r\nhelloPOST / HTTP/1.1\r\n",
            b"transfer-encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: 1\r\n\r\n",
            b"GET / HTTP/1.0\r\n\r\n",
        ])
        .await;
        assert!(read[0].as_ref().is_ok_and(|request| request.keep_alive && request.path == "/a?b"));
        assert!(read[2].as_ref().is_ok_and(|request| !request.keep_alive));
        assert_eq!(bodies(read), ["hello", "abcde", ""]);
    }

    #[tokio::test]
    async fn a_truncated_or_malformed_request_is_an_error() {
        for bytes in [
            &b"POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nhell"[..],
            b"POST / HT",
            b"\x16\x03\x01\x02\x00",
            b"POST / HTTP/1.1\r\ncontent-length: -5\r\n\r\n",
            b"POST / HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n",
            b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        ] {
            let read = read(&[bytes]).await;
            assert!(matches!(read.as_slice(), [Err(_)]), "{read:?}");
        }
    }
}
