//! The port of an endpoint: open, or closed for as long as its endpoint refuses.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;

use super::{Endpoint, Tether, connection};

/// Connections that the kernel keeps until they are accepted. While an endpoint stalls, nobody accepts quickly.
const BACKLOG: u32 = 4_096;
/// How long until a port that could not be opened is tried again.
const AGAIN_NS: u64 = 5_000_000;

/// Accepts connections until the endpoints close, but for the times in which the port is to be closed.
pub(super) async fn listen(endpoint: Arc<Endpoint>, listener: TcpListener, mut tether: Tether) {
    let (open, opened) = watch::channel(true);
    let mut listener = Some(listener);
    for (from, until) in endpoint.choices.refusals() {
        if let Some(listener) = listener.take() {
            let mut ended = tether.clone();
            tokio::select! {
                () = ended.closed() => return,
                () = accept(&endpoint, &listener, &opened, &tether) => {}
                () = begun_until(&endpoint, from) => {}
            }
        }
        // A socket that is bound but doesn't listen keeps the port ours, and refuses.
        let held = hold(&endpoint, &mut tether).await;
        open.send_replace(false);
        let Some(until) = until else { return tether.closed().await };
        tokio::select! {
            () = tether.closed() => return,
            () = endpoint.stage.clock.until(until) => {}
        }
        listener = held.and_then(|socket| socket.listen(BACKLOG).ok());
        open.send_replace(true);
    }
    let Some(listener) = listener else { return tether.closed().await };
    let mut ended = tether.clone();
    tokio::select! {
        () = ended.closed() => {}
        () = accept(&endpoint, &listener, &opened, &tether) => {}
    }
}

/// Waits until a moment of the run, which may not have begun yet.
async fn begun_until(endpoint: &Endpoint, at: u64) {
    const LOOK_NS: u64 = 1_000_000;
    while endpoint.stage.clock.now() == 0 && at > 0 {
        endpoint.stage.clock.pass(LOOK_NS).await;
    }
    endpoint.stage.clock.until(at).await;
}

async fn accept(
    endpoint: &Arc<Endpoint>,
    listener: &TcpListener,
    open: &watch::Receiver<bool>,
    tether: &Tether,
) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let number = endpoint.next_connection();
                let (endpoint, open) = (Arc::clone(endpoint), open.clone());
                tokio::spawn(connection::serve(endpoint, stream, number, open, tether.clone()));
            }
            // No file left, or the peer gone already: others may still come.
            Err(_) => endpoint.stage.clock.pass(AGAIN_NS).await,
        }
    }
}

/// Takes the port without listening on it.
async fn hold(endpoint: &Endpoint, tether: &mut Tether) -> Option<TcpSocket> {
    loop {
        match bind(endpoint.address) {
            Ok(socket) => return Some(socket),
            Err(_) => tokio::select! {
                () = tether.closed() => return None,
                () = endpoint.stage.clock.pass(AGAIN_NS) => {}
            },
        }
    }
}

fn bind(address: SocketAddr) -> std::io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}
