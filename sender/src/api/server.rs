//! The listener, and the limits of connections.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tracing::{debug, warn};

use super::connection::State;

/// At the bound, a new connection replaces the oldest at rest, or else the one with the slowest body that lags too
/// far, or else the oldest with an unread answer, or else the first at rest. A request whose body has arrived is
/// still answered. With a token set, no body is read without it, so a stranger's connection is always at rest.
const CONNECTIONS_MAX: usize = 1_024;
const HEAD_BYTES_MAX: usize = 32 << 10;
const HEADERS_MAX: usize = 64;
/// The time limit of a head, and of rest between two requests.
const HEAD_TIME_MAX: Duration = Duration::from_secs(5);
/// An answer is given up after so many checks without progress.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LOOKS_MAX: u32 = 30;
const LOOKS_MAX_AT_STOP: u32 = 2;
/// The pause after a failed accept, most likely for lack of file descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error(
        "--listen {address} is reachable from other machines; expected a loopback address, or a token: give one \
         (--token-env NAME), or make one in the database (`token create NAME --scope admin`)"
    )]
    Open { address: SocketAddr },
    /// The system refuses.
    #[error("cannot listen on {address}: {error}; choose another address, or end the program that uses it")]
    Io { address: SocketAddr, error: std::io::Error },
}

#[must_use]
pub fn is_reachable(address: SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}

pub async fn bind(address: SocketAddr, has_token: bool) -> Result<TcpListener, BindError> {
    if is_reachable(address) && !has_token {
        return Err(BindError::Open { address });
    }
    TcpListener::bind(address).await.map_err(|error| BindError::Io { address, error })
}

/// Finishes open requests after `stop`, for `within` at most; false if that was too short.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    stop: impl Future<Output = ()>,
    within: Duration,
) -> bool {
    serve_bounded(listener, router, stop, within, CONNECTIONS_MAX, LOOK_EVERY).await
}

async fn serve_bounded(
    listener: TcpListener,
    router: Router,
    stop: impl Future<Output = ()>,
    within: Duration,
    connections_max: usize,
    look_every: Duration,
) -> bool {
    let open = Arc::new(Open::default());
    tokio::select! {
        in_order = answer_all(listener, router, stop, within, connections_max, look_every, &open) => in_order,
        () = open.watch_connections(look_every) => false,
    }
}

async fn answer_all(
    listener: TcpListener,
    router: Router,
    stop: impl Future<Output = ()>,
    within: Duration,
    connections_max: usize,
    look_every: Duration,
    open: &Arc<Open>,
) -> bool {
    let connections = Arc::new(Semaphore::new(connections_max));
    let (stopping, stops) = watch::channel(());
    let mut stop = std::pin::pin!(stop);
    let server = bounded_server();
    let mut failing = false;
    loop {
        let accept = async {
            let (stream, _) = listener.accept().await?;
            Ok::<_, std::io::Error>((open.permit(&connections, look_every).await, stream))
        };
        let (permit, stream) = tokio::select! {
            accepted = accept => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // One line for each series of failures.
                    if !failing {
                        warn!(%error, "cannot accept connections; trying again");
                    }
                    failing = true;
                    pause(ACCEPT_AGAIN).await;
                    continue;
                }
            },
            () = &mut stop => break,
        };
        failing = false;
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%error, "cannot set TCP_NODELAY; small answers may be delayed");
        }
        let entry = open.enter();
        let (router, state) = (TowerToHyperService::new(router.clone()), Arc::clone(&entry.state));
        let answer = service_fn(move |request| state.answer(router.call(state.paced(request))));
        let connection = server.serve_connection(TokioIo::new(stream), answer);
        let stops = stops.clone();
        tokio::spawn(async move {
            answer_one(connection, &entry.state, stops).await;
            drop((entry, permit));
        });
    }
    drop((listener, stops));
    open.is_stopping.store(true, Ordering::Relaxed);
    stopping.send_replace(());
    timeout(within, stopping.closed()).await.is_ok()
}

/// Once told to close, or when the server stops, it accepts no further request.
async fn answer_one(
    connection: impl GracefulConnection<Error = hyper::Error>,
    state: &State,
    mut stops: watch::Receiver<()>,
) {
    let mut connection = std::pin::pin!(connection);
    let mut is_last = false;
    loop {
        tokio::select! {
            // No request is dropped unread.
            biased;
            ended = &mut connection => {
                if let Err(error) = ended {
                    debug!(%error, "a connection ended early");
                }
                return;
            }
            () = state.close_requested() => if state.closes_at_once() {
                debug!("closed an idle or unread connection");
                return;
            },
            _ = stops.changed(), if !is_last => {}
        }
        is_last = true;
        connection.as_mut().graceful_shutdown();
    }
}

