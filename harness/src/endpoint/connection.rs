//! One connection to an endpoint: requests in, stamped and recorded; answers out, or what happens instead.

use std::io;
use std::sync::{Arc, PoisonError};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::answer::{Rendered, render};
use super::choice::{Before, Luck};
use super::deed::{Deed, is_blackhole, ok};
use super::request::{ReadError, Request, Wire};
use super::{Endpoint, ShutdownSignal, http2};
use crate::run::Clock;
use crate::scenario::{self, Behaviour, Duration, Reply};
use crate::trace::{Answer, Arrival, Cut, CutKind, Record, Signed, Verified};
use crate::wire::digest::sha256_hex;

/// What is written of a large body at once.
#[expect(clippy::cast_possible_truncation, reason = "64 KiB")]
const PIECE_BYTES: usize = scenario::PIECE_BYTES as usize;
static FILLING: [u8; PIECE_BYTES] = [b'x'; PIECE_BYTES];

/// Whether the connection may carry another request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Again,
    End,
}

/// Serves a connection until it ends, the endpoint refuses, or the run is over.
pub(super) async fn serve(
    endpoint: Arc<Endpoint>,
    stream: TcpStream,
    number: u64,
    mut open: watch::Receiver<bool>,
    mut tether: ShutdownSignal,
) {
    // Small answers must not wait for each other's acknowledgements; if that can't be had, they are merely late.
    let _ = stream.set_nodelay(true);
    let is_second = tokio::select! {
        () = tether.closed() => return,
        _ = open.wait_for(|open| !*open) => return reset(stream),
        is_second = http2::is_spoken(&endpoint, &stream) => is_second,
    };
    if is_second {
        http2::serve(endpoint, stream, number, open, tether).await;
    } else {
        requests(endpoint, stream, number, open, tether).await;
    }
}

/// Serves an HTTP/1.1 connection, one request after another.
async fn requests(
    endpoint: Arc<Endpoint>,
    stream: TcpStream,
    number: u64,
    mut open: watch::Receiver<bool>,
    mut tether: ShutdownSignal,
) {
    let mut wire = Wire::new(stream, endpoint.stage.clock.clone());
    loop {
        tokio::select! {
            () = tether.closed() => return,
            // While the port is closed nobody is there to hold idle connections either.
            _ = open.wait_for(|open| !*open) => return reset(wire.stream),
            ready = wire.readable() => if ready.is_err() { return },
        }
        let luck = endpoint.choices.draw();
        let clock = &endpoint.stage.clock;
        match endpoint.choices.before(clock.now(), luck) {
            Before::Read => {}
            Before::Reset => {
                // It is read to be counted; the peer cannot tell.
                tokio::select! {
                    () = tether.closed() => {}
                    _ = wire.begin() => {}
                }
                endpoint.unread(&wire, CutKind::Reset);
                return reset(wire.stream);
            }
            Before::Wait(until) => tokio::select! {
                () = tether.closed() => return,
                () = clock.until(until) => {}
            },
        }
        let then = exchange(&endpoint, &mut wire, number, luck, &mut tether).await;
        match then {
            Ok(Then::Again) => {}
            // A connection that broke has nothing more to say; what was seen of it is recorded.
            Ok(Then::End) | Err(_) => return unanswered(&endpoint, &mut wire, number).await,
        }
    }
}

/// Records what had come behind the request at which a connection ended: it reached the endpoint, and nobody answers it.
async fn unanswered(endpoint: &Endpoint, wire: &mut Wire, connection: u64) {
    while let Some(first_byte) = wire.first_byte() {
        let request = tokio::select! {
            biased;
            request = wire.request() => request.ok(),
            // Only what is there counts.
            () = std::future::ready(()) => None,
        };
        let Some(request) = request else { return endpoint.broken_off(wire, first_byte, CutKind::Close) };
        let arrival = endpoint.arrival(&request, first_byte, endpoint.stage.clock.now(), connection);
        let n = endpoint.stage.recorder.arrival(arrival);
        endpoint.cut(n, CutKind::Close);
    }
}

