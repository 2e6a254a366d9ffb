//! What is known of the bytes of each request: whether the first has left, and whether it still may.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::backpressure::Backpressure;
use super::failure::Failure;
use super::permit::SendPermit;
use super::sync::lock;
use crate::boot_clock::{BootClock, BootTime};
use crate::engine::Nanos;

/// One request on its way to a socket.
#[derive(Debug)]
pub(super) struct WriteTracker {
    permit: SendPermit,
    clock: BootClock,
    /// For how long it may still leave once it is given up.
    late_max: Nanos,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing is written.
    Waiting,
    /// Bytes may have left.
    Wrote,
    /// Nothing is written, and nothing ever will be.
    GivenUp,
}

impl WriteTracker {
    pub(super) fn new(permit: SendPermit, clock: BootClock, late_max: Nanos) -> Arc<Self> {
        Arc::new(Self { permit, clock, late_max, state: Mutex::new(State::Waiting) })
    }

    pub(super) fn clock(&self) -> BootClock {
        self.clock
    }

    /// Whether the first byte could be written now.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.permit.check(self.clock.now())
    }

    /// Called before bytes of the request are written, and notes that they may have left.
    pub(super) fn before_write(&self) -> Result<(), Failure> {
        let mut state = lock(&self.state);
        match *state {
            State::Waiting => self.check()?,
            State::Wrote => self.permit.check_rest(self.clock.now())?,
            State::GivenUp => return Err(Failure::Withdrawn),
        }
        *state = State::Wrote;
        Ok(())
    }

    /// Whether a byte may have left. If none has, none will from here on.
    pub(super) fn give_up(&self) -> bool {
        let mut state = lock(&self.state);
        if *state == State::Wrote {
            return true;
        }
        *state = State::GivenUp;
        false
    }

    /// Gives it up, and says until when bytes of it may still leave; nothing if none has left.
    pub(super) fn late_until(&self) -> Option<BootTime> {
        self.give_up().then(|| self.clock.now().after(self.late_max))
    }

    /// Waits until the lane withdraws its consent while nothing is written. Then nothing will be. Never ends for a request
    /// that has begun by then.
    pub(super) async fn withdrawn(&self) {
        self.permit.cancelled.cancelled().await;
        if self.give_up() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether a request that has begun must not go on, since the lane may be somebody else's.
    fn has_lost_its_lane(&self) -> bool {
        self.permit.lease.is_over(self.clock.now()) && *lock(&self.state) == State::Wrote
    }
}

/// What requests and their socket know of each other, whoever owns the socket.
#[derive(Debug, Default)]
pub(super) struct SocketState {
    discard: AtomicBool,
    /// Whether this end broke the connection off.
    is_cut: AtomicBool,
    pub(super) backpressure: Backpressure,
    requests: Mutex<Requests>,
}

#[derive(Debug, Default)]
struct Requests {
    /// Over HTTP/1 the one under way. Over HTTP/2 the one that is being handed over: its stream is not known yet.
    current: Option<Arc<WriteTracker>>,
    /// Over HTTP/2 those under way, by their streams. At most as many as a connection takes requests.
    streams: BTreeMap<u32, Arc<WriteTracker>>,
}

impl SocketState {
    /// All that is written from here on belongs to this request. Until [`Self::answered`], closing the socket discards
    /// unsent bytes.
    pub(super) fn begin(&self, request: Arc<WriteTracker>) {
        self.discard_unsent();
        lock(&self.requests).current = Some(request);
    }

    /// The request over HTTP/1 is sent and answered: the socket may be closed in order.
    pub(super) fn answered(&self) {
        lock(&self.requests).current = None;
        self.discard.store(false, Ordering::Relaxed);
    }

    /// A request is about to be handed to an HTTP/2 connection. One at a time.
    pub(super) fn hand_over(&self, request: Arc<WriteTracker>) {
        lock(&self.requests).current = Some(request);
    }

    /// It has this stream; none if the connection refused it.
    pub(super) fn handed_over(&self, stream: Option<u32>) {
        let mut requests = lock(&self.requests);
        if let (Some(request), Some(stream)) = (requests.current.take(), stream) {
            requests.streams.insert(stream, request);
        }
    }

    /// The request on this stream was answered.
    pub(super) fn stream_answered(&self, stream: u32) {
        lock(&self.requests).streams.remove(&stream);
    }

    /// Closing the socket from here on discards unsent bytes.
    pub(super) fn discard_unsent(&self) {
        self.discard.store(true, Ordering::Relaxed);
    }

    pub(super) fn discards_unsent(&self) -> bool {
        self.discard.load(Ordering::Relaxed)
    }

    /// This end breaks the connection off. What is under way on it does not fail by the endpoint's fault.
    pub(super) fn cut(&self) {
        self.is_cut.store(true, Ordering::Release);
    }

    pub(super) fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Acquire)
    }

    /// Refuses to write, which ends the connection.
    fn refuse(&self, failure: Failure) -> io::Error {
        self.cut();
        io::Error::other(failure)
    }

    /// Asks for HTTP/1's next bytes.
    pub(super) fn before_write(&self) -> io::Result<()> {
        match &lock(&self.requests).current {
            Some(request) => request.before_write().map_err(io::Error::other),
            None => Ok(()),
        }
    }

    /// Asks for the beginning of a request over HTTP/2. A stream that nobody stands for is not begun.
    pub(super) fn before_stream(&self, stream: u32) -> io::Result<()> {
        let requests = lock(&self.requests);
        let request = requests.streams.get(&stream).or(requests.current.as_ref());
        let asked = request.map_or(Err(Failure::Withdrawn), |request| request.before_write());
        asked.map_err(|failure| self.refuse(failure))
    }

    /// Refuses to write anything, if a request under way is of a lane that may be somebody else's by now. All requests of a
    /// connection are of one lane.
    pub(super) fn check_lease(&self) -> io::Result<()> {
        let requests = lock(&self.requests);
        let lost = requests.streams.values().chain(&requests.current).any(|one| one.has_lost_its_lane());
        if lost { Err(self.refuse(Failure::Withdrawn)) } else { Ok(()) }
    }
}
