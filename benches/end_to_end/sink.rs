use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::exchange::Failure;
use crate::figures::Latencies;
use crate::{now, offer};

/// After this time without an arrival, no more will come.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Sink {
    address: SocketAddr,
    seen: Arc<SinkState>,
    _runtime: Runtime,
}

struct SinkState {
    clock: Instant,
    arrivals: AtomicU64,
    /// Arrivals with types that begin with `fast`.
    fast: AtomicU64,
    /// Notified once its number is reached.
    wanted: Mutex<Wanted>,
    there: Condvar,
    latencies: Mutex<Latencies>,
}

#[derive(Clone, Copy)]
enum Wanted {
    All(u64),
    Fast(u64),
}

impl Sink {
    pub(crate) fn start() -> Result<Self, Failure> {
        Self::start_slow(Duration::ZERO)
    }

    pub(crate) fn start_slow(takes: Duration) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build()?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let address = listener.local_addr()?;
        let seen = Arc::new(SinkState {
            clock: now(),
            arrivals: AtomicU64::new(0),
            fast: AtomicU64::new(0),
            wanted: Mutex::new(Wanted::All(u64::MAX)),
            there: Condvar::new(),
            latencies: Mutex::default(),
        });
        runtime.spawn(accept(listener, Arc::clone(&seen), takes));
        Ok(Self { address, seen, _runtime: runtime })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    pub(crate) fn clock(&self) -> Instant {
        self.seen.clock
    }

    pub(crate) fn arrivals(&self) -> u64 {
        self.seen.arrivals.load(Ordering::SeqCst)
    }

    pub(crate) fn fast_arrivals(&self) -> u64 {
        self.seen.fast.load(Ordering::SeqCst)
    }

    pub(crate) fn wait_for(&self, count: u64) -> Result<(), Failure> {
        self.wait(Wanted::All(count))
    }

    pub(crate) fn wait_for_fast(&self, count: u64) -> Result<(), Failure> {
        self.wait(Wanted::Fast(count))
    }

    fn wait(&self, what: Wanted) -> Result<(), Failure> {
        let (counted, count) = self.seen.counted(what);
        let mut wanted = self.seen.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        *wanted = what;
        let mut before = counted.load(Ordering::SeqCst);
        while counted.load(Ordering::SeqCst) < count {
            let (guard, waited) =
                self.seen.there.wait_timeout(wanted, PATIENCE).unwrap_or_else(PoisonError::into_inner);
            wanted = guard;
            let arrivals = counted.load(Ordering::SeqCst);
            if waited.timed_out() && arrivals == before {
                return Err(Failure::Says(format!(
                    "{arrivals} of {count} requests arrived, and no more come"
                )));
            }
            before = arrivals;
        }
        *wanted = Wanted::All(u64::MAX);
        Ok(())
    }

    pub(crate) fn expect(&self, count: u64) -> Result<(), Failure> {
        let arrivals = self.arrivals();
        if arrivals == count {
            return Ok(());
        }
        Err(Failure::Says(format!("{arrivals} requests arrived, where {count} were due")))
    }

    pub(crate) fn forget_latencies(&self) {
        drop(self.latencies());
    }

    /// Latencies since the last call.
    pub(crate) fn latencies(&self) -> Latencies {
        std::mem::take(&mut *self.seen.latencies.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SinkState {
    fn counted(&self, wanted: Wanted) -> (&AtomicU64, u64) {
        match wanted {
            Wanted::All(count) => (&self.arrivals, count),
            Wanted::Fast(count) => (&self.fast, count),
        }
    }
}

async fn accept(listener: TcpListener, seen: Arc<SinkState>, takes: Duration) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        // Without this option the socket is only slower.
        drop(stream.set_nodelay(true));
        let seen = Arc::clone(&seen);
        tokio::spawn(async move {
            let service = service_fn(|request| take(request, &seen, takes));
            // A broken connection shows as a missing arrival.
            drop(
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await,
            );
        });
    }
}

async fn take(
    request: Request<Incoming>,
    seen: &SinkState,
    takes: Duration,
) -> Result<Response<Empty<Bytes>>, hyper::Error> {
    let at = seen.clock.elapsed_now();
    let body = request.into_body().collect().await?.to_bytes();
    if let Some(emitted) = offer::emitted_at(&body) {
        let latency = at.saturating_sub(emitted);
        seen.latencies.lock().unwrap_or_else(PoisonError::into_inner).record(latency);
    }
    if offer::is_fast(&body) {
        seen.fast.fetch_add(1, Ordering::SeqCst);
    }
    seen.arrivals.fetch_add(1, Ordering::SeqCst);
    let (counted, count) = seen.counted(*seen.wanted.lock().unwrap_or_else(PoisonError::into_inner));
    if counted.load(Ordering::SeqCst) >= count {
        seen.there.notify_all();
    }
    if !takes.is_zero() {
        pass(takes).await;
    }
    let mut answer = Response::new(Empty::new());
    *answer.status_mut() = StatusCode::NO_CONTENT;
    Ok(answer)
}

#[expect(clippy::disallowed_methods, reason = "an endpoint that takes its time is what is measured")]
async fn pass(takes: Duration) {
    tokio::time::sleep(takes).await;
}

trait ElapsedNow {
    fn elapsed_now(&self) -> Duration;
}

impl ElapsedNow for Instant {
    fn elapsed_now(&self) -> Duration {
        now().saturating_duration_since(*self)
    }
}
