//! Reads an HTTP/2 connection for the library, and stamps each request: the first byte of its HEADERS frame.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::endpoint::port::Port;
use crate::endpoint::stream::Stream;

/// The connection preface of a client (RFC 9113 §3.4).
pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// §4.1; and the type of the frame that begins a request.
const HEAD_BYTES: usize = 9;
const HEADERS: u8 = 1;

/// By stream: beginnings of requests that are not taken yet. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Begun(Arc<Mutex<BTreeMap<u32, u64>>>);

impl Begun {
    fn record_begin(&self, stream: u32, t: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(stream, t);
    }

    /// Also takes the beginnings of all earlier streams, which never became requests.
    pub(super) fn take(&self, stream: u32) -> (Option<u64>, Vec<u64>) {
        let mut begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let later = begun.split_off(&stream.saturating_add(1));
        let mut earlier = std::mem::replace(&mut *begun, later);
        let own = earlier.remove(&stream);
        (own, earlier.into_values().collect())
    }

    pub(super) fn rest(&self) -> Vec<u64> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_values().collect()
    }
}

#[derive(Debug)]
struct Frames {
    begun: Begun,
    /// Bytes until the next frame's header.
    skip: usize,
    head: [u8; HEAD_BYTES],
    /// Bytes of the header so far, and when the first came.
    filled: usize,
    came: u64,
    /// The last stream that began: later HEADERS of a stream are trailers.
    last: u32,
}

impl Frames {
    pub(super) fn new(begun: Begun) -> Self {
        Self { begun, skip: PREFACE.len(), head: [0; HEAD_BYTES], filled: 0, came: 0, last: 0 }
    }

    pub(super) fn advance(&mut self, mut bytes: &[u8], now: u64) {
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            bytes = &bytes[skipped..];
            self.skip -= skipped;
            if self.filled == 0 {
                self.came = now;
            }
            let taken = (HEAD_BYTES - self.filled).min(bytes.len());
            self.head[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
            self.filled += taken;
            bytes = &bytes[taken..];
            if self.filled == HEAD_BYTES {
                self.head_is_whole();
            }
        }
    }

    fn head_is_whole(&mut self) {
        let [a, b, c, kind, _, stream @ ..] = self.head;
        self.filled = 0;
        self.skip = usize::try_from(u32::from_be_bytes([0, a, b, c])).unwrap_or(usize::MAX);
        let stream = u32::from_be_bytes(stream) & 0x7fff_ffff;
        if kind == HEADERS && stream > self.last {
            self.last = stream;
            self.begun.record_begin(stream, self.came);
        }
    }
}

/// Stalls with its endpoint.
pub(super) struct Watched {
    port: Arc<Port>,
    stream: Stream,
    frames: Frames,
    stalled: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Watched {
    pub(super) fn new(port: Arc<Port>, stream: Stream, begun: Begun) -> Self {
        Self { port, stream, frames: Frames::new(begun), stalled: None }
    }

    fn poll_stall(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(stalled) = &mut self.stalled {
                ready!(stalled.as_mut().poll(cx));
                self.stalled = None;
            }
            let clock = &self.port.stage.clock;
            // A shared port stalls for no endpoint.
            let until = self.port.alone().and_then(|endpoint| endpoint.choices.stalls_until(clock.now()));
            let Some(until) = until else { return Poll::Ready(()) };
            let clock = clock.clone();
            self.stalled = Some(Box::pin(async move { clock.until(until).await }));
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_stall(cx));
        // Bytes that came during a stall are read, and stamped, after it.
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let now = self.port.stage.clock.now();
        self.frames.advance(&buffer.filled()[before..], now);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, stream: u32, payload: usize) -> Vec<u8> {
        let length = u32::try_from(payload).unwrap().to_be_bytes();
        let head = [&length[1..], &[kind, 0], &stream.to_be_bytes()].concat();
        [head, vec![0xff; payload]].concat()
    }

    #[test]
    fn a_request_begins_with_the_first_byte_of_its_headers_however_the_bytes_come() {
        let settings = frame(4, 0, 6);
        let bytes = [
            PREFACE.to_vec(),
            settings,
            frame(1, 1, 40),
            frame(0, 1, 70_000),
            frame(1, 3, 3),
            frame(1, 1, 2),
        ];
        let starts = [24 + 15, 24 + 15 + 49 + 70_009];
        let bytes = bytes.concat();
        for size in [1, 2, 7, 8_192, bytes.len()] {
            let begun = Begun::default();
            let mut frames = Frames::new(begun.clone());
            for (at, piece) in (0_u64..).zip(bytes.chunks(size)) {
                frames.advance(piece, at * size as u64);
            }
            let piece_of = |at: usize| (at / size * size) as u64;
            assert_eq!(begun.rest(), starts.map(piece_of), "{size}");
        }
    }

    #[test]
    fn frames_before_a_request_are_reported_with_it() {
        let begun = Begun::default();
        for (stream, t) in [(1, 10), (3, 30), (5, 50), (7, 70)] {
            begun.record_begin(stream, t);
        }
        assert_eq!(begun.take(5), (Some(50), vec![10, 30]));
        assert_eq!(begun.take(5), (None, vec![]));
        assert_eq!(begun.rest(), [70]);
    }
}
