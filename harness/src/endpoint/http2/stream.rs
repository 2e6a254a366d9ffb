use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use hookproof_judge::scenario::{self, Behaviour, Duration, Reply};
use hookproof_judge::trace::CutKind;
use hookproof_play::endpoint::{Before, Luck, Rendered, render};
use http::{HeaderName, HeaderValue, Response};

use crate::endpoint::request::{BODY_BYTES_MAX, Fields, Request};
use crate::endpoint::{Deed, Endpoint, ShutdownSignal, form, is_blackhole, ok};

#[expect(clippy::cast_possible_truncation, reason = "64 KiB")]
const PIECE_BYTES: usize = scenario::PIECE_BYTES as usize;
static FILLING: [u8; PIECE_BYTES] = [b'x'; PIECE_BYTES];

pub(super) struct Stream {
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) connection: u64,
    /// Its HEADERS' first byte.
    pub(super) began: u64,
    pub(super) luck: Luck,
}

impl Stream {
    pub(super) async fn serve(
        self,
        request: http::Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
        mut tether: ShutdownSignal,
    ) {
        let clock = &self.endpoint.stage.clock;
        match self.endpoint.choices.before(clock.now(), self.luck) {
            Before::Read => {}
            Before::Reset => {
                self.endpoint.record_cut(None, CutKind::Reset.into(), Some(self.began), None);
                return respond.send_reset(Reason::INTERNAL_ERROR);
            }
            Before::Wait(until) => tokio::select! {
                () = tether.closed() => return self.broken_off(&[], CutKind::RunEnded),
                () = gone(&mut respond) => return self.broken_off(&[], CutKind::PeerGone),
                () = clock.until(until) => {}
            },
        }
        let (parts, mut source) = request.into_parts();
        let mut body = Vec::new();
        let read = tokio::select! {
            () = tether.closed() => Err(CutKind::RunEnded),
            read = read(&mut source, &mut body) => read,
        };
        if let Err(how) = read {
            self.broken_off(&body, how);
            return respond.send_reset(Reason::PROTOCOL_ERROR);
        }
        let request = to_request(&parts, body);
        if let Some(headers) = self.endpoint.permit(&request) {
            let mut head = Response::builder().status(204);
            for (name, value) in headers {
                head = head.header(name, value);
            }
            if let Ok(head) = head.body(()) {
                let _ = respond.send_response(head, true);
            }
            return;
        }
        let arrival = self.endpoint.arrival(&request, self.began, clock.now(), self.connection);
        let delivery = arrival.token;
        let n = self.endpoint.stage.recorder.arrival(arrival);
        let chosen = self.endpoint.choices.choose(self.began, self.luck, delivery);
        tokio::select! {
            () = tether.closed() => self.endpoint.cut(n, CutKind::RunEnded),
            () = self.perform(n, respond, chosen) => {}
        }
    }

    fn broken_off(&self, body: &[u8], how: CutKind) {
        self.endpoint.record_cut(None, how.into(), Some(self.began), self.endpoint.stage.tokens.find(body));
    }

    async fn perform(&self, n: u64, mut respond: SendResponse<Bytes>, chosen: Option<(usize, &Behaviour)>) {
        let endpoint = &self.endpoint;
        if is_blackhole(chosen) {
            gone(&mut respond).await;
            return endpoint.cut(n, CutKind::Blackhole);
        }
        let latency = endpoint.choices.latency(chosen, self.luck, endpoint.stage.clock.now());
        if latency > 0 {
            tokio::select! {
                // A peer that has gone gets no answer.
                biased;
                () = gone(&mut respond) => return endpoint.cut(n, CutKind::PeerGone),
                () = endpoint.stage.clock.pass(latency) => {}
            }
        }
        match endpoint.deed(chosen) {
            Deed::Answer(reply) => self.answer(n, respond, &reply).await,
            Deed::Drip(pace) => self.drip(n, respond, pace).await,
            Deed::HalfAnswer => {
                endpoint.cut(n, CutKind::HalfAnswer);
                let half = Bytes::from_static(b"half of what was prom");
                let head = Response::builder().header(http::header::CONTENT_LENGTH, 100).body(());
                // The exchange is over in any case.
                let sent = head.map(|head| respond.send_response(head, false));
                let _ = sent.map(|sent| sent.and_then(|mut body| body.send_data(half, true)));
            }
            Deed::Close => {
                endpoint.cut(n, CutKind::Close);
                respond.send_reset(Reason::CANCEL);
            }
            Deed::Reset => {
                endpoint.cut(n, CutKind::ResetAfterRead);
                respond.send_reset(Reason::INTERNAL_ERROR);
            }
        }
    }

