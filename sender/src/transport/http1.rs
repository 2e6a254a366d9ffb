//! Driven by the attempt's own task: it ends with an attempt that is given up.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::answer_reader::{AnswerReader, Read};
use super::attempt_result::Answered;
use super::failure::{Cause, Failure};
use super::timer::now;
use super::wire::Wire;
use super::write_tracker::{SocketState, WriteTracker};

const READ_BYTES: usize = 2048;
/// Enough for most request heads.
const HEAD_BYTES: usize = 512;

pub(super) struct Http1 {
    wire: Wire,
    socket: Arc<SocketState>,
    is_open: bool,
    has_surplus: bool,
}

impl Http1 {
    pub(super) fn over(wire: Wire) -> Self {
        let socket = wire.state();
        Self { wire, socket, is_open: true, has_surplus: false }
    }

    /// Whether to keep it: neither its end nor unrequested bytes have been seen.
    pub(super) fn is_ready(&mut self) -> bool {
        // A real waker would keep the last task's memory alive.
        let mut nobody = Context::from_waker(Waker::noop());
        let mut byte = [0];
        let mut read = ReadBuf::new(&mut byte);
        self.is_open =
            self.is_open && Pin::new(&mut self.wire).poll_read(&mut nobody, &mut read).is_pending();
        self.has_surplus |= !read.filled().is_empty();
        self.is_open
    }

    pub(super) fn has_surplus(&self) -> bool {
        self.has_surplus
    }

    /// The runtime may not have seen the latest bytes.
    pub(super) fn has_unread(&self) -> bool {
        self.wire.has_unread()
    }

    /// Whether it can take a request despite unread bytes.
    pub(super) async fn outlives_unread(&mut self) -> bool {
        poll_fn(|cx| self.wire.poll_outlives_unread(cx)).await
    }

    /// `write` appends the request's head.
    pub(super) async fn exchange(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), Failure>,
        body: &[u8],
        tracker: Arc<WriteTracker>,
        first_byte: &mut Option<Instant>,
    ) -> Result<Answered, Failure> {
        let mut head = Vec::with_capacity(HEAD_BYTES);
        write(&mut head)?;
        self.socket.begin(tracker);
        self.is_open = false;
        let mut request = Outgoing { head: &head, body, wrote: false, is_flushed: false };
        let mut answer = AnswerReader::new();
        let wire = &mut self.wire;
        let read = poll_fn(|cx| exchange(wire, cx, &mut request, &mut answer, first_byte)).await?;
        self.has_surplus = read.has_surplus;
        if request.is_flushed && !read.answered.cut {
            self.socket.answered();
            self.is_open = read.persists;
        }
        Ok(read.answered)
    }
}

struct Outgoing<'a> {
    head: &'a [u8],
    body: &'a [u8],
    wrote: bool,
    is_flushed: bool,
}

impl Outgoing<'_> {
    fn poll_write(&mut self, wire: &mut Wire, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut wire = Pin::new(wire);
        while !self.head.is_empty() || !self.body.is_empty() {
            let pieces = [IoSlice::new(self.head), IoSlice::new(self.body)];
            let count = match (self.head.is_empty(), self.body.is_empty()) {
                (false, false) => ready!(wire.as_mut().poll_write_vectored(cx, &pieces))?,
                (false, true) => ready!(wire.as_mut().poll_write(cx, self.head))?,
                (true, _) => ready!(wire.as_mut().poll_write(cx, self.body))?,
            };
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.wrote = true;
            let of_head = count.min(self.head.len());
            self.head = &self.head[of_head..];
            self.body = &self.body[count - of_head..];
        }
        if !self.is_flushed {
            ready!(wire.poll_flush(cx))?;
            self.is_flushed = true;
        }
        Poll::Ready(Ok(()))
    }
}

fn exchange(
    wire: &mut Wire,
    cx: &mut Context<'_>,
    request: &mut Outgoing<'_>,
    answer: &mut AnswerReader,
    first_byte: &mut Option<Instant>,
) -> Poll<Result<Read, Failure>> {
    let broken = match request.poll_write(wire, cx) {
        Poll::Ready(Err(error)) => Some(error),
        Poll::Ready(Ok(())) | Poll::Pending => None,
    };
    if !request.wrote {
        // Nothing read now answers this request.
        return broken.map_or(Poll::Pending, |error| Poll::Ready(Err(Failure::Broken(Cause::of(&error)))));
    }
    let mut room = [MaybeUninit::uninit(); READ_BYTES];
    loop {
        let mut bytes = ReadBuf::uninit(&mut room);
        let read = match (Pin::new(&mut *wire).poll_read(cx, &mut bytes), &broken) {
            (Poll::Ready(Ok(())), _) if bytes.filled().is_empty() => answer.end().map(Some),
            (Poll::Ready(Ok(())), _) => {
                first_byte.get_or_insert_with(now);
                let before = answer.body_bytes();
                let read = answer.take(bytes.filled());
                wire.earn_body(answer.body_bytes() - before);
                read
            }
            (Poll::Ready(Err(error)), _) => Err(answer.fail(&error)),
            (Poll::Pending, Some(error)) => Err(answer.fail(error)),
            (Poll::Pending, None) => return Poll::Pending,
        };
        match read {
            Ok(None) => {}
            Ok(Some(read)) => return Poll::Ready(Ok(read)),
            Err(failure) => return Poll::Ready(Err(failure)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Wake;

    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::transport::limit::SocketLimit;
    use crate::transport::traffic::Charged;
    use crate::transport::wire::{Speaks, Stream};

    struct Attempt;

    impl Wake for Attempt {
        fn wake(self: Arc<Self>) {}
    }

    #[tokio::test]
    async fn an_idle_connection_keeps_nothing_of_the_attempt_before() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let tcp = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let limit = Arc::new(SocketLimit::default());
        limit.set_max(1);
        let tcp = Charged::new(tcp, Arc::clone(&limit.account));
        let mut connection =
            Http1::over(Wire::new(Stream::Plain(tcp), Speaks::Http1, limit.enter().unwrap()));
        let attempt = Arc::new(Attempt);
        let waker = Waker::from(Arc::clone(&attempt));
        let mut byte = [0];
        let read = Pin::new(&mut connection.wire)
            .poll_read(&mut Context::from_waker(&waker), &mut ReadBuf::new(&mut byte));
        assert!(read.is_pending());
        drop(waker);
        assert_eq!(Arc::strong_count(&attempt), 2, "it would be woken");
        assert!(connection.is_ready());
        assert_eq!(Arc::strong_count(&attempt), 1);
    }
}
