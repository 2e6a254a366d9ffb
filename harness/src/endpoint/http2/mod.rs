//! An HTTP/2 connection to an endpoint, chosen over TLS or by prior knowledge (RFC 9113 §3.3). `h2` does frames and
//! flow control; [`frames`] finds the time of each request.
//!
//! A behaviour of a connection applies to the stream, so that it meets only the intended request:
//!
//! | behaviour | over HTTP/2 |
//! |---|---|
//! | `reset` | RST_STREAM (INTERNAL_ERROR) after the HEADERS, before the body is read |
//! | `reset-after-read` | the same after the whole request |
//! | `close` | RST_STREAM (CANCEL) after the whole request |
//! | `half-answer` | HEADERS that promise 100 bytes, 20 of them, and the end of the stream |
//! | `blackhole` | the stream stays open until the peer ends it |
//! | `drip` | HEADERS, then a body as long as the head over HTTP/1.1, one byte in each DATA frame |
//! | `stall` | the connection is not read; for a share of the requests, the stream waits unread |
//! | `refuse`, `no-accept` | the port is shut; an open connection ends (GOAWAY), and its later streams meet `reset` |
//!
//! On a shared port each stream stalls alone, and `refuse` and `no-accept` meet it as `reset`.
//!
//! Bounds: [`STREAMS_MAX`], [`STREAM_BYTES_MAX`], heads and bodies as over HTTP/1.1.

mod frames;
mod stream;

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use frames::Watched;
use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream};
use hookproof_judge::trace::CutKind;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::frames::{Begun, PREFACE};
use self::stream::Stream;
use super::port::Port;
use super::request::{HEAD_BYTES_MAX, ReadError};
use super::{Broken, ShutdownSignal};
use crate::clock::Clock;

const STREAMS_MAX: u32 = 1_000;
/// Unread bytes of a stream, and of a connection.
const STREAM_BYTES_MAX: u32 = 1 << 20;
const CONNECTION_BYTES_MAX: u32 = 4 << 20;
/// Streams that a peer may reset before they are accepted: a stalled peer may reset many.
const ENDED_MAX: usize = 10_000;
const PAUSE_NS: u64 = 1_000_000;

/// Whether a connection begins as HTTP/2 does. Reads nothing from it.
pub(super) async fn is_spoken(clock: &Clock, stream: &TcpStream) -> bool {
    /// No method of HTTP/1.1 begins with these bytes.
    const TELLING: usize = 3;
    let mut first = [0; TELLING];
    let mut seen = 0;
    loop {
        match stream.peek(&mut first).await {
            // More may follow while the prefix matches.
            Ok(read) if read > seen && read < TELLING && PREFACE.starts_with(&first[..read]) => seen = read,
            Ok(read) => return read == TELLING && PREFACE.starts_with(&first),
            Err(_) => return false,
        }
        clock.pass(PAUSE_NS).await;
    }
}

pub(super) async fn serve(
    port: Arc<Port>,
    stream: super::stream::Stream,
    number: u64,
    mut open: watch::Receiver<bool>,
    mut tether: ShutdownSignal,
) {
    let begun = Begun::default();
    let watched = Watched::new(Arc::clone(&port), stream, begun.clone());
    let handshake = tokio::select! {
        () = tether.closed() => return,
        handshake = builder().handshake::<_, Bytes>(watched) => handshake,
    };
    if let Ok(mut connection) = handshake {
        let mut streams = JoinSet::new();
        let taken = StreamContext { port: &port, begun: &begun, number, tether: &tether };
        let (mut is_open, mut is_current, mut over) = (true, true, tether.clone());
        let mut changed = pin!(port.certificate_changed());
        loop {
            tokio::select! {
                () = &mut changed, if is_current => {
                    is_current = false;
                    connection.graceful_shutdown();
                }
                () = over.closed() => break,
                // A closed port holds no idle connections.
                _ = open.wait_for(|open| !*open), if is_open => {
                    is_open = false;
                    connection.graceful_shutdown();
                }
                accepted = connection.accept() => match accepted {
                    Some(Ok((request, respond))) => taken.take(&mut streams, request, respond, is_open),
                    // The received requests are recorded.
                    Some(Err(_)) | None => break,
                },
                Some(_) = streams.join_next() => {}
            }
        }
        end(&mut connection, &mut streams).await;
    }
    let how = if tether.is_closed() { CutKind::RunEnded } else { CutKind::PeerGone };
    begun.rest().into_iter().for_each(|t| port.broken_off(how.into(), t, &[]));
}

/// Writes of the streams continue meanwhile.
async fn end(connection: &mut Connection<Watched, Bytes>, streams: &mut JoinSet<()>) {
    let mut is_over = false;
    while !streams.is_empty() {
        tokio::select! {
            ended = connection.accept(), if !is_over => is_over = !matches!(ended, Some(Ok(_))),
            _ = streams.join_next() => {}
        }
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(STREAMS_MAX)
        .initial_window_size(STREAM_BYTES_MAX)
        .initial_connection_window_size(CONNECTION_BYTES_MAX)
        .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(ENDED_MAX)
        .max_local_error_reset_streams(None);
    builder
}

/// RFC 9113, 8.1.1: the library hides the rest.
fn refused() -> Broken {
    ReadError::Malformed("the HTTP/2 library refused it as malformed".into()).into()
}

struct StreamContext<'a> {
    port: &'a Arc<Port>,
    begun: &'a Begun,
    number: u64,
    tether: &'a ShutdownSignal,
}

impl StreamContext<'_> {
    fn take(
        &self,
        streams: &mut JoinSet<()>,
        request: http::Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
        is_open: bool,
    ) {
        let (own, strays) = self.begun.take(respond.stream_id().as_u32());
        strays.into_iter().for_each(|t| self.port.broken_off(refused(), t, &[]));
        let began = own.unwrap_or_else(|| self.port.stage.clock.now());
        let target = request.uri().path_and_query().map_or("", |path| path.as_str());
        let named = request.headers().get(http::header::HOST).and_then(|host| host.to_str().ok());
        let host = request.uri().authority().map(|authority| authority.as_str()).or(named);
        let Some(endpoint) = self.port.find(target, host).cloned() else {
            return self.not_found(streams, request, respond);
        };
        if !is_open {
            endpoint.record_cut(None, CutKind::Reset.into(), Some(began), None);
            return respond.send_reset(Reason::INTERNAL_ERROR);
        }
        let tether = self.tether.clone();
        let luck = endpoint.choices.draw();
        let stream = Stream { endpoint, connection: self.number, began, luck };
        streams.spawn(stream.serve(request, respond, tether));
    }

    fn not_found(
        &self,
        streams: &mut JoinSet<()>,
        request: http::Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
    ) {
        let (port, mut tether) = (Arc::clone(self.port), self.tether.clone());
        streams.spawn(async move {
            let (parts, mut source) = request.into_parts();
            let mut body = Vec::new();
            tokio::select! {
                () = tether.closed() => {}
                // Records the bytes before an error.
                _ = stream::read(&mut source, &mut body) => {}
            }
            let request = stream::to_request(&parts, body);
            let authority = parts.uri.authority().map(|authority| authority.as_str());
            let host = authority.or_else(|| request.field("host"));
            port.stray(&request.method, &request.path, host, &request.body);
            let mut head = http::Response::new(());
            *head.status_mut() = http::StatusCode::NOT_FOUND;
            // The exchange is over in any case.
            let _ = respond.send_response(head, true);
        });
    }
}
