//! At the bound on connections, the oldest without a request makes room, so that endless heads lock out no others.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{MissedTickBehavior, interval};

const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(super) struct Open {
    places: Arc<Semaphore>,
    connections: Mutex<(u64, BTreeMap<u64, Arc<State>>)>,
}

#[derive(Default)]
struct State {
    /// Requests from their head to the last byte of their answer.
    under_way: AtomicU32,
    is_told: AtomicBool,
    close: Notify,
}

impl Open {
    pub(super) fn new(connections_max: usize) -> Arc<Self> {
        Arc::new(Self { places: Arc::new(Semaphore::new(connections_max)), connections: Mutex::default() })
    }

    /// Closes the oldest at rest, or waits if all have a request under way.
    pub(super) async fn enter(self: &Arc<Self>) -> Entry {
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut place = std::pin::pin!(Arc::clone(&self.places).acquire_owned());
        let place = loop {
            tokio::select! {
                biased;
                // Never closed.
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

    /// One at a time.
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

pub(super) struct Entry {
    open: Arc<Open>,
    number: u64,
    state: Arc<State>,
    /// Declared last, so that the connection is removed first.
    _place: Option<OwnedSemaphorePermit>,
}

impl Entry {
    pub(super) fn requests(&self) -> Requests {
        Requests(Arc::clone(&self.state))
    }

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

#[derive(Clone)]
pub(super) struct Requests(Arc<State>);

impl Requests {
    pub(super) fn begin(&self) -> UnderWay {
        self.0.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(Arc::clone(&self.0))
    }
}

pub(super) struct UnderWay(Arc<State>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Keeps its request under way until it is written.
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
