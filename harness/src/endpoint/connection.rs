use std::io;
use std::pin::pin;
use std::sync::Arc;

use hookproof_judge::scenario::{self, Behaviour, Duration, Reply};
use hookproof_judge::trace::CutKind;
use hookproof_play::endpoint::{Before, Luck, Rendered, render};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::port::Port;
use super::request::Wire;
use super::stream::{Stream, shake_hands};
use super::{Broken, Deed, Endpoint, ShutdownSignal, http2, is_blackhole, ok};
use crate::clock::Clock;

#[expect(clippy::cast_possible_truncation, reason = "64 KiB")]
const PIECE_BYTES: usize = scenario::PIECE_BYTES as usize;
static FILLING: [u8; PIECE_BYTES] = [b'x'; PIECE_BYTES];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Again,
    End,
}

pub(super) async fn serve(
    port: Arc<Port>,
    stream: TcpStream,
    number: u64,
    mut open: watch::Receiver<bool>,
    mut tether: ShutdownSignal,
) {
    // Without it small answers are merely late.
    let _ = stream.set_nodelay(true);
    let (stream, is_second) = if let Some(identity) = &port.tls {
        let agreed = tokio::select! {
            () = tether.closed() => return,
            _ = open.wait_for(|open| !*open) => return,
            agreed = shake_hands(&port, identity, stream, number) => agreed,
        };
        let Some(agreed) = agreed else { return };
        agreed
    } else {
        let stream = Stream::Plain(stream);
        let Stream::Plain(socket) = &stream else { return };
        let is_second = tokio::select! {
            () = tether.closed() => return,
            _ = open.wait_for(|open| !*open) => return stream.reset_at_end(),
            is_second = http2::is_spoken(&port.stage.clock, socket) => is_second,
        };
        (stream, is_second)
    };
    if is_second {
        http2::serve(port, stream, number, open, tether).await;
    } else {
        requests(port, stream, number, open, tether).await;
    }
}

async fn requests(
    port: Arc<Port>,
    stream: Stream,
    number: u64,
    mut open: watch::Receiver<bool>,
    mut tether: ShutdownSignal,
) {
    let clock = &port.stage.clock;
    // Created once: registering with a watch costs too much for each request.
    let mut closed = pin!(tether.closed());
    let mut shut = pin!(async { drop(open.wait_for(|open| !*open).await) });
    let mut changed = pin!(port.certificate_changed());
    let mut wire = Wire::new(stream, clock.clone());
    loop {
        tokio::select! {
            () = &mut closed => return,
            // The next request comes with the other certificate.
            () = &mut changed => return,
            // A closed port holds no idle connections either.
            () = &mut shut => return wire.stream.reset_at_end(),
            ready = wire.readable() => if ready.is_err() { return },
        }
        let endpoint = match port.alone() {
            Some(endpoint) => Arc::clone(endpoint),
            None => match named(&port, &mut wire, &mut closed).await {
                Some(endpoint) => endpoint,
                None => return,
            },
        };
        let luck = endpoint.choices.draw();
        match endpoint.choices.before(clock.now(), luck) {
            Before::Read => {}
            Before::Reset => return reset_unread(&endpoint, wire, &mut closed).await,
            Before::Wait(until) => {
                tokio::select! {
                    () = &mut closed => return,
                    () = clock.until(until) => {}
                }
                // On a shared port the head was read early to find the endpoint. The endpoint's own read begins now.
                if port.alone().is_none() {
                    wire.read_now();
                }
            }
        }
        let then = exchange(&endpoint, &mut wire, number, luck, &mut closed).await;
        match then {
            Ok(Then::Again) => {}
            Ok(Then::End) | Err(_) => return unanswered(&port, &mut wire, number).await,
        }
    }
}

/// The arrival must be recorded.
async fn reset_unread(endpoint: &Endpoint, mut wire: Wire, closed: impl Future<Output = ()>) {
    tokio::select! {
        () = closed => {}
        _ = wire.begin() => {}
    }
    endpoint.unread(&wire, CutKind::Reset);
    wire.stream.reset_at_end();
}

/// A request for no endpoint is recorded and answered 404. None if the connection ends.
async fn named(
    port: &Port,
    wire: &mut Wire,
    mut closed: impl Future<Output = ()> + Unpin,
) -> Option<Arc<Endpoint>> {
    const NOT_FOUND: &[u8] = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
    loop {
        let first_byte = tokio::select! {
            () = &mut closed => return None,
            begun = wire.begin() => begun.ok()??,
        };
        let head = tokio::select! {
            () = &mut closed => return None,
            head = wire.head() => head,
        };
        let (head, _) = match head {
            Ok(head) => head,
            Err(error) => {
                port.broken_off(error.into(), first_byte, wire.rest());
                return None;
            }
        };
        if let Some(endpoint) = port.find(&head.path, head.field("host")) {
            return Some(Arc::clone(endpoint));
        }
        let request = tokio::select! {
            () = &mut closed => None,
            request = wire.request() => request.ok(),
        };
        let body = request.as_ref().map_or(wire.rest(), |request| request.body.as_slice());
        port.stray(&head.method, &head.path, head.field("host"), body);
        request.filter(|request| request.keep_alive)?;
        wire.stream.write_all(NOT_FOUND).await.ok()?;
        wire.stream.flush().await.ok()?;
    }
}

