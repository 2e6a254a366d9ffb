//! The bytes of a connection, plain or over TLS, and the handshake.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use hookproof_judge::scenario::SECOND;
use hookproof_judge::trace::{Handshake, Record, ShownCertificate, StrayKind};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::certificate::{HTTP2, Identity};
use super::port::Port;
use crate::clock::Clock;

#[derive(Debug)]
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => tls.get_ref().0,
        }
    }

    /// Waits for a byte or the end. Reads nothing from the socket.
    pub(super) async fn readable(&mut self) -> io::Result<()> {
        if let Self::Tls(tls) = self {
            // Bytes that came with the handshake have left the socket already. The next read reports their errors.
            let waits = tls.get_mut().1.process_new_packets();
            if waits.is_err()
                || waits.is_ok_and(|waits| waits.plaintext_bytes_to_read() > 0 || waits.peer_has_closed())
            {
                return Ok(());
            }
        }
        poll_fn(|cx| self.socket().poll_read_ready(cx)).await
    }

    /// Reads the bytes that are ready; otherwise fails with `WouldBlock`.
    pub(super) fn try_read_buf(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.try_read_buf(buffer),
            Self::Tls(tls) => {
                let mut context = Context::from_waker(Waker::noop());
                match pin!(tls.read_buf(buffer)).poll(&mut context) {
                    Poll::Ready(read) => read,
                    Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
                }
            }
        }
    }

    /// Whether a read may leave ready bytes: over TLS it ends with a record.
    pub(super) const fn reads_in_pieces(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Returns the number of written bytes, and the time just before.
    pub(super) async fn write_some(&mut self, clock: &Clock, bytes: &[u8]) -> io::Result<(usize, u64)> {
        const RECORD_BYTES: usize = 16 << 10;
        loop {
            // A plain write reports a full socket; a TLS write blocks on it.
            if let Self::Tls(_) = self {
                self.socket().writable().await?;
            }
            let now = clock.now();
            let written = match self {
                Self::Plain(socket) => socket.try_write(bytes),
                Self::Tls(tls) => {
                    let piece = &bytes[..bytes.len().min(RECORD_BYTES)];
                    tls.write_all(piece).await?;
                    tls.flush().await.map(|()| piece.len())
                }
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => return Ok((written, now)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.socket().writable().await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends close_notify over TLS; errors do not matter.
    pub(super) async fn send_close_notify(&mut self) {
        if let Self::Tls(tls) = self {
            let _ = tls.shutdown().await;
        }
    }

    pub(super) fn reset_at_end(&self) {
        // Without it the close is orderly; the sender gets no answer either way.
        let _ = self.socket().set_zero_linger();
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_read(cx, buffer),
            Self::Tls(tls) => Pin::new(tls).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            Self::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Self::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}

/// The first byte included.
const HANDSHAKE_WITHIN_NS: u64 = 10 * SECOND;
/// Returns whether HTTP/2 was chosen. Records a failure as a stray, unless the peer left without sending a byte: port
/// probes do so. The failure of a handshake that must fail is a record of its own.
pub(super) async fn shake_hands(
    port: &Port,
    identity: &Identity,
    socket: TcpStream,
    connection: u64,
) -> Option<(Stream, bool)> {
    let t = port.stage.clock.now();
    let mut shown = None;
    let agreed = async {
        if !matches!(socket.peek(&mut [0]).await, Ok(1..)) {
            return None;
        }
        let _turn = port.handshakes.acquire().await.ok()?;
        shown = port.alone().and_then(|endpoint| {
            let certificate = endpoint.choices.certificate(port.stage.clock.now())?;
            Some((endpoint, certificate, identity.wrong.get(&certificate)?))
        });
        let acceptor = shown.map_or(&identity.acceptor, |(.., acceptor)| acceptor);
        Some(acceptor.accept(socket).await)
    };
    let agreed = tokio::select! {
        agreed = agreed => agreed?.map_err(|error| error.to_string()),
        () = port.stage.clock.pass(HANDSHAKE_WITHIN_NS) => {
            Err(format!("it did not end within {} s", HANDSHAKE_WITHIN_NS / SECOND))
        }
    };
    if let Some((endpoint, certificate, _)) = shown {
        let (endpoint, refused) = (endpoint.name.clone(), agreed.as_ref().err().cloned());
        let shown = ShownCertificate { t, endpoint, connection, certificate, refused };
        port.stage.recorder.record(Record::Certificate(shown));
    }
    match agreed {
        Ok(tls) => {
            let until = port.stage.clock.now();
            port.stage.recorder.record(Record::Handshake(Handshake { t, until, connection, first: None }));
            let is_second = tls.get_ref().1.alpn_protocol() == Some(HTTP2);
            Some((Stream::Tls(Box::new(tls)), is_second))
        }
        Err(why) => {
            if shown.is_none() {
                port.strays.record_or_count(StrayKind::Handshake, None, &why);
            }
            None
        }
    }
}
