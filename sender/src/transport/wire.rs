//! A connection's socket, which checks before each write whether the request may still be sent.

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

use super::failure::Failure;
use super::lane::SocketPermit;
use super::traffic::Charged;
use super::write_tracker::{Frames, SocketState};
use crate::boot_clock::BootTime;

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

    /// Asks the system, since the runtime knows only the state at its last poll.
    pub(super) fn has_unread(&self) -> bool {
        let looked = recv(self.tcp(), &mut [0], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        !matches!(looked, Err(Errno::AGAIN))
    }

    /// The connection goes on only if the unread bytes were TLS records without data, which this reads.
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

    /// Records beforehand that bytes may leave: under TLS it is unknown how many the system accepted.
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
    /// The reset drops unsent bytes in the kernel, so that a request that was given up does not arrive later.
    fn drop(&mut self) {
        if self.state.discards_unsent() {
            // Fails only if the connection is gone.
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
                // Many endpoints close without `close_notify`. HTTP knows where an answer ends, except for
                // bodies that end with the connection, which are not used.
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
        // Under TLS, accepted bytes may still be in this process.
        self.state.check_lease()?;
        let flushed = self.writer().poll_flush(cx);
        self.state.backpressure.note(flushed.is_pending());
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writer().poll_shutdown(cx)
    }
}

// The right to send a request, checked before the first byte, the last moment at which it can be held back,
// and when the lane's lease ends.
//
// Over HTTP/2, a request that waits when its lane withdraws consent is taken back. If it is just being
// written, only ending the connection stops it, which cuts off the lane's other requests on it: they are in
// doubt, and do not count against the endpoint.

/// The conditions for the first byte of a request.
#[derive(Clone, Debug)]
pub struct SendPermit {
    /// Counted from the decision to make the attempt. The next owner of the lane counts from there too.
    pub deadline: BootTime,
    /// After its end another process may send, and relies on this one having nothing open.
    pub lease: Lease,
    /// Cancelled when the lane is paused, changed, lost or released.
    pub cancelled: CancellationToken,
}

impl SendPermit {
    /// Whether the first byte may be written now.
    ///
    /// # Errors
    /// [`Failure::Withdrawn`] if it may not.
    pub fn check(&self, now: BootTime) -> Result<(), Failure> {
        if self.is_revoked(now) || self.deadline <= now { Err(Failure::Withdrawn) } else { Ok(()) }
    }

    /// Whether the lane may send nothing more. Does not check the attempt's own deadline.
    pub(super) fn is_revoked(&self, now: BootTime) -> bool {
        self.lease.is_over(now) || self.cancelled.is_cancelled()
    }

    /// Checks later bytes. Does not check consent: a pause does not cut requests under way.
    pub(super) fn check_rest(&self, now: BootTime) -> Result<(), Failure> {
        if self.lease.is_over(now) || self.deadline <= now { Err(Failure::Withdrawn) } else { Ok(()) }
    }

    pub(super) const fn remaining(&self, now: BootTime) -> Duration {
        Duration::from_nanos(self.deadline.since(now).0)
    }
}

/// The end of a lane's lease. Clones share it, so a renewal reaches attempts under way.
#[derive(Clone, Debug)]
pub struct Lease(Arc<AtomicU64>);

impl Lease {
    /// A lease that ends at `end`, exclusive.
    #[must_use]
    pub fn until(end: BootTime) -> Self {
        Self(Arc::new(AtomicU64::new(end.0)))
    }

    /// Renews the lease. It never becomes shorter.
    pub fn extend(&self, end: BootTime) {
        self.0.fetch_max(end.0, Ordering::AcqRel);
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_over(&self, now: BootTime) -> bool {
        self.end() <= now
    }

    /// Its end, as far as known now.
    #[must_use]
    pub fn end(&self) -> BootTime {
        BootTime(self.0.load(Ordering::Acquire))
    }

    pub(super) fn remaining(&self, now: BootTime) -> Duration {
        Duration::from_nanos(self.end().since(now).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permit() -> SendPermit {
        SendPermit {
            deadline: BootTime(100),
            lease: Lease::until(BootTime(50)),
            cancelled: CancellationToken::new(),
        }
    }

    #[test]
    fn each_of_deadline_lease_and_consent_holds_a_request_back() {
        let held_back = |permit: &SendPermit, now| permit.check(BootTime(now)).is_err();
        let permit = permit();
        assert!(!held_back(&permit, 49) && held_back(&permit, 50), "the lease");
        permit.lease.extend(BootTime(200));
        permit.lease.extend(BootTime(1));
        assert!(!held_back(&permit, 99) && held_back(&permit, 100), "the deadline");
        permit.cancelled.cancel();
        assert!(held_back(&permit, 0), "the consent");
    }

    #[test]
    fn a_request_that_has_begun_is_cut_by_time_and_not_by_a_pause() {
        let permit = permit();
        permit.cancelled.cancel();
        assert!(permit.check_rest(BootTime(49)).is_ok());
        assert!(permit.check_rest(BootTime(50)).is_err());
    }
}
