//! Bounds connections and heads, and stops in order.

mod open;
mod receive;
mod stall;

use std::convert::Infallible;
use std::future::Future;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{interval, timeout};
use tower::{Service, ServiceExt as _};
use tracing::{debug, warn};

pub use receive::{EffectsService, Receive};

use crate::answer::{closing, method_not_allowed, text};
use open::{Answer, Open};
use stall::Stall;

/// The pause after a failed accept, most likely for lack of file descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
const BIND_AGAIN: Duration = Duration::from_millis(20);
const HEADERS_MAX: usize = 100;

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most connections. Beyond it, the oldest without a request under way is closed, or the new one
    /// waits.
    pub connections: usize,
    /// The longest head in bytes, at least 8,192. Beyond it, the answer is 431.
    pub head_bytes: usize,
    /// The time limit of a head, of rest between two requests, and of an unread answer.
    pub head_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        // Refuses a header of 32 kB, and allows five hundred signatures of 48 bytes.
        Self { connections: 1_024, head_bytes: 30 << 10, head_time: Duration::from_secs(10) }
    }
}

/// Waits up to `within` for an address in use.
pub async fn bind(address: SocketAddr, within: Duration) -> Result<TcpListener, BindError> {
    let mut ticks = interval(BIND_AGAIN);
    let free = async {
        loop {
            ticks.tick().await;
            match TcpListener::bind(address).await {
                Err(error) if error.kind() == ErrorKind::AddrInUse => {}
                other => return other,
            }
        }
    };
    let bound = timeout(within, free).await;
    // After the timeout, the system's own error counts.
    let bound = if let Ok(bound) = bound { bound } else { TcpListener::bind(address).await };
    bound.map_err(|error| BindError { address, error })
}

#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {error}; choose another address, or end the program that uses it")]
pub struct BindError {
    address: SocketAddr,
    error: std::io::Error,
}

/// Finishes open requests after `stop`, for `within` at most; false if that was too short.
pub async fn serve<S>(
    listener: TcpListener,
    service: S,
    limits: Limits,
    stop: impl Future<Output = ()>,
    within: Duration,
) -> bool
where
    S: Service<Request<Incoming>, Response = Response<Full<Bytes>>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let open = Open::new(limits.connections);
    let graceful = GracefulShutdown::new();
    let mut stop = std::pin::pin!(stop);
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(limits.head_time);
    server.max_buf_size(limits.head_bytes).max_headers(HEADERS_MAX).half_close(true);
    loop {
        let next = async {
            let stream = accept(&listener).await;
            (stream, open.enter().await)
        };
        let (stream, entry) = tokio::select! {
            next = next => next,
            () = &mut stop => break,
        };
        let (service, requests) = (service.clone(), entry.requests());
        let bounded = service_fn(move |request| {
            let under_way = requests.begin();
            let answer = answer(service.clone(), request, limits.head_bytes);
            async move { answer.await.map(|answer| answer.map(|body| Answer { body, _under_way: under_way })) }
        });
        let connection = server.serve_connection(TokioIo::new(Stall::new(stream, limits.head_time)), bounded);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            tokio::select! {
                ended = connection => if let Err(error) = ended {
                    debug!(%error, "a connection ended early");
                },
                () = entry.is_told_to_close() => debug!("closed an idle connection to make room for another"),
            }
            drop(entry);
        });
    }
    drop(listener);
    timeout(within, graceful.shutdown()).await.is_ok()
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if let Err(error) = stream.set_nodelay(true) {
                    debug!(%error, "cannot set TCP_NODELAY; small answers may be delayed");
                }
                return stream;
            }
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                let mut ticks = interval(ACCEPT_AGAIN);
                // The first tick is immediate.
                ticks.tick().await;
                ticks.tick().await;
            }
        }
    }
}

/// The connection's buffer limit is not enough: a long head that arrives in one piece passes it.
async fn answer<S>(
    service: S,
    request: Request<Incoming>,
    head_bytes_max: usize,
) -> Result<Response<Full<Bytes>>, Infallible>
where
    S: Service<Request<Incoming>, Response = Response<Full<Bytes>>, Error = Infallible>,
{
    let headers = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    if headers.sum::<usize>() > head_bytes_max {
        let line = format!("the head is too long; expected at most {head_bytes_max} bytes");
        return Ok(closing(text(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, line)));
    }
    service.oneshot(request).await
}

pub(crate) fn asks_for_health<B>(request: &Request<B>) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD) && request.uri().path() == "/healthz"
}

pub(crate) fn health(well: bool) -> Response<Full<Bytes>> {
    if well { text(StatusCode::OK, "ok") } else { text(StatusCode::SERVICE_UNAVAILABLE, "closing") }
}

pub(crate) fn only_post() -> Response<Full<Bytes>> {
    method_not_allowed("POST")
}