    /// Each time is taken before the library gets the bytes.
    async fn answer(&self, n: u64, mut respond: SendResponse<Bytes>, reply: &Reply) {
        let clock = &self.endpoint.stage.clock;
        let rendered = render(reply, clock.unix_ns(clock.now()));
        let mut left = rendered.body_bytes;
        let first = clock.now();
        let mut last = first;
        let mut body = match respond.send_response(head(&rendered), left == 0) {
            Ok(body) => body,
            Err(_) => return self.endpoint.answered(n, rendered, (None, 0), false),
        };
        while left > 0 {
            let wanted = usize::try_from(left).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
            let Some(room) = room(&mut body, wanted).await else {
                return self.endpoint.answered(n, rendered, (Some(first), last), false);
            };
            let piece = &FILLING[..room.min(wanted)];
            left -= piece.len() as u64;
            last = clock.now();
            if body.send_data(Bytes::from_static(piece), left == 0).is_err() {
                return self.endpoint.answered(n, rendered, (Some(first), last), false);
            }
        }
        self.endpoint.answered(n, rendered, (Some(first), last), true);
    }

    async fn drip(&self, n: u64, mut respond: SendResponse<Bytes>, pace: Duration) {
        let clock = &self.endpoint.stage.clock;
        let rendered = render(&ok(), clock.unix_ns(clock.now()));
        let length = rendered.head().len();
        let promise = Response::builder().header(http::header::CONTENT_LENGTH, length).body(());
        let first = clock.now();
        let sent = promise.map(|promise| respond.send_response(promise, false));
        let Ok(Ok(mut body)) = sent else {
            return self.endpoint.answered(n, rendered, (None, 0), false);
        };
        let mut last = first;
        for at in 1..=length {
            tokio::select! {
                biased;
                _ = poll_fn(|cx| body.poll_reset(cx)) => {
                    return self.endpoint.answered(n, rendered, (Some(first), last), false);
                }
                () = clock.pass(pace.0) => {}
            }
            last = clock.now();
            if body.send_data(Bytes::from_static(b"x"), at == length).is_err() {
                return self.endpoint.answered(n, rendered, (Some(first), last), false);
            }
        }
        self.endpoint.answered(n, rendered, (Some(first), last), true);
    }
}

/// Waits until the peer has ended the stream or its connection.
async fn gone(respond: &mut SendResponse<Bytes>) {
    // An error means the end of the connection.
    let _ = poll_fn(|cx| respond.poll_reset(cx)).await;
}

/// Waits for flow-control capacity up to `wanted`; none if the peer takes no more.
async fn room(body: &mut SendStream<Bytes>, wanted: usize) -> Option<usize> {
    body.reserve_capacity(wanted);
    loop {
        let room = poll_fn(|cx| body.poll_capacity(cx)).await?.ok()?;
        if room > 0 {
            return Some(room);
        }
    }
}

pub(super) async fn read(source: &mut RecvStream, body: &mut Vec<u8>) -> Result<(), CutKind> {
    while let Some(piece) = source.data().await {
        let ended = |error: h2::Error| {
            let by_peer = error.is_io() || error.is_remote();
            if by_peer { CutKind::PeerGone } else { CutKind::Malformed }
        };
        let piece = piece.map_err(ended)?;
        if body.len() + piece.len() > BODY_BYTES_MAX {
            return Err(CutKind::Malformed);
        }
        body.extend_from_slice(&piece);
        source.flow_control().release_capacity(piece.len()).map_err(ended)?;
    }
    Ok(())
}

pub(super) fn to_request(parts: &http::request::Parts, body: Vec<u8>) -> Request {
    let mut fields = Fields::default();
    parts.headers.iter().for_each(|(name, value)| fields.push(name.as_str(), value.as_bytes()));
    let path = parts.uri.path_and_query().map_or("", |path| path.as_str());
    let (method, forbidden) = (parts.method.to_string(), form::forbidden_second(parts));
    Request { method, path: path.to_owned(), fields, body, keep_alive: true, forbidden, http2: true }
}

/// Characters that are invalid in a field become `?`.
fn head(rendered: &Rendered) -> Response<()> {
    let mut head = Response::new(());
    *head.status_mut() = http::StatusCode::from_u16(rendered.status).unwrap_or_default();
    for (name, value) in &rendered.fields {
        let fits = |letter: char| if letter.is_ascii_control() && letter != '\t' { '?' } else { letter };
        let value: String = value.chars().map(fits).collect();
        if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
            head.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    head
}
