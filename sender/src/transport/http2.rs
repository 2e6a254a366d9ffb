//! One connection that speaks HTTP/2, shared by the attempts of a lane.
//!
//! A request that was given up after it was written may lie in a buffer of the system's, and leave as soon as the endpoint reads on.
//! Only the end of the connection prevents that. So a connection on which that has happened ends with the last request on it, and
//! at the latest when its lane takes it that nothing given up arrives any more. What is under way on it then is cut off. A request
//! that the endpoint gave up itself ends nothing else.

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
use super::sync::lock;
use super::timer::{TIMER_MAX, after, now, reached};
use super::wire::Wire;
use super::write_tracker::{SocketState, WriteTracker};
use crate::boot_clock::{BootClock, BootTime};

/// The most requests at once on one connection, however many the endpoint would take.
const REQUESTS_MAX: u32 = 100;

/// What the endpoint may send of one answer, and of all together, before it is read: what a connection may cost in
/// memory.
const WINDOW_BYTES: u32 = 64 * 1024;
const WINDOW_BYTES_ALL: u32 = 256 * 1024;

/// The most pieces of answers of under so many bytes that a connection may hold before they are read: an answer in pieces of 16
/// bytes. Each takes about 150 bytes of memory. An endpoint that sends more loses its connection.
const UNREAD_PIECES_MAX: usize = 4096;
const PIECE_BYTES: usize = 256;

/// The most interim answers to a request.
const INTERIM_MAX: u32 = 100;

/// A connection, driven by a task that ends with it.
pub(super) struct Http2 {
    sender: SendRequest<Bytes>,
    driver: JoinHandle<()>,
    socket: Arc<SocketState>,
    /// Those of all lanes, which are told when this connection becomes idle.
    sockets: Arc<Sockets>,
    /// Held while a request is handed over: until its stream is known, it is the only one without.
    handing_over: Mutex<()>,
    /// Requests under way. Changed by [`Place`] alone.
    requests: AtomicU32,
    /// Takes no further request: one was not answered, so perhaps none will be.
    retired: AtomicBool,
    /// When it ends at the latest, since a request that was given up may leave until then.
    ends: Mutex<Option<BootTime>>,
    idle_since: Mutex<Instant>,
}

/// What writes and reads for a connection until it ends. Its requests hear of an error; without one it needs no words.
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

    /// A place for one more request; nothing if it is full or takes none.
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

    /// Hands a request to the connection's task, which writes it when it can. The tracker is asked in that moment.
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

    /// Whether it will never take a request again.
    pub(super) fn is_over(&self) -> bool {
        self.retired.load(Ordering::Acquire) || self.driver.is_finished()
    }

    /// Since when nothing is under way; nothing if something is.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        (self.requests.load(Ordering::SeqCst) == 0).then(|| *lock(&self.idle_since))
    }

    /// Ends the connection. What is under way on it is cut off.
    fn cut(&self) {
        // Of what has ended by itself, the requests hear the true reason.
        if !self.driver.is_finished() {
            self.socket.cut();
            self.driver.abort();
        }
    }

    /// Ends the connection at that moment at the latest, with whatever is under way on it then.
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
            // Without a runtime nobody waits for an answer either.
            Ok(_) | Err(_) => self.cut(),
        }
    }
}

/// Waits for the moment at which a connection has to end, or for its own end before that.
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

/// The place of one request on a connection.
pub(super) struct Place {
    connection: Arc<Http2>,
    limit: Arc<SocketLimit>,
    /// Once it is handed to the connection, for as long as it may arrive.
    request: Option<Arc<WriteTracker>>,
    answered: bool,
}

impl Place {
    /// Sends a request and reads its answer. A request that waits for the connection to take more when its lane withdraws its
    /// consent is taken back, and the connection goes on with the others. See [`super::permit`] for what is handed over already.
    pub(super) async fn exchange(
        mut self,
        request: http::Request<()>,
        body: Bytes,
        tracker: Arc<WriteTracker>,
    ) -> Result<Answered, Failure> {
        let withdrawn = Arc::clone(&tracker);
        let answered = tokio::select! {
            biased;
            () = withdrawn.withdrawn() => Err(Failure::Withdrawn),
            answered = self.make(request, body, tracker) => answered,
        };
        // Asked while the place is held: giving it back may end the connection too.
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
        let value = |name| head.headers.get(name).map(HeaderValue::as_bytes);
        let mut answered = Answered::of(head.status.as_u16(), value(RETRY_AFTER), value(DATE));
        answered.cut = self.is_longer_than_is_read(body).await?;
        self.answered = true;
        self.connection.socket.stream_answered(id);
        Ok(answered)
    }

    /// The answer after the interim ones.
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

    async fn is_longer_than_is_read(&mut self, mut body: RecvStream) -> Result<bool, Failure> {
        let mut read = 0;
        while let Some(data) = body.data().await {
            let bytes = data.map_err(|error| self.half(&error))?.len();
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

    /// Notes what ended the request. Of a stream that the endpoint has reset nothing arrives any more, so that its connection need
    /// not end for it.
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
            // Nothing is lost with it, and whatever was given up can't leave any more.
            _ if is_last && connection.retired.load(Ordering::Acquire) => connection.cut(),
            Some(request) => {
                if let Some(end) = request.late_until() {
                    connection.cut_at(end, request.clock());
                }
            }
            None if is_last => connection.sockets.note_idle(),
            None => {}
        }
        limit.freed.notify_one();
    }
}

/// A request's body on its way. What of it has not left when the attempt ends does not leave.
struct Upload(SendStream<Bytes>);

impl Drop for Upload {
    fn drop(&mut self) {
        // Does nothing where both ends have said all they had to say.
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
