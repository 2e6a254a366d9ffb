//! The port of an endpoint: open, closed, or open without accepting. A shared port is always open.

use std::net::SocketAddr;
use std::sync::Arc;

use hookproof_judge::trace::{ENDPOINTS, Record, Stall};
use hookproof_play::endpoint::{Closure, Shut};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;

use super::port::Port;
use super::{ShutdownSignal, connection};

/// The kernel's backlog: a stalling endpoint accepts slowly.
const BACKLOG: u32 = 4_096;
const AGAIN_NS: u64 = 5_000_000;
/// The longest pause after repeated failures; it bounds the records of them.
const AGAIN_MAX_NS: u64 = 1_000_000_000;

pub(super) async fn listen(port: Arc<Port>, listener: TcpListener, mut tether: ShutdownSignal) {
    let (open, opened) = watch::channel(true);
    let mut listener = Some(listener);
    let closures = port.alone().map(|endpoint| endpoint.choices.closures());
    for Closure { from, until, shut } in closures.unwrap_or_default() {
        if let Some(listener) = listener.take() {
            let mut ended = tether.clone();
            tokio::select! {
                () = ended.closed() => return,
                () = accept(&port, &listener, &opened, &tether) => {}
                () = port.begun_until(from) => {}
            }
        }
        // A bound socket that does not listen reserves the port, and refuses.
        let Some(held) = hold(&port, &mut tether).await else { return };
        open.send_replace(false);
        let ended = tether.clone();
        tokio::select! {
            () = tether.closed() => return,
            again = closed(&port, until, shut, held, ended) => listener = again,
        }
        open.send_replace(true);
    }
    let Some(listener) = listener else { return tether.closed().await };
    let mut ended = tether.clone();
    tokio::select! {
        () = ended.closed() => {}
        () = accept(&port, &listener, &opened, &tether) => {}
    }
}

async fn closed(
    port: &Port,
    until: Option<u64>,
    shut: Shut,
    held: TcpSocket,
    mut tether: ShutdownSignal,
) -> Option<TcpListener> {
    let over = async {
        match until {
            Some(until) => port.stage.clock.until(until).await,
            None => std::future::pending().await,
        }
    };
    let held = match shut {
        Shut::Refuses => {
            over.await;
            held
        }
        Shut::Ignores => {
            tokio::select! {
                () = over => {}
                () = fill(port.address, held) => {}
            }
            // A socket that has listened with a backlog of 0 can't be reused; a new one takes its place.
            hold(port, &mut tether).await?
        }
    };
    held.listen(BACKLOG).ok()
}

async fn accept(
    port: &Arc<Port>,
    listener: &TcpListener,
    open: &watch::Receiver<bool>,
    tether: &ShutdownSignal,
) {
    let mut pause = AGAIN_NS;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                pause = AGAIN_NS;
                let number = port.next_connection();
                let (port, open) = (Arc::clone(port), open.clone());
                tokio::spawn(connection::serve(port, stream, number, open, tether.clone()));
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => {}
            // No file descriptor or memory: not the sender's fault.
            Err(_) => {
                let from = port.stage.clock.now();
                port.stage.clock.pass(pause).await;
                let (thread, until) = (ENDPOINTS.to_owned(), port.stage.clock.now());
                port.stage.recorder.record(Record::Stall(Stall { thread, from, until }));
                pause = pause.saturating_mul(2).min(AGAIN_MAX_NS);
            }
        }
    }
}

async fn hold(port: &Port, tether: &mut ShutdownSignal) -> Option<TcpSocket> {
    loop {
        match bind(port.address) {
            Ok(socket) => return Some(socket),
            Err(_) => tokio::select! {
                () = tether.closed() => return None,
                () = port.stage.clock.pass(AGAIN_NS) => {}
            },
        }
    }
}

fn bind(address: SocketAddr) -> std::io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// The kernel completes one connection, our own or an earlier peer's, and leaves further peers unconnected.
async fn fill(address: SocketAddr, socket: TcpSocket) {
    let _listener = socket.listen(0);
    let _first = TcpStream::connect(address).await;
    std::future::pending::<()>().await;
}

#[cfg(test)]
mod tests {
    use hookproof_judge::scenario::{Duration, Range};
    use hookproof_judge::signature::Profile;
    use hookproof_judge::trace::Recorder;
    use hookproof_play::traffic::Tokens;
    use tokio::sync::mpsc;

    use super::*;
    use crate::clock::Clock;
    use crate::endpoint::Strays;
    use crate::endpoint::port::Behind;
    use crate::endpoint::{Endpoint, Spec, Stage};

    fn port(address: SocketAddr) -> Port {
        let (recorder, _records) = Recorder::new(10);
        let stage = Stage { clock: Clock::begun(), recorder, tokens: Tokens::new(0), seed: 1, offered: None };
        let spec = Spec {
            name: "a".to_owned(),
            path: "/".to_owned(),
            behaviours: Vec::new(),
            answers: Range::just(Duration(0)),
            permission: None,
            scheme: Profile::GITHUB.into(),
        };
        let endpoint = Arc::new(Endpoint::new(spec, 0, String::new(), &stage));
        let strays = Arc::new(Strays::new(stage.clock.clone(), stage.recorder.clone()));
        Port::new((address, Behind::One(endpoint)), None, &stage, &strays, &Arc::default())
    }

    #[tokio::test]
    async fn a_port_whose_only_place_a_peer_took_is_open_again_in_time() {
        const UNTIL: u64 = 50_000_000;
        let held = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = held.local_addr().unwrap();
        let port = port(address);
        // A peer that comes before the harness's own connection.
        rustix::net::listen(&held, 0).unwrap();
        let _peer = TcpStream::connect(address).await.unwrap();
        let (_closing, closing) = watch::channel(false);
        let tether = ShutdownSignal { closing, _alive: mpsc::channel(1).0 };
        let clock = port.stage.clock.clone();
        let again = tokio::select! {
            again = closed(&port, Some(UNTIL), Shut::Ignores, held, tether) => again,
            () = clock.pass(20_000_000_000) => panic!("it waits for its own connection"),
        };
        assert!(again.is_some() && clock.now() >= UNTIL);
        TcpStream::connect(address).await.unwrap();
    }
}
