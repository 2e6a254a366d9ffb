//! One HTTP/2 connection, shared by the attempts of a lane.
//!
//! A request given up after it was written may lie in a system buffer until the endpoint reads on. So its connection
//! ends with its last request, or after `late_max`, which cuts off requests under way. A request that the endpoint
//! itself reset ends nothing else.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::HeaderValue;
use http::header::{DATE, RETRY_AFTER};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::attempt_result::{ANSWER_BYTES_MAX, Answered, HEAD_BYTES_MAX};
use super::failure::{Cause, Failure};
use super::limit::SocketLimit;
use super::sockets::Sockets;
use super::timer::{TIMER_MAX, after, lock, now, reached};
use super::wire::Wire;
use super::write_tracker::{SocketState, WriteTracker};
use crate::boot_clock::{BootClock, BootTime};

/// The most requests at once, even if the endpoint allows more.
const REQUESTS_MAX: u32 = 100;

/// Bounds one answer and all answers, and so a connection's memory.
const WINDOW_BYTES: u32 = 64 * 1024;
const WINDOW_BYTES_ALL: u32 = 256 * 1024;

/// Unread pieces below `PIECE_BYTES` take about 150 bytes of memory each. Beyond it, the connection ends.
const UNREAD_PIECES_MAX: usize = 4096;
const PIECE_BYTES: usize = 256;

const INTERIM_MAX: u32 = 100;

pub(super) struct Http2 {
    sender: SendRequest<Bytes>,
    driver: JoinHandle<()>,
    socket: Arc<SocketState>,
    /// Notified when this connection becomes idle.
    sockets: Arc<Sockets>,
    /// Held during a hand-over, so that at most one request lacks a stream id.
    handing_over: Mutex<()>,
    /// Requests under way. Only [`Place`] changes it.
    requests: AtomicU32,
    /// One request was not answered, so no further one follows.
    retired: AtomicBool,
    /// A request that was given up may leave until then.
    ends: Mutex<Option<BootTime>>,
    idle_since: Mutex<Instant>,
}

struct Driver {
    connection: Connection<Wire, Bytes>,
    socket: Arc<SocketState>,
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let polled = Pin::new(&mut self.connection).poll(cx);
        self.socket.backpressure.rest();
        polled.map(drop)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.socket.backpressure.end();
    }
}

impl Http2 {
    pub(super) async fn over(wire: Wire, sockets: Arc<Sockets>) -> Result<Arc<Self>, Failure> {
        let socket = wire.state();
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX))
            .initial_window_size(WINDOW_BYTES)
            .data_frame_budget(UNREAD_PIECES_MAX * PIECE_BYTES)
            .initial_connection_window_size(WINDOW_BYTES_ALL);
        let (sender, connection) = builder.handshake(wire).await.map_err(|e| failure(&e))?;
        let driver = tokio::spawn(Driver { connection, socket: Arc::clone(&socket) });
        Ok(Arc::new(Self {
            sender,
            driver,
            socket,
            sockets,
            handing_over: Mutex::default(),
            requests: AtomicU32::new(0),
            retired: AtomicBool::new(false),
            ends: Mutex::default(),
            idle_since: Mutex::new(now()),
        }))
    }

    pub(super) fn enter(self: &Arc<Self>, limit: &Arc<SocketLimit>) -> Option<Place> {
        if self.is_over() {
            return None;
        }
        let allowed = u32::try_from(self.sender.current_max_send_streams()).unwrap_or(u32::MAX);
        let max = REQUESTS_MAX.min(allowed);
        let one_more = |requests| (requests < max).then_some(requests + 1);
        self.requests.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).ok()?;
        let (connection, limit) = (Arc::clone(self), Arc::clone(limit));
        Some(Place { connection, limit, request: None, answered: false })
    }

    /// The connection's task writes the request later, and then checks the tracker.
    fn hand_over(
        &self,
        sender: &mut SendRequest<Bytes>,
        request: http::Request<()>,
        is_whole: bool,
        tracker: Arc<WriteTracker>,
    ) -> Result<(ResponseFuture, SendStream<Bytes>), Failure> {
        let _one_at_a_time = lock(&self.handing_over);
        self.socket.hand_over(tracker);
        let sent = sender.send_request(request, is_whole);
        self.socket.handed_over(sent.as_ref().ok().map(|(_, stream)| stream.stream_id().as_u32()));
        sent.map_err(|error| failure(&error))
    }

    pub(super) fn is_over(&self) -> bool {
        self.retired.load(Ordering::Acquire) || self.driver.is_finished()
    }

    pub(super) fn idle_since(&self) -> Option<Instant> {
        (self.requests.load(Ordering::SeqCst) == 0).then(|| *lock(&self.idle_since))
    }

    fn cut(&self) {
        // The connection's requests get the true reason.
        if !self.driver.is_finished() {
            self.socket.cut();
            self.driver.abort();
        }
    }

    fn cut_at(self: &Arc<Self>, end: BootTime, clock: BootClock) {
        let mut ends = lock(&self.ends);
        if ends.is_some_and(|sooner| sooner <= end) {
            return;
        }
        *ends = Some(end);
        match Handle::try_current() {
            Ok(runtime) if clock.now() < end => {
                runtime.spawn(cut_later(Arc::downgrade(self), end, clock));
            }
            // Without a runtime no task waits for an answer either.
            Ok(_) | Err(_) => self.cut(),
        }
    }
}

