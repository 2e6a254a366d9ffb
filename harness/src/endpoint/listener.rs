//! The port of an endpoint: open; closed for as long as its endpoint refuses; or open with nobody there to accept.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;

use super::choice::{Closure, Shut};
use super::{Endpoint, ShutdownSignal, connection};
use crate::trace::{ENDPOINTS, Record, Stall};

/// Connections that the kernel keeps until they are accepted. While an endpoint stalls, nobody accepts quickly.
const BACKLOG: u32 = 4_096;
/// How long until a port that could not be opened, or a connection that could not be accepted, is tried again.
const AGAIN_NS: u64 = 5_000_000;
/// And how long at most, where that fails again and again: it bounds what the trace says of it.
const AGAIN_MAX_NS: u64 = 1_000_000_000;

/// Accepts connections until the endpoints close, but for the times in which the port is to be closed.
pub(super) async fn listen(endpoint: Arc<Endpoint>, listener: TcpListener, mut tether: ShutdownSignal) {
    let (open, opened) = watch::channel(true);
    let mut listener = Some(listener);
    for Closure { from, until, shut } in endpoint.choices.closures() {
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
        let ended = tether.clone();
        tokio::select! {
            () = tether.closed() => return,
            again = closed(&endpoint, until, shut, held, ended) => listener = again,
        }
        open.send_replace(true);
    }
    let Some(listener) = listener else { return tether.closed().await };
    let mut ended = tether.clone();
    tokio::select! {
        () = ended.closed() => {}
        () = accept(&endpoint, &listener, &opened, &tether) => {}
    }
}

/// Lets nobody in until then, and opens the port again.
async fn closed(
    endpoint: &Endpoint,
    until: Option<u64>,
    shut: Shut,
    mut held: Option<TcpSocket>,
    mut tether: ShutdownSignal,
) -> Option<TcpListener> {
    let full = match shut {
        Shut::Refuses => None,
        Shut::Ignores => fill(endpoint.address, &mut held).await,
    };
    match until {
        Some(until) => endpoint.stage.clock.until(until).await,
        None => std::future::pending().await,
    }
    drop(full);
    // A socket that has listened to one peer can't listen to more: another takes its place.
    let held = match held {
        None => hold(endpoint, &mut tether).await,
        held => held,
    };
    held.and_then(|socket| socket.listen(BACKLOG).ok())
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
    tether: &ShutdownSignal,
) {
    let mut pause = AGAIN_NS;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                pause = AGAIN_NS;
                let number = endpoint.next_connection();
                let (endpoint, open) = (Arc::clone(endpoint), open.clone());
                tokio::spawn(connection::serve(endpoint, stream, number, open, tether.clone()));
            }
            // The peer is gone already; others may still come.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => {}
            // No file left, or no memory: for so long the endpoint takes nobody, which is no fault of the sender's.
            Err(_) => {
                let from = endpoint.stage.clock.now();
                endpoint.stage.clock.pass(pause).await;
                let (thread, until) = (ENDPOINTS.to_owned(), endpoint.stage.clock.now());
                endpoint.stage.recorder.keep(Record::Stall(Stall { thread, from, until }));
                pause = pause.saturating_mul(2).min(AGAIN_MAX_NS);
            }
        }
    }
}

/// Takes the port without listening on it.
async fn hold(endpoint: &Endpoint, tether: &mut ShutdownSignal) -> Option<TcpSocket> {
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

/// A port on which the kernel keeps one connection until it is accepted, and that one: further peers wait to be connected.
struct Full {
    _listener: TcpListener,
    _first: TcpStream,
}

/// Opens the port so that nobody else is let in.
async fn fill(address: SocketAddr, socket: &mut Option<TcpSocket>) -> Option<Full> {
    let listener = socket.take()?.listen(0).ok()?;
    let first = TcpStream::connect(address).await.ok()?;
    Some(Full { _listener: listener, _first: first })
}