fn bounded_server() -> http1::Builder {
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME_MAX);
    server.max_buf_size(HEAD_BYTES_MAX).max_headers(HEADERS_MAX);
    server
}

#[derive(Default)]
struct Open {
    connections: Mutex<(u64, BTreeMap<u64, Arc<State>>)>,
    is_stopping: AtomicBool,
    rested: Arc<Notify>,
}

impl Open {
    fn lock(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, Arc<State>>)> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(self: &Arc<Self>) -> Entry {
        let mut open = self.lock();
        open.0 += 1;
        let number = open.0;
        let state = State::new(Arc::clone(&self.rested));
        open.1.insert(number, Arc::clone(&state));
        Entry { open: Arc::clone(self), number, state }
    }

    /// Busy connections cannot lock out new ones (see [`CONNECTIONS_MAX`]).
    async fn permit(
        &self,
        connections: &Arc<Semaphore>,
        look_every: Duration,
    ) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(connections).try_acquire_owned() {
            return Some(permit);
        }
        self.close_the_oldest_idle(true);
        let mut permit = std::pin::pin!(Arc::clone(connections).acquire_owned());
        let mut looks = interval(look_every);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Skips the immediate first tick.
        looks.reset();
        loop {
            tokio::select! {
                biased;
                permit = &mut permit => return permit.ok(),
                _ = looks.tick() => self.close_the_oldest_idle(true),
                () = self.rested.notified() => self.close_the_oldest_idle(false),
            }
        }
    }

    /// Endless heads, slow bodies and, if `or_unread`, unread answers must not lock out others, such as health
    /// checks.
    fn close_the_oldest_idle(&self, or_unread: bool) {
        let open = self.lock();
        let mut states = open.1.values();
        let is_one_told = states.clone().any(|state| state.is_told())
            || states.clone().any(|state| state.request_close(false));
        if or_unread && !is_one_told {
            // `max_by_key` takes the last of equals: reversed, the oldest.
            let slowest =
                states.clone().rev().filter(|state| state.is_slow()).max_by_key(|state| state.behind());
            if !slowest.is_some_and(|state| state.request_close_if_slow()) {
                states.any(|state| state.request_close(true));
            }
        }
    }

    /// Slow bodies and unread answers would stay for ever and hold up a stop.
    async fn watch_connections(&self, look_every: Duration) {
        let mut looks = interval(look_every);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            let is_stopping = self.is_stopping.load(Ordering::Relaxed);
            let looks_max = if is_stopping { LOOKS_MAX_AT_STOP } else { LOOKS_MAX };
            for state in self.lock().1.values() {
                state.check_body();
                if state.is_unread(looks_max) {
                    state.request_close(true);
                }
            }
        }
    }
}

struct Entry {
    open: Arc<Open>,
    number: u64,
    state: Arc<State>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.open.lock().1.remove(&self.number);
    }
}

