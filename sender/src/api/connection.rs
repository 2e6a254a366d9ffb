//! One connection: which requests it has, how far their bodies have come, how far its answers are written and read, and whether it
//! is to close.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use futures_util::task::AtomicWaker;
use http::{Request, Response};
use hyper::body::{Buf, Frame, SizeHint};
use tokio::sync::Notify;

/// How many bytes of a body have to come from one look to the next, which is a second.
const BODY_RATE: u64 = 16 << 10;
/// How many bytes a body may be behind that before it is refused: those of ten seconds.
const BEHIND_MAX: u64 = 10 * BODY_RATE;
/// How many before it may have to make room for another connection.
const SLOW: u64 = BODY_RATE;
/// How many looks a body may take at any rate.
const BODY_LOOKS_MAX: u32 = 25;

/// A body that comes too slowly.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error(
    "the body came too slowly; expected {} KiB a second after the first 10 s, and its end within {BODY_LOOKS_MAX} s",
    BODY_RATE >> 10
)]
pub(super) struct TooSlow;

/// What is known of it.
#[derive(Default)]
pub(super) struct State {
    /// Requests whose head has come.
    begun: AtomicU64,
    /// Those of them that are not answered.
    under_way: AtomicU32,
    /// The same, to the last byte of the answer.
    unwritten: AtomicU32,
    /// Pieces of answers that wait until somebody reads on.
    pieces: AtomicU32,
    /// Looks in a row in which none of them made any progress.
    looks: AtomicU32,
    /// The body that is coming.
    coming: Coming,
    /// Whether it was told to close, and how many requests had begun before.
    is_told: AtomicBool,
    begun_before: AtomicU64,
    close: Notify,
    /// The server's: it has come to rest, or does not close as it was told.
    rested: Arc<Notify>,
}

impl State {
    /// A new one of a server that is told when it comes to rest.
    pub(super) fn new(rested: Arc<Notify>) -> Arc<Self> {
        Arc::new(Self { rested, ..Self::default() })
    }

    /// The request with its body, which must not come too slowly.
    pub(super) fn paced<B: hyper::body::Body>(self: &Arc<Self>, request: Request<B>) -> Request<Paced<B>> {
        request.map(|body| Paced::new(body, self))
    }

    /// Answers a request, which has begun now.
    pub(super) fn answer<F, E>(
        self: &Arc<Self>,
        response: F,
    ) -> impl Future<Output = Result<Response<Answer>, E>> + use<F, E>
    where
        F: Future<Output = Result<Response<Body>, E>>,
    {
        let under_way = Counted::begin(self, |state| &state.under_way);
        let writing = Counted::begin(self, |state| &state.unwritten);
        self.begun.fetch_add(1, Ordering::Release);
        async move {
            let response = response.await;
            drop(under_way);
            response.map(|response| response.map(|body| Answer { body, writing: Arc::new(writing) }))
        }
    }

    /// Whether it has no request, and its answers are written to their end, but for what is unread if it is `or_unread`.
    fn is_at_rest(&self, or_unread: bool) -> bool {
        self.under_way.load(Ordering::Acquire) == 0
            && (or_unread || self.unwritten.load(Ordering::Acquire) == 0)
    }

    /// Looks at the answer that is being written. True if it made no progress for so many looks.
    pub(super) fn is_unread(&self, looks_max: u32) -> bool {
        let waits = self.pieces.load(Ordering::Relaxed) > 0 && self.under_way.load(Ordering::Relaxed) == 0;
        waits && self.looks.fetch_add(1, Ordering::Relaxed) + 1 >= looks_max
    }

    /// Looks at the body that is coming, and ends it if it comes too slowly.
    pub(super) fn look_at_body(&self) {
        if self.coming.is_open.load(Ordering::Acquire) {
            let looks = self.coming.looks.fetch_add(1, Ordering::Relaxed) + 1;
            if looks > BODY_LOOKS_MAX || self.behind() > BEHIND_MAX {
                self.coming.is_too_slow.store(true, Ordering::Release);
                self.coming.waits.wake();
            }
        }
    }

    /// How many bytes the body that is coming is behind; nothing, if none is. One that has just begun is not slow yet.
    pub(super) fn behind(&self) -> u64 {
        if !self.coming.is_open.load(Ordering::Acquire) {
            return 0;
        }
        let wanted = u64::from(self.coming.looks.load(Ordering::Relaxed)) * BODY_RATE;
        wanted.saturating_sub(self.coming.bytes.load(Ordering::Relaxed))
    }

    /// Whether so much is missing of the body that is coming that another connection may have its place.
    pub(super) fn is_slow(&self) -> bool {
        self.behind() > SLOW
    }

