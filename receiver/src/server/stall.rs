//! Fails a connection with a client that does not read: its answer would hold the place for ever.

use std::future::Future as _;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A stream on which writing fails after `within` without progress.
pub(super) struct Stall<S> {
    stream: S,
    within: Duration,
    /// Runs while writing makes no progress.
    patience: Option<Pin<Box<Sleep>>>,
}

impl<S> Stall<S> {
    pub(super) const fn new(stream: S, within: Duration) -> Self {
        Self { stream, within, patience: None }
    }

    #[expect(clippy::disallowed_methods, reason = "the wait ends when no data came for the whole period")]
    fn judge<T>(&mut self, context: &mut Context<'_>, progress: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if progress.is_ready() {
            self.patience = None;
            return progress;
        }
        let within = self.within;
        let patience = self.patience.get_or_insert_with(|| Box::pin(tokio::time::sleep(within)));
        match patience.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stall<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stall<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, progress)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.judge(context, progress)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(context, progress)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(context, progress)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn a_client_that_does_not_read_is_cut_off() {
        let (ours, theirs) = duplex(10);
        let mut ours = Stall::new(ours, Duration::from_millis(1));
        ours.write_all(b"0123456789").await.unwrap();
        let error = ours.write_all(b"more").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        drop(theirs);
    }

    #[tokio::test]
    async fn each_read_of_a_client_restarts_its_timeout() {
        let (ours, mut theirs) = duplex(1);
        let mut ours = Stall::new(ours, Duration::from_secs(3_600));
        let mut buffer = [0; 10];
        let (written, read) = tokio::join!(ours.write_all(b"0123456789"), theirs.read_exact(&mut buffer));
        written.unwrap();
        read.unwrap();
        assert!(ours.patience.is_none(), "all was taken, and the time still runs");
    }
}
