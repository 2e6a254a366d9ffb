//! A connection's socket checks before each write whether the request may still be sent.

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::frames::Frames;
use super::limit::SocketPermit;
use super::traffic::Charged;
use super::write_tracker::SocketState;

pub(super) struct Wire {
    stream: Stream,
    speaks: Speaks,
    state: Arc<SocketState>,
    /// Declared last, so that the socket closes before its place is free.
    _permit: SocketPermit,
}

pub(super) enum Stream {
    Plain(Charged),
    Tls(Box<TlsStream<Charged>>),
}

pub(super) enum Speaks {
    Http1,
    Http2(Frames),
}

impl Speaks {
    pub(super) fn http2() -> Self {
        Self::Http2(Frames::default())
    }
}

impl Wire {
    pub(super) fn new(stream: Stream, speaks: Speaks, permit: SocketPermit) -> Self {
        Self { stream, speaks, state: Arc::default(), _permit: permit }
    }

    pub(super) fn state(&self) -> Arc<SocketState> {
        Arc::clone(&self.state)
    }

    fn charged(&self) -> &Charged {
        match &self.stream {
            Stream::Plain(tcp) => tcp,
            Stream::Tls(tls) => tls.get_ref().0,
        }
    }

    fn tcp(&self) -> &TcpStream {
        self.charged().tcp()
    }

    pub(super) fn earn_body(&self, bytes: usize) {
        self.charged().account().earn_body(bytes);
    }

    /// The runtime knows only the state at its last poll.
    pub(super) fn has_unread(&self) -> bool {
        let looked = recv(self.tcp(), &mut [0], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        !matches!(looked, Err(Errno::AGAIN))
    }

    /// Goes on only if the unread bytes were TLS records without data.
    pub(super) fn poll_outlives_unread(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        if let Stream::Plain(_) = self.stream {
            return Poll::Ready(false);
        }
        let mut byte = [0];
        if Pin::new(&mut *self).poll_read(cx, &mut ReadBuf::new(&mut byte)).is_ready() {
            return Poll::Ready(false);
        }
        if self.has_unread() { Poll::Pending } else { Poll::Ready(true) }
    }

    /// Bytes may leave: under TLS it is unknown how many the system accepted.
    fn before_write(&self, pieces: &[IoSlice<'_>]) -> io::Result<()> {
        match &self.speaks {
            Speaks::Http1 => self.state.before_write(),
            Speaks::Http2(frames) => {
                self.state.check_lease()?;
                let mut ahead = frames.clone();
                pieces.iter().try_for_each(|piece| ahead.advance(piece, |id| self.state.before_stream(id)))
            }
        }
    }

    fn wrote(&mut self, pieces: &[IoSlice<'_>], mut count: usize) {
        let Speaks::Http2(frames) = &mut self.speaks else { return };
        for piece in pieces {
            let taken = count.min(piece.len());
            let Ok(()) = frames.advance(&piece[..taken], |_| Ok::<_, Infallible>(()));
            count -= taken;
        }
    }

    fn writer(&mut self) -> Pin<&mut (dyn AsyncWrite + Unpin)> {
        Pin::new(match &mut self.stream {
            Stream::Plain(tcp) => tcp,
            Stream::Tls(tls) => &mut **tls,
        })
    }
}

impl Drop for Wire {
    /// The reset drops unsent bytes in the kernel.
    fn drop(&mut self) {
        if self.state.discards_unsent() {
            let _ = self.tcp().set_zero_linger();
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Stream::Tls(tls) => match Pin::new(&mut **tls).poll_read(cx, buf) {
                // Many endpoints close without `close_notify`. HTTP knows where an answer ends, except for bodies
                // that end with the connection, which are not used.
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    Poll::Ready(Ok(()))
                }
                other => other,
            },
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let whole = [IoSlice::new(buf)];
        self.before_write(&whole)?;
        let written = self.writer().poll_write(cx, buf);
        self.state.backpressure.set_pending(written.is_pending());
        if let Poll::Ready(Ok(count)) = written {
            self.wrote(&whole, count);
        }
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.before_write(bufs)?;
        let written = self.writer().poll_write_vectored(cx, bufs);
        self.state.backpressure.set_pending(written.is_pending());
        if let Poll::Ready(Ok(count)) = written {
            self.wrote(bufs, count);
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(tcp) => tcp.is_write_vectored(),
            Stream::Tls(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Under TLS, accepted bytes may still be in this process.
        self.state.check_lease()?;
        let flushed = self.writer().poll_flush(cx);
        self.state.backpressure.set_pending(flushed.is_pending());
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writer().poll_shutdown(cx)
    }
}
