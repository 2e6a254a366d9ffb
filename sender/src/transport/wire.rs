//! A connection's socket. Before it writes, it asks whether the request that the bytes belong to may still be sent.

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

/// A socket, and the place that it takes among its lane's connections.
pub(super) struct Wire {
    stream: Stream,
    speaks: Speaks,
    state: Arc<SocketState>,
    /// After the socket: it is closed before its place is free.
    _permit: SocketPermit,
}

pub(super) enum Stream {
    Plain(Charged),
    Tls(Box<TlsStream<Charged>>),
}

/// What is spoken, and with it how requests are told apart.
pub(super) enum Speaks {
    /// One request after the other.
    Http1,
    /// Many at once, in frames.
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

    /// For the connection that will own this socket.
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

    /// A part of an answer's body has come.
    pub(super) fn earn_body(&self, bytes: usize) {
        self.charged().account().earn_body(bytes);
    }

    /// Whether anything has come that was not read: bytes, the end, or a failure. It is the system that is asked, since what the
    /// runtime knows of a socket is from its last look.
    pub(super) fn has_unread(&self) -> bool {
        let looked = recv(self.tcp(), &mut [0], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        !matches!(looked, Err(Errno::AGAIN))
    }

    /// Whether a connection on which something has come between two requests can go on: if it was for TLS alone, which has read it
    /// then.
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

    /// Asks for everything that is about to be written. What may leave is noted before it does: how much of it the system
    /// took cannot be known under TLS.
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

    /// So many bytes of these were taken.
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
    /// An attempt that was given up must not arrive later: what still waits in the kernel is thrown away, and the
    /// endpoint is told by a reset.
    fn drop(&mut self) {
        if self.state.discards_unsent() {
            // It fails where the connection is gone already, which is as good.
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
                // Many endpoints close without a farewell. HTTP knows by itself where an answer ends, but for one that
                // ends with its connection; and there the body is not looked at.
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
        self.state.backpressure.note(written.is_pending());
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
        self.state.backpressure.note(written.is_pending());
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
        // Under TLS bytes that were written may still be here.
        self.state.check_lease()?;
        let flushed = self.writer().poll_flush(cx);
        self.state.backpressure.note(flushed.is_pending());
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writer().poll_shutdown(cx)
    }
}
