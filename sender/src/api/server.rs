//! Where to listen, and what a connection may do: how many there are, how long a head may be and take.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{interval, timeout};
use tracing::{debug, warn};

use super::Token;

/// Connections at a time; the next ones wait to be accepted.
const CONNECTIONS_MAX: usize = 1_024;
/// The longest head of a request, in bytes, and the most headers in it.
const HEAD_BYTES_MAX: usize = 32 << 10;
const HEADERS_MAX: usize = 64;
/// How long a head may take, and a connection may rest between two requests.
const HEAD_TIME_MAX: Duration = Duration::from_secs(30);
/// How long to wait after a failure to accept: out of file handles, most likely, and trying at once does not help.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// It is not possible, or not wise, to listen there.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Others could reach it, and nothing keeps them out.
    #[error(
        "{address} can be reached from other machines, and no token is set; set one, or listen on 127.0.0.1"
    )]
    Open {
        /// Where.
        address: SocketAddr,
    },
    /// The system refuses.
    #[error("can't listen on {address}: {error}; choose another address, or end what listens there")]
    Io {
        /// Where.
        address: SocketAddr,
        /// Why.
        error: std::io::Error,
    },
}

/// Listens: on loopback, or anywhere if there is a token.
///
/// # Errors
/// When the address can be reached from elsewhere and there is no token, or it cannot be had.
pub async fn bind(address: SocketAddr, token: Option<&Token>) -> Result<TcpListener, BindError> {
    if token.is_none() && !address.ip().to_canonical().is_loopback() {
        return Err(BindError::Open { address });
    }
    TcpListener::bind(address).await.map_err(|error| BindError::Io { address, error })
}

/// Answers until `stop` is done; then finishes what is under way, for `within` at most. False if that was too short.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    stop: impl Future<Output = ()>,
    within: Duration,
) -> bool {
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let graceful = GracefulShutdown::new();
    let mut stop = std::pin::pin!(stop);
    let mut failing = false;
    loop {
        let accept = async {
            // Never closed, so there is always a permit in the end.
            let permit = Arc::clone(&connections).acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, stream) = tokio::select! {
            accepted = accept => match accepted {
                (permit, Ok((stream, _))) => (permit, stream),
                (_, Err(error)) => {
                    // Once, for as long as it lasts.
                    if !failing {
                        warn!(%error, "can't accept connections; trying on");
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
            debug!(%error, "can't send small answers at once");
        }
        let mut server = http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME_MAX);
        server.max_buf_size(HEAD_BYTES_MAX).max_headers(HEADERS_MAX);
        let connection =
            server.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router.clone()));
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                debug!(%error, "a connection ended early");
            }
            drop(permit);
        });
    }
    drop(listener);
    timeout(within, graceful.shutdown()).await.is_ok()
}

async fn pause(length: Duration) {
    let mut ticks = interval(length);
    // The first tick is at once.
    ticks.tick().await;
    ticks.tick().await;
}
