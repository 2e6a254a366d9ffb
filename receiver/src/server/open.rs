//! The connections that are open. Where there are as many as there may be, the oldest one without a request makes room:
//! heads that never end must not keep others out.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{MissedTickBehavior, interval};

/// How often to look for a connection that has come to rest, while another one waits for its place.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// All of them, in the order in which they came.
pub(super) struct Open {
    places: Arc<Semaphore>,
    connections: Mutex<(u64, BTreeMap<u64, Arc<State>>)>,
}

#[derive(Default)]
struct State {
    /// Requests whose head has come, and whose answer is not wholly written.
    under_way: AtomicU32,
    is_told: AtomicBool,
    close: Notify,
}

impl Open {
    pub(super) fn new(connections_max: usize) -> Arc<Self> {
        Arc::new(Self { places: Arc::new(Semaphore::new(connections_max)), connections: Mutex::default() })
    }

    /// A place for one more. If there is none, the oldest that rests is closed; if all have a request under way, this waits.
    pub(super) async fn enter(self: &Arc<Self>) -> Entry {
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut place = std::pin::pin!(Arc::clone(&self.places).acquire_owned());
        let place = loop {
            tokio::select! {
                biased;
                // Never closed, so there is a place in the end.
                place = &mut place => break place.ok(),
                _ = looks.tick() => self.close_the_oldest_at_rest(),
            }
        };
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.0 += 1;
        let (number, state) = (connections.0, Arc::<State>::default());
        connections.1.insert(number, Arc::clone(&state));
        Entry { open: Arc::clone(self), number, state, _place: place }
    }

    /// One at a time: while one that was told to end does so, the others stay.
    fn close_the_oldest_at_rest(&self) {
        let connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        let mut open = connections.1.values();
        if open.clone().any(|state| state.is_told.load(Ordering::Relaxed)) {
            return;
        }
        if let Some(oldest) = open.find(|state| state.under_way.load(Ordering::Relaxed) == 0) {
            oldest.is_told.store(true, Ordering::Relaxed);
            oldest.close.notify_one();
        }
    }
}

/// One connection, for as long as it is.
pub(super) struct Entry {
    open: Arc<Open>,
    number: u64,
    state: Arc<State>,
    /// After the others: once it is given back, somebody else may come.
    _place: Option<OwnedSemaphorePermit>,
}

impl Entry {
    /// Its requests.
    pub(super) fn requests(&self) -> Requests {
        Requests(Arc::clone(&self.state))
    }

    /// Waits until it is to make room.
    pub(super) async fn is_told_to_close(&self) {
        self.state.close.notified().await;
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut connections = self.open.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.1.remove(&self.number);
    }
}

/// The requests of one connection.
#[derive(Clone)]
pub(super) struct Requests(Arc<State>);

impl Requests {
    /// The head of one has come.
    pub(super) fn begin(&self) -> UnderWay {
        self.0.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(Arc::clone(&self.0))
    }
}

/// A request, to the end of its answer.
pub(super) struct UnderWay(Arc<State>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An answer's body, which keeps its request under way until it is written.
pub(super) struct Answer<B> {
    pub(super) body: B,
    pub(super) _under_way: UnderWay,
}

impl<B: Body + Unpin> Body for Answer<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
