//! A connection's socket. It remembers whether anything was written, which is what tells "unsent" from "silent".

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::client::TlsStream;

use super::deadline::now;
use super::lane::Slot;
use super::{Consent, Failure, lock};

/// A socket, and the place that it takes among its lane's connections.
pub(super) struct Wire {
    stream: Stream,
    trail: Arc<Trail>,
    /// After the socket: it is closed before its place is free.
    _slot: Slot,
}

pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// What a request needs when its first byte is to be written.
#[derive(Debug)]
pub(super) struct Permit {
    pub(super) until: Instant,
    pub(super) consent: Consent,
}

impl Permit {
    /// Looked at in the moment of writing: a process that stood still finds out here.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.consent.is_withdrawn() || now() >= self.until { Err(Failure::Withdrawn) } else { Ok(()) }
    }
}

/// What others may know and say of a socket that they do not hold.
#[derive(Debug, Default)]
pub(super) struct Trail {
    wrote: AtomicBool,
    discard: AtomicBool,
    permit: Mutex<Option<Permit>>,
}

impl Trail {
    /// From here on [`Self::wrote`] speaks of what follows, and a socket that is closed does not send what waits.
    pub(super) fn begin(&self) {
        self.wrote.store(false, Ordering::Relaxed);
        self.discard.store(true, Ordering::Relaxed);
    }

    /// What follows needs this permit, until a byte of it is written.
    pub(super) fn permit(&self, permit: Permit) {
        *lock(&self.permit) = Some(permit);
    }

    fn check(&self) -> io::Result<()> {
        if self.wrote() {
            return Ok(());
        }
        match lock(&self.permit).as_ref().map(Permit::check) {
            Some(Err(failure)) => Err(io::Error::other(failure)),
            Some(Ok(())) | None => Ok(()),
        }
    }

    /// All is sent and answered: the socket may be closed in order.
    pub(super) fn end(&self) {
        self.discard.store(false, Ordering::Relaxed);
    }

    /// Whether a byte may have left. Says so before it does.
    pub(super) fn wrote(&self) -> bool {
        self.wrote.load(Ordering::Relaxed)
    }
}

impl Wire {
    pub(super) fn new(stream: Stream, slot: Slot) -> (Self, Arc<Trail>) {
        let trail = Arc::new(Trail::default());
        (Self { stream, trail: Arc::clone(&trail), _slot: slot }, trail)
    }

    fn tcp(&self) -> &TcpStream {
        match &self.stream {
            Stream::Plain(tcp) => tcp,
            Stream::Tls(tls) => tls.get_ref().0,
        }
    }

    /// The socket for a write. Noted before it happens: how much of it left is not for us to know, least of all under
    /// TLS.
    fn writing(&mut self) -> io::Result<Pin<&mut (dyn AsyncWrite + Unpin)>> {
        self.trail.check()?;
        self.trail.wrote.store(true, Ordering::Relaxed);
        Ok(self.writer())
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
        if self.trail.discard.load(Ordering::Relaxed) {
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
        self.writing()?.poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.writing()?.poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(tcp) => tcp.is_write_vectored(),
            Stream::Tls(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writer().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writer().poll_shutdown(cx)
    }
}
