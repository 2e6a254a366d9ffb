//! The state of one connection: its requests, and the progress of bodies and answers.

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

/// Bytes between two checks, which is one second.
const BODY_RATE: u64 = 16 << 10;
/// Ten seconds' worth: a body that lags further behind is refused.
const BEHIND_MAX: u64 = 10 * BODY_RATE;
/// A body that lags further behind may lose its place to another connection.
const SLOW: u64 = BODY_RATE;
const BODY_LOOKS_MAX: u32 = 25;

#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error(
    "the body came too slowly; expected {} KiB a second after the first 10 s, and its end within {BODY_LOOKS_MAX} s",
    BODY_RATE >> 10
)]
pub(super) struct TooSlow;

#[derive(Default)]
pub(super) struct State {
    begun: AtomicU64,
    under_way: AtomicU32,
    unwritten: AtomicU32,
    pieces: AtomicU32,
    looks: AtomicU32,
    coming: Coming,
    /// Whether it was told to close, and the requests begun before.
    is_told: AtomicBool,
    begun_before: AtomicU64,
    close: Notify,
    /// Notified at rest, or when it does not close as told.
    rested: Arc<Notify>,
}

impl State {
    pub(super) fn new(rested: Arc<Notify>) -> Arc<Self> {
        Arc::new(Self { rested, ..Self::default() })
    }

    pub(super) fn paced<B: hyper::body::Body>(self: &Arc<Self>, request: Request<B>) -> Request<Paced<B>> {
        request.map(|body| Paced::new(body, self))
    }

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

    /// `or_unread`: answers that wait to be read do not count.
    fn is_at_rest(&self, or_unread: bool) -> bool {
        self.under_way.load(Ordering::Acquire) == 0
            && (or_unread || self.unwritten.load(Ordering::Acquire) == 0)
    }

    pub(super) fn is_unread(&self, looks_max: u32) -> bool {
        let waits = self.pieces.load(Ordering::Relaxed) > 0 && self.under_way.load(Ordering::Relaxed) == 0;
        waits && self.looks.fetch_add(1, Ordering::Relaxed) + 1 >= looks_max
    }

    pub(super) fn check_body(&self) {
        if self.coming.is_open.load(Ordering::Acquire) {
            let looks = self.coming.looks.fetch_add(1, Ordering::Relaxed) + 1;
            if looks > BODY_LOOKS_MAX || self.behind() > BEHIND_MAX {
                self.coming.is_too_slow.store(true, Ordering::Release);
                self.coming.waits.wake();
            }
        }
    }

    pub(super) fn behind(&self) -> u64 {
        if !self.coming.is_open.load(Ordering::Acquire) {
            return 0;
        }
        let wanted = u64::from(self.coming.looks.load(Ordering::Relaxed)) * BODY_RATE;
        wanted.saturating_sub(self.coming.bytes.load(Ordering::Relaxed))
    }

    pub(super) fn is_slow(&self) -> bool {
        self.behind() > SLOW
    }

    pub(super) fn request_close(&self, or_unread: bool) -> bool {
        self.request_close_if(|state| state.is_at_rest(or_unread))
    }

    pub(super) fn request_close_if_slow(&self) -> bool {
        self.request_close_if(Self::is_slow)
    }

    fn request_close_if(&self, closes: impl FnOnce(&Self) -> bool) -> bool {
        // Later requests are then noticed before it closes.
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

    pub(super) async fn close_requested(&self) {
        self.close.notified().await;
    }

    /// False if a request has begun or the body has arrived since.
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

/// A connection receives one body at a time.
#[derive(Default)]
struct Coming {
    is_open: AtomicBool,
    bytes: AtomicU64,
    looks: AtomicU32,
    is_too_slow: AtomicBool,
    waits: AtomicWaker,
}

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

pub(super) struct Answer {
    body: Body,
    writing: Arc<Counted>,
}

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