/// One request and what follows it.
async fn exchange(
    endpoint: &Arc<Endpoint>,
    wire: &mut Wire,
    connection: u64,
    luck: Luck,
    tether: &mut ShutdownSignal,
) -> io::Result<Then> {
    let clock = &endpoint.stage.clock;
    let Some(first_byte) = wire.begin().await? else { return Ok(Then::End) };
    let request = tokio::select! {
        () = tether.closed() => Err(CutKind::RunEnded),
        request = wire.request() => request.map_err(|error| match error {
            ReadError::Io(_) | ReadError::Closed { .. } => CutKind::PeerGone,
            ReadError::Malformed(_) => CutKind::Malformed,
        }),
    };
    let request = match request {
        Ok(request) => request,
        Err(how) => {
            endpoint.broken_off(wire, first_byte, how);
            return Ok(Then::End);
        }
    };
    let arrival = endpoint.arrival(&request, first_byte, clock.now(), connection);
    let delivery = arrival.token;
    let n = endpoint.stage.recorder.arrival(arrival);
    let chosen = endpoint.choices.choose(first_byte, luck, delivery);
    let act = Act { endpoint, n, luck };
    let keep_alive = if request.keep_alive { Then::Again } else { Then::End };
    tokio::select! {
        () = tether.closed() => {
            endpoint.cut(n, CutKind::RunEnded);
            Ok(Then::End)
        }
        then = act.perform(wire, chosen) => Ok(if then? == Then::End { Then::End } else { keep_alive }),
    }
}

/// When the bytes of an answer were handed to the system, each time in the moment before: a peer cannot have read a byte
/// before its stamp, however long the bytes had to wait for room.
#[derive(Debug, Default)]
struct Stamps {
    /// Of the first byte; none if none could be written.
    first: Option<u64>,
    /// Of the last byte.
    last: u64,
}

impl Stamps {
    async fn write(&mut self, wire: &Wire, clock: &Clock, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            wire.stream.writable().await?;
            let now = clock.now();
            match wire.stream.try_write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.first.get_or_insert(now);
                    self.last = now;
                    bytes = &bytes[written..];
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// What is done for one arrival.
struct Act<'a> {
    endpoint: &'a Endpoint,
    n: u64,
    luck: Luck,
}

impl Act<'_> {
    async fn perform(&self, wire: &mut Wire, chosen: Option<(usize, &Behaviour)>) -> io::Result<Then> {
        if is_blackhole(chosen) {
            wire.gone().await;
            return self.cut(CutKind::Blackhole);
        }
        let now = self.endpoint.stage.clock.now();
        let latency = self.endpoint.choices.latency(chosen, self.luck, now);
        if latency > 0 {
            tokio::select! {
                // Who has gone is answered nothing, even if it is time to.
                biased;
                () = wire.gone() => return self.cut(CutKind::PeerGone),
                () = self.endpoint.stage.clock.pass(latency) => {}
            }
        }
        match self.endpoint.deed(chosen) {
            Deed::Answer(reply) => self.answer(wire, &reply).await,
            Deed::Drip(pace) => self.drip(wire, pace).await,
            Deed::HalfAnswer => {
                let half = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf of what was prom";
                // Whether anybody still reads it or not, the exchange is over.
                let _ = wire.stream.write_all(half).await;
                self.cut(CutKind::HalfAnswer)
            }
            Deed::Close => self.cut(CutKind::Close),
            Deed::Reset => {
                // Without it the close is an orderly one; the sender gets no answer either way.
                let _ = wire.stream.set_zero_linger();
                self.cut(CutKind::ResetAfterRead)
            }
        }
    }

    fn cut(&self, how: CutKind) -> io::Result<Then> {
        self.endpoint.cut(self.n, how);
        Ok(Then::End)
    }

    /// Writes a whole answer. The head goes out together with the first piece of the body.
    async fn answer(&self, wire: &mut Wire, reply: &Reply) -> io::Result<Then> {
        let clock = &self.endpoint.stage.clock;
        let rendered = render(reply, clock.unix_ns(clock.now()));
        let piece = |left: u64| usize::try_from(left).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        let mut left = rendered.body_bytes;
        let mut head = rendered.head();
        head.extend_from_slice(&FILLING[..piece(left)]);
        left -= piece(left) as u64;
        let mut stamps = Stamps::default();
        let mut written = stamps.write(wire, clock, &head).await;
        while written.is_ok() && left > 0 {
            written = stamps.write(wire, clock, &FILLING[..piece(left)]).await;
            left -= piece(left) as u64;
        }
        Ok(self.answered(rendered, &stamps, written.is_ok()))
    }

