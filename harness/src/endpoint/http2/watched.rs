//! Passes a connection's bytes to the HTTP/2 library, and records when they were read.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frames::{Begun, Frames};
use crate::endpoint::port::Port;
use crate::endpoint::stream::Stream;

/// A connection that reads nothing while its endpoint stalls, and records when requests begin.
pub(super) struct Watched {
    port: Arc<Port>,
    stream: Stream,
    frames: Frames,
    /// The end of a stall.
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