    /// Tells it to close if it is at rest. Whether it was told.
    pub(super) fn tell_to_close(&self, or_unread: bool) -> bool {
        self.tell_to_close_if(|state| state.is_at_rest(or_unread))
    }

    /// The same, if its body comes slowly.
    pub(super) fn tell_to_close_if_slow(&self) -> bool {
        self.tell_to_close_if(Self::is_slow)
    }

    fn tell_to_close_if(&self, closes: impl FnOnce(&Self) -> bool) -> bool {
        // Counted first: a request that begins from here on is not counted, and it is found out before it closes.
        let begun = self.begun.load(Ordering::Acquire);
        let is_told = closes(self);
        if is_told {
            self.begun_before.store(begun, Ordering::Release);
            self.is_told.store(true, Ordering::Release);
            self.close.notify_one();
        }
        is_told
    }

    pub(super) fn is_told(&self) -> bool {
        self.is_told.load(Ordering::Acquire)
    }

    /// Waits until it is told.
    pub(super) async fn told(&self) {
        self.close.notified().await;
    }

    /// Whether it closes at once, as it was told. If a request has begun since then, or its body has come, another one has to make
    /// room.
    pub(super) fn closes_at_once(&self) -> bool {
        let at_once = self.begun_before.load(Ordering::Acquire) == self.begun.load(Ordering::Acquire)
            && (self.is_at_rest(true) || self.is_slow());
        if !at_once {
            self.is_told.store(false, Ordering::Release);
            self.rested.notify_one();
        }
        at_once
    }
}

/// One request more in a count, as long as this lives.
struct Counted(Arc<State>, fn(&State) -> &AtomicU32);

impl Counted {
    fn begin(state: &Arc<State>, count: fn(&State) -> &AtomicU32) -> Self {
        count(state).fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(state), count)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.1)(&self.0).fetch_sub(1, Ordering::Relaxed);
        if self.0.is_at_rest(false) {
            self.0.rested.notify_one();
        }
    }
}

/// A body that is coming: a connection has one at a time.
#[derive(Default)]
struct Coming {
    is_open: AtomicBool,
    bytes: AtomicU64,
    looks: AtomicU32,
    is_too_slow: AtomicBool,
    waits: AtomicWaker,
}

/// The body of a request, which ends with an error if it comes too slowly.
pub(super) struct Paced<B> {
    body: B,
    state: Arc<State>,
}

impl<B: hyper::body::Body> Paced<B> {
    fn new(body: B, state: &Arc<State>) -> Self {
        let coming = &state.coming;
        coming.bytes.store(0, Ordering::Relaxed);
        coming.looks.store(0, Ordering::Relaxed);
        coming.is_too_slow.store(false, Ordering::Relaxed);
        coming.is_open.store(!body.is_end_stream(), Ordering::Release);
        Self { body, state: Arc::clone(state) }
    }
}

impl<B> Drop for Paced<B> {
    fn drop(&mut self) {
        self.state.coming.is_open.store(false, Ordering::Release);
    }
}

impl<B> hyper::body::Body for Paced<B>
where
    B: hyper::body::Body<Data = Bytes, Error: Into<axum::BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        let coming = &self.state.coming;
        match frame {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                coming.bytes.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
                if self.body.is_end_stream() {
                    coming.is_open.store(false, Ordering::Release);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(end) => {
                coming.is_open.store(false, Ordering::Release);
                Poll::Ready(end.map(|frame| frame.map_err(Into::into)))
            }
            Poll::Pending => {
                coming.waits.register(cx.waker());
                if coming.is_too_slow.load(Ordering::Acquire) {
                    return Poll::Ready(Some(Err(TooSlow.into())));
                }
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer, and that it is not written to its end.
pub(super) struct Answer {
    body: Body,
    writing: Arc<Counted>,
}

/// A piece of it, for as long as a byte of it is not written.
pub(super) struct Piece {
    bytes: Bytes,
    waits: Counted,
    _writing: Arc<Counted>,
}

impl Piece {
    fn new(bytes: Bytes, writing: &Arc<Counted>) -> Self {
        let state = &writing.0;
        state.looks.store(0, Ordering::Relaxed);
        let waits = Counted::begin(state, |state| &state.pieces);
        Self { bytes, waits, _writing: Arc::clone(writing) }
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.waits.0.looks.store(0, Ordering::Relaxed);
    }
}

impl hyper::body::Body for Answer {
    type Data = Piece;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, axum::Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
        let piece = |bytes| Piece::new(bytes, &self.writing);
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