    /// Writes an answer one byte at a time, for as long as somebody listens.
    async fn drip(&self, wire: &mut Wire, pace: Duration) -> io::Result<Then> {
        let clock = &self.endpoint.stage.clock;
        let rendered = render(&ok(), clock.unix_ns(clock.now()));
        let head = rendered.head();
        let mut stamps = Stamps::default();
        for (at, byte) in head.iter().enumerate() {
            if at > 0 {
                tokio::select! {
                    biased;
                    () = wire.gone() => return Ok(self.answered(rendered, &stamps, false)),
                    () = clock.pass(pace.0) => {}
                }
            }
            if stamps.write(wire, clock, std::slice::from_ref(byte)).await.is_err() {
                return Ok(self.answered(rendered, &stamps, false));
            }
        }
        Ok(self.answered(rendered, &stamps, true))
    }

    fn answered(&self, rendered: Rendered, stamps: &Stamps, whole: bool) -> Then {
        self.endpoint.answered(self.n, rendered, (stamps.first, stamps.last), whole);
        if whole { Then::Again } else { Then::End }
    }
}

impl Endpoint {
    /// Records an answer, by the moments of its first byte, if there was one, and its last. One that broke off ended when that
    /// was seen.
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
        self.stage.recorder.keep(Record::Answer(Answer { t, end, n, status, retry_after, whole }));
    }

    /// Records how the exchange of an arrival ended.
    pub(super) fn cut(&self, n: u64, how: CutKind) {
        self.keep_cut(Some(n), how, None, None);
    }

    /// Records that a connection ended before anything of it was taken for a request.
    fn unread(&self, wire: &Wire, how: CutKind) {
        self.keep_cut(None, how, wire.first_byte(), self.stage.tokens.find(wire.rest()));
    }

    /// Records that a request was not read whole.
    fn broken_off(&self, wire: &mut Wire, began: u64, how: CutKind) {
        self.keep_cut(None, how, Some(began), self.stage.tokens.find(wire.rest()));
        // Of what cannot be read, nobody knows where the next request begins.
        wire.forget();
    }

    /// Records that an exchange ended without an answer: of an arrival, or of what began and was not read whole.
    pub(super) fn keep_cut(&self, n: Option<u64>, how: CutKind, began: Option<u64>, token: Option<u64>) {
        let (t, endpoint) = (self.stage.clock.now(), self.name.clone());
        self.stage.recorder.keep(Record::Cut(Cut { t, endpoint, n, how, began, token }));
    }

    /// The record of a request, but for its number.
    pub(super) fn arrival(&self, request: &Request, t: u64, read: u64, connection: u64) -> Arrival {
        let fields: Vec<_> =
            request.fields.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
        let secrets = self.secrets.read().unwrap_or_else(PoisonError::into_inner);
        let seen = self.scheme.verify(&secrets, &fields, &request.body);
        let verified = match seen.verdict {
            _ if !self.scheme.is_signed() => Verified::Unchecked("the sender does not sign".to_owned()),
            _ if secrets.is_empty() => Verified::Unchecked("the subscriber's secret is not known".to_owned()),
            Ok(keys) => Verified::Keys(keys),
            Err(wrong) => Verified::No(wrong.to_string()),
        };
        let mut tokens = self.stage.tokens.find_all(&request.body).into_iter();
        Arrival {
            t,
            read,
            n: 0,
            endpoint: self.name.clone(),
            connection,
            token: tokens.next(),
            more: tokens.collect(),
            id: seen.id,
            attempt: seen.attempt,
            method: request.method.clone(),
            path: request.path.clone(),
            content_type: request.field("content-type").map(str::to_owned),
            bytes: u64::try_from(request.body.len()).unwrap_or(u64::MAX),
            sha256: sha256_hex(&request.body),
            signed: Signed { signature: seen.signature, verified, timestamp: seen.timestamp },
        }
    }
}

fn reset(stream: TcpStream) {
    // Without it the close is an orderly one; the sender gets no answer either way.
    let _ = stream.set_zero_linger();
}