async fn pause(length: Duration) {
    let mut ticks = interval(length);
    // Skips the immediate first tick.
    ticks.tick().await;
    ticks.tick().await;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use axum::body::{Body, Bytes};
    use axum::response::IntoResponse as _;
    use axum::routing::{get, post};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::sync::{mpsc, oneshot};

    use super::*;

    const LENGTH: usize = 64 << 20;

    #[tokio::test]
    async fn at_the_bound_the_oldest_half_a_head_makes_room_and_later_ones_stay() {
        const MAX: usize = 3;
        let listener = bind("127.0.0.1:0".parse().unwrap(), false).await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(|| async { "well" }));
        let never = std::future::pending();
        let server = tokio::spawn(serve_bounded(listener, router, never, Duration::ZERO, MAX, LOOK_EVERY));
        let mut halves = Vec::new();
        for _ in 0..MAX {
            let mut half = TcpStream::connect(address).await.unwrap();
            half.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n").await.unwrap();
            halves.push(half);
        }
        let mut late = TcpStream::connect(address).await.unwrap();
        late.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        late.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("well"), "{answer}");
        let mut oldest = halves.remove(0);
        assert!(matches!(oldest.read(&mut [0; 100]).await, Ok(0) | Err(_)), "it is closed");
        for mut half in halves {
            half.write_all(b"connection: close\r\n\r\n").await.unwrap();
            let mut answer = String::new();
            half.read_to_string(&mut answer).await.unwrap();
            assert!(answer.ends_with("well"), "{answer}");
        }
        server.abort();
    }

    #[tokio::test]
    async fn at_the_bound_whoever_still_reads_an_answer_stays_while_somebody_else_is_at_rest() {
        let listener = bind("127.0.0.1:0".parse().unwrap(), false).await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new()
            .route("/", get(|| async { "well" }))
            .route("/long", get(|| async { Bytes::from(vec![b'x'; LENGTH]) }));
        let never = std::future::pending();
        let server = tokio::spawn(serve_bounded(listener, router, never, Duration::ZERO, 2, LOOK_EVERY));
        let begin = async |text: &str| {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(format!("GET {text}").as_bytes()).await.unwrap();
            stream
        };
        let mut reads = begin("/long HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await;
        reads.read_exact(&mut [0]).await.unwrap();
        let mut rests = begin("/ HTTP/1.1\r\n").await;
        let mut late = begin("/ HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await;
        let mut answer = String::new();
        late.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("well"), "{answer}");
        assert!(matches!(rests.read(&mut [0; 100]).await, Ok(0) | Err(_)), "it made room");
        let mut rest = Vec::new();
        reads.read_to_end(&mut rest).await.unwrap();
        assert!(rest.len() > LENGTH, "{} bytes", rest.len());
        server.abort();
    }

    async fn send_second_request(stream: &mut TcpStream) -> bool {
        let request = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
        stream.write_all(request).await.is_ok() && read_answer(stream).await
    }

    async fn read_answer(stream: &mut TcpStream) -> bool {
        let mut answer = Vec::new();
        while !answer.ends_with(b"well") {
            match stream.read_buf(&mut answer).await {
                Ok(0) | Err(_) => return false,
                Ok(_) => {}
            }
        }
        true
    }

    #[tokio::test]
    async fn at_the_bound_whoever_goes_on_asking_does_not_keep_others_out() {
        let (begun, mut told) = mpsc::unbounded_channel();
        let release = Arc::new(Notify::new());
        let released = Arc::clone(&release);
        let slow = async move || {
            let _ = begun.send(());
            released.notified().await;
            "well"
        };
        let listener = bind("127.0.0.1:0".parse().unwrap(), false).await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/slow", get(slow)).route("/", get(|| async { "well" }));
        // Checks once, and then only after a connection comes to rest.
        let (never, seldom) = (std::future::pending(), Duration::from_secs(24 * 60 * 60));
        let server = tokio::spawn(serve_bounded(listener, router, never, Duration::ZERO, 1, seldom));
        let mut asks = TcpStream::connect(address).await.unwrap();
        asks.write_all(b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        told.recv().await.unwrap();
        let mut late = TcpStream::connect(address).await.unwrap();
        // The server shares this thread, and accepts the late connection now.
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        release.notify_one();
        let goes_on = async {
            assert!(read_answer(&mut asks).await, "the slow answer is whole");
            for _ in 0..1_000 {
                if !send_second_request(&mut asks).await {
                    return std::future::pending::<()>().await;
                }
            }
        };
        tokio::select! {
            is_answered = send_second_request(&mut late) => assert!(is_answered),
            () = goes_on => panic!("a thousand answers to one, and none to the other"),
        }
        server.abort();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn at_the_bound_every_request_that_has_begun_is_answered() {
        const ROUNDS: usize = 1_000;
        let begun = Arc::new(AtomicU32::new(0));
        let counts = Arc::clone(&begun);
        let counted = async move || {
            counts.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            "well"
        };
        let listener = bind("127.0.0.1:0".parse().unwrap(), false).await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(counted));
        let never = std::future::pending();
        let server = tokio::spawn(serve_bounded(listener, router, never, Duration::ZERO, 1, LOOK_EVERY));
        let is_over = AtomicBool::new(false);
        let goes_on = async {
            let mut answered = 0;
            while !is_over.load(Ordering::Relaxed) {
                let mut stream = TcpStream::connect(address).await.unwrap();
                while !is_over.load(Ordering::Relaxed) && send_second_request(&mut stream).await {
                    answered += 1;
                }
            }
            answered
        };
        let others = async {
            let mut answered = 0;
            for _ in 0..ROUNDS {
                answered +=
                    u32::from(send_second_request(&mut TcpStream::connect(address).await.unwrap()).await);
            }
            is_over.store(true, Ordering::Relaxed);
            answered
        };
        let (one, other) = tokio::join!(goes_on, others);
        assert_eq!(begun.load(Ordering::Relaxed), one + other);
        server.abort();
    }

    struct Long {
        bytes: Vec<u8>,
        dropped: mpsc::UnboundedSender<()>,
    }

    impl AsRef<[u8]> for Long {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }

    impl Drop for Long {
        fn drop(&mut self) {
            let _ = self.dropped.send(());
        }
    }

    async fn send_without_reading(address: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        stream.read_exact(&mut [0]).await.unwrap();
        stream
    }

    #[tokio::test]
    async fn an_answer_that_nobody_reads_is_given_up() {
        let (dropped, mut told) = mpsc::unbounded_channel();
        let long =
            async move || Bytes::from_owner(Long { bytes: vec![b'x'; LENGTH], dropped: dropped.clone() });
        let listener = bind("127.0.0.1:0".parse().unwrap(), false).await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(long));
        let (never, often) = (std::future::pending(), Duration::from_millis(1));
        let server = tokio::spawn(serve_bounded(listener, router, never, Duration::ZERO, 2, often));
        let unread = send_without_reading(address).await;
        timeout(Duration::from_secs(60), told.recv()).await.unwrap().unwrap();
        drop(unread);
        server.abort();
    }

    #[tokio::test]
    async fn a_server_that_is_to_stop_does_not_wait_for_who_does_not_read() {
        let listener = bind("127.0.0.1:0".parse().unwrap(), false).await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(|| async { Bytes::from(vec![b'x'; LENGTH]) }));
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async { drop(stopped.await) };
        // Shorter than the limit for unread answers.
        let within = LOOK_EVERY * (LOOKS_MAX / 2);
        let server = tokio::spawn(serve_bounded(listener, router, stopped, within, 2, LOOK_EVERY));
        let unread = send_without_reading(address).await;
        stop.send(()).unwrap();
        assert!(server.await.unwrap(), "in order");
        drop(unread);
    }

    async fn begin_body(address: SocketAddr) -> TcpStream {
        let head = "POST / HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 10\r\n\r\n";
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut goes_on = [0; 25];
        stream.read_exact(&mut goes_on).await.unwrap();
        assert_eq!(&goes_on, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream.write_all(b"123456789").await.unwrap();
        stream
    }

    fn reading() -> Router {
        let well = async |body: Body| match crate::api::input::bytes(body, 10).await {
            Ok(_) => "well".into_response(),
            Err(problem) => problem.into_response(),
        };
        Router::new().route("/", post(well).get(|| async { "well" }))
    }

    #[tokio::test]
    async fn at_the_bound_the_slowest_body_makes_room_and_the_others_stay() {
        const MAX: usize = 3;
        let listener = bind("127.0.0.1:0".parse().unwrap(), false).await.unwrap();
        let address = listener.local_addr().unwrap();
        let never = std::future::pending();
        let server = tokio::spawn(serve_bounded(listener, reading(), never, Duration::ZERO, MAX, LOOK_EVERY));
        let mut slow = Vec::new();
        for _ in 0..MAX {
            slow.push(begin_body(address).await);
        }
        let mut late = TcpStream::connect(address).await.unwrap();
        assert!(send_second_request(&mut late).await);
        drop(late);
        let mut slowest = slow.remove(0);
        assert!(matches!(slowest.read(&mut [0; 100]).await, Ok(0) | Err(_)), "it is closed");
        for mut other in slow {
            other.write_all(b"0").await.unwrap();
            assert!(read_answer(&mut other).await);
        }
        server.abort();
    }

    #[tokio::test]
    async fn a_body_that_comes_too_slowly_is_refused() {
        let listener = bind("127.0.0.1:0".parse().unwrap(), false).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (never, often) = (std::future::pending(), Duration::from_millis(1));
        let server = tokio::spawn(serve_bounded(listener, reading(), never, Duration::ZERO, 2, often));
        let mut slow = begin_body(address).await;
        let mut answer = String::new();
        slow.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("body_too_slow"), "{answer}");
        server.abort();
    }
}