/// Requests behind the one at which a connection ended reached the endpoint too.
async fn unanswered(port: &Port, wire: &mut Wire, connection: u64) {
    while let Some(first_byte) = wire.first_byte() {
        let request = tokio::select! {
            biased;
            request = wire.request() => request.ok(),
            // Only bytes that are already there count.
            () = std::future::ready(()) => None,
        };
        let Some(request) = request else {
            return port.broken_off(CutKind::Close.into(), first_byte, wire.rest());
        };
        let Some(endpoint) = port.find(&request.path, request.field("host")) else {
            port.stray(&request.method, &request.path, request.field("host"), &request.body);
            continue;
        };
        let arrival = endpoint.arrival(&request, first_byte, endpoint.stage.clock.now(), connection);
        let n = endpoint.stage.recorder.arrival(arrival);
        endpoint.cut(n, CutKind::Close);
    }
}

async fn exchange(
    endpoint: &Arc<Endpoint>,
    wire: &mut Wire,
    connection: u64,
    luck: Luck,
    mut closed: impl Future<Output = ()> + Unpin,
) -> io::Result<Then> {
    let clock = &endpoint.stage.clock;
    let Some(first_byte) = wire.begin().await? else { return Ok(Then::End) };
    // Ready work comes first; the end of the run is rare.
    let request = tokio::select! {
        biased;
        request = wire.request() => request.map_err(Broken::from),
        () = &mut closed => Err(CutKind::RunEnded.into()),
    };
    let request = match request {
        Ok(request) => request,
        Err(how) => {
            endpoint.broken_off(wire, first_byte, how);
            return Ok(Then::End);
        }
    };
    let keep_alive = if request.keep_alive { Then::Again } else { Then::End };
    if let Some(headers) = endpoint.permit(&request) {
        wire.reuse(request);
        let lines: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        wire.stream.write_all(format!("HTTP/1.1 204 No Content\r\n{lines}\r\n").as_bytes()).await?;
        wire.stream.flush().await?;
        return Ok(keep_alive);
    }
    let read = clock.now();
    let arrival = endpoint.arrival(&request, first_byte, read, connection);
    let delivery = arrival.token;
    let n = endpoint.stage.recorder.arrival(arrival);
    let chosen = endpoint.choices.choose(first_byte, luck, delivery);
    let act = Act { endpoint, n, luck, read };
    wire.reuse(request);
    tokio::select! {
        biased;
        then = act.perform(wire, chosen) => Ok(if then? == Then::End { Then::End } else { keep_alive }),
        () = &mut closed => {
            endpoint.cut(n, CutKind::RunEnded);
            Ok(Then::End)
        }
    }
}

/// Each time is taken just before the write. So a peer cannot have read a byte before its stamp.
#[derive(Debug, Default)]
struct Stamps {
    first: Option<u64>,
    last: u64,
}

impl Stamps {
    async fn write(&mut self, wire: &mut Wire, clock: &Clock, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (written, now) = wire.stream.write_some(clock, bytes).await?;
            self.first.get_or_insert(now);
            self.last = now;
            bytes = &bytes[written..];
        }
        Ok(())
    }
}

struct Act<'a> {
    endpoint: &'a Endpoint,
    n: u64,
    luck: Luck,
    read: u64,
}

impl Act<'_> {
    async fn perform(&self, wire: &mut Wire, chosen: Option<(usize, &Behaviour)>) -> io::Result<Then> {
        if is_blackhole(chosen) {
            wire.gone().await;
            return self.cut(CutKind::Blackhole);
        }
        let (clock, mut now) = (&self.endpoint.stage.clock, self.read);
        let latency = self.endpoint.choices.latency(chosen, self.luck, now);
        if latency > 0 {
            tokio::select! {
                biased;
                () = wire.gone() => return self.cut(CutKind::PeerGone),
                () = clock.pass(latency) => now = clock.now(),
            }
        }
        match self.endpoint.deed(chosen) {
            Deed::Answer(reply) => self.answer(wire, &reply, now).await,
            Deed::Drip(pace) => self.drip(wire, pace).await,
            Deed::HalfAnswer => {
                let half = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf of what was prom";
                // The exchange is over in any case.
                let _ = wire.stream.write_all(half).await;
                wire.stream.send_close_notify().await;
                self.cut(CutKind::HalfAnswer)
            }
            Deed::Close => {
                let end = self.cut(CutKind::Close);
                wire.stream.send_close_notify().await;
                end
            }
            Deed::Reset => {
                wire.stream.reset_at_end();
                self.cut(CutKind::ResetAfterRead)
            }
        }
    }

    fn cut(&self, how: CutKind) -> io::Result<Then> {
        self.endpoint.cut(self.n, how);
        Ok(Then::End)
    }

    /// The head goes out together with the first piece of the body.
    async fn answer(&self, wire: &mut Wire, reply: &Reply, now: u64) -> io::Result<Then> {
        let clock = &self.endpoint.stage.clock;
        let rendered = render(reply, clock.unix_ns(now));
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
