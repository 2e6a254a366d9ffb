//! Tracks whether each request's first byte has left, and still may.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::backpressure::Backpressure;
use super::failure::Failure;
use super::permit::SendPermit;
use super::timer::lock;
use crate::boot_clock::{BootClock, BootTime};
use crate::engine::Nanos;

#[derive(Debug)]
pub(super) struct WriteTracker {
    permit: SendPermit,
    clock: BootClock,
    late_max: Nanos,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
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

    pub(super) fn check(&self) -> Result<(), Failure> {
        self.permit.check(self.clock.now())
    }

    /// Records that bytes may have left.
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

    /// Whether a byte may have left. If none has, none will.
    pub(super) fn give_up(&self) -> bool {
        let mut state = lock(&self.state);
        if *state == State::Wrote {
            return true;
        }
        *state = State::GivenUp;
        false
    }

    /// Returns until when bytes may still leave; `None` if none has left.
    pub(super) fn late_until(&self) -> Option<BootTime> {
        self.give_up().then(|| self.clock.now().after(self.late_max))
    }

    /// Waits until the lane withdraws consent with nothing written. Never returns for a request that has begun.
    pub(super) async fn withdrawn(&self) {
        self.permit.cancelled.cancelled().await;
        if self.give_up() {
            std::future::pending::<()>().await;
        }
    }

    fn has_lost_its_lane(&self) -> bool {
        self.permit.lease.is_over(self.clock.now()) && *lock(&self.state) == State::Wrote
    }
}

#[derive(Debug, Default)]
pub(super) struct SocketState {
    discard: AtomicBool,
    is_cut: AtomicBool,
    pub(super) backpressure: Backpressure,
    requests: Mutex<Requests>,
}

#[derive(Debug, Default)]
struct Requests {
    /// HTTP/1: under way. HTTP/2: being handed over, without a stream id yet.
    current: Option<Arc<WriteTracker>>,
    /// HTTP/2: under way. Bounded by the connection's limit on requests.
    streams: BTreeMap<u32, Arc<WriteTracker>>,
}

impl SocketState {
    /// Later bytes belong to this request. Until [`Self::answered`], closing the socket discards unsent bytes.
    pub(super) fn begin(&self, request: Arc<WriteTracker>) {
        self.discard_unsent();
        lock(&self.requests).current = Some(request);
    }

    /// The socket may close normally.
    pub(super) fn answered(&self) {
        lock(&self.requests).current = None;
        self.discard.store(false, Ordering::Relaxed);
    }

    pub(super) fn hand_over(&self, request: Arc<WriteTracker>) {
        lock(&self.requests).current = Some(request);
    }

    pub(super) fn handed_over(&self, stream: Option<u32>) {
        let mut requests = lock(&self.requests);
        if let (Some(request), Some(stream)) = (requests.current.take(), stream) {
            requests.streams.insert(stream, request);
        }
    }

    pub(super) fn stream_answered(&self, stream: u32) {
        lock(&self.requests).streams.remove(&stream);
    }

    pub(super) fn discard_unsent(&self) {
        self.discard.store(true, Ordering::Relaxed);
    }

    pub(super) fn discards_unsent(&self) -> bool {
        self.discard.load(Ordering::Relaxed)
    }

    /// This end closes the connection, so its requests do not fail by the endpoint's fault.
    pub(super) fn cut(&self) {
        self.is_cut.store(true, Ordering::Release);
    }

    pub(super) fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Acquire)
    }

    fn refuse(&self, failure: Failure) -> io::Error {
        self.cut();
        io::Error::other(failure)
    }

    pub(super) fn before_write(&self) -> io::Result<()> {
        match &lock(&self.requests).current {
            Some(request) => request.before_write().map_err(io::Error::other),
            None => Ok(()),
        }
    }

    /// Refuses a stream without a known request.
    pub(super) fn before_stream(&self, stream: u32) -> io::Result<()> {
        let requests = lock(&self.requests);
        let request = requests.streams.get(&stream).or(requests.current.as_ref());
        let asked = request.map_or(Err(Failure::Withdrawn), |request| request.before_write());
        asked.map_err(|failure| self.refuse(failure))
    }

    /// Another process may own the lane. All requests of a connection are of one lane.
    pub(super) fn check_lease(&self) -> io::Result<()> {
        let requests = lock(&self.requests);
        let lost = requests.streams.values().chain(&requests.current).any(|one| one.has_lost_its_lane());
        if lost { Err(self.refuse(Failure::Withdrawn)) } else { Ok(()) }
    }
}