/// Waits for `end`, or for the connection's own end.
async fn cut_later(connection: Weak<Http2>, end: BootTime, clock: BootClock) {
    let is_there = || connection.upgrade().is_some_and(|connection| !connection.driver.is_finished());
    loop {
        let left = Duration::from_nanos(end.since(clock.now()).0);
        if left.is_zero() || !is_there() {
            break;
        }
        reached(after(left.min(TIMER_MAX))).await;
    }
    if let Some(connection) = connection.upgrade() {
        connection.cut();
    }
}

impl Drop for Http2 {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

pub(super) struct Place {
    connection: Arc<Http2>,
    limit: Arc<SocketLimit>,
    /// Set while the request may still arrive.
    request: Option<Arc<WriteTracker>>,
    answered: bool,
}

impl Place {
    /// A request that waits when its lane withdraws consent is taken back. For one handed over already, see
    /// [`super::permit`].
    pub(super) async fn exchange(
        mut self,
        request: http::Request<()>,
        body: Bytes,
        tracker: Arc<WriteTracker>,
        first_byte: &mut Option<Instant>,
    ) -> Result<Answered, Failure> {
        let withdrawn = Arc::clone(&tracker);
        let answered = tokio::select! {
            biased;
            () = withdrawn.withdrawn() => Err(Failure::Withdrawn),
            answered = self.make(request, body, tracker, first_byte) => answered,
        };
        // Dropping the place may end the connection.
        answered.map_err(|failure| match failure {
            Failure::Broken(_) | Failure::Half(_) if self.connection.socket.is_cut() => Failure::CutOff,
            failure => failure,
        })
    }

    async fn make(
        &mut self,
        request: http::Request<()>,
        body: Bytes,
        tracker: Arc<WriteTracker>,
        first_byte: &mut Option<Instant>,
    ) -> Result<Answered, Failure> {
        self.connection.socket.backpressure.eased().await;
        let mut sender = self.connection.sender.clone();
        poll_fn(|cx| sender.poll_ready(cx)).await.map_err(|e| failure(&e))?;
        tracker.check()?;
        self.request = Some(Arc::clone(&tracker));
        let (answer, stream) = self.connection.hand_over(&mut sender, request, body.is_empty(), tracker)?;
        let id = stream.stream_id().as_u32();
        let mut upload = Upload(stream);
        if !body.is_empty() {
            upload.0.send_data(body, true).map_err(|e| failure(&e))?;
        }
        let (head, body) = self.final_answer(answer).await?.into_parts();
        *first_byte = Some(now());
        let value = |name| head.headers.get(name).map(HeaderValue::as_bytes);
        let mut answered = Answered::of(head.status.as_u16(), value(RETRY_AFTER), value(DATE));
        answered.keep(|name| head.headers.get(name).map(HeaderValue::as_bytes));
        answered.cut = self.is_longer_than_is_read(body, &mut answered).await?;
        self.answered = true;
        self.connection.socket.stream_answered(id);
        Ok(answered)
    }

    async fn final_answer(
        &mut self,
        mut answer: ResponseFuture,
    ) -> Result<http::Response<RecvStream>, Failure> {
        let mut interim = 0;
        poll_fn(|cx| {
            while let Poll::Ready(Some(one)) = answer.poll_informational(cx) {
                one.map_err(|e| failure(self.ended_by(&e)))?;
                interim += 1;
                if interim > INTERIM_MAX {
                    return Poll::Ready(Err(Failure::NotHttp("it has too many interim answers".into())));
                }
            }
            Pin::new(&mut answer).poll(cx).map_err(|e| failure(self.ended_by(&e)))
        })
        .await
    }

    async fn is_longer_than_is_read(
        &mut self,
        mut body: RecvStream,
        answered: &mut Answered,
    ) -> Result<bool, Failure> {
        let mut read = 0;
        while let Some(data) = body.data().await {
            let data = data.map_err(|error| self.half(&error))?;
            answered.add_body(&data);
            let bytes = data.len();
            read += bytes;
            self.limit.account.earn_body(bytes);
            if read > ANSWER_BYTES_MAX {
                return Ok(true);
            }
            body.flow_control().release_capacity(bytes).map_err(|error| self.half(&error))?;
        }
        Ok(false)
    }

    fn half(&mut self, error: &h2::Error) -> Failure {
        Failure::Half(Cause::of(self.ended_by(error)))
    }

    /// Nothing arrives on a stream that the endpoint has reset.
    fn ended_by<'a>(&mut self, error: &'a h2::Error) -> &'a h2::Error {
        if error.is_reset() && error.is_remote() {
            self.request = None;
        }
        error
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Self { connection, limit, request, answered } = self;
        if !*answered {
            connection.retired.store(true, Ordering::Release);
            connection.socket.discard_unsent();
        }
        *lock(&connection.idle_since) = now();
        let is_last = connection.requests.fetch_sub(1, Ordering::SeqCst) == 1;
        match request.as_ref().filter(|_| !*answered) {
            // No request is lost, and none that was given up can leave any more.
            _ if is_last && connection.retired.load(Ordering::Acquire) => connection.cut(),
            Some(request) => {
                if let Some(end) = request.late_until() {
                    connection.cut_at(end, request.clock());
                }
            }
            None if is_last => connection.sockets.mark_idle(),
            None => {}
        }
        limit.freed.notify_one();
    }
}

/// An unsent part is never sent after the attempt.
struct Upload(SendStream<Bytes>);

impl Drop for Upload {
    fn drop(&mut self) {
        self.0.send_reset(Reason::CANCEL);
    }
}

fn failure(error: &h2::Error) -> Failure {
    if error.is_io() || error.is_go_away() || error.is_reset() {
        Failure::Broken(Cause::of(error))
    } else {
        Failure::NotHttp(Cause::of(error))
    }
}
