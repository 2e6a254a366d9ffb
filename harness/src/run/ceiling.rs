//! What the machine itself can do: a bare client to the same endpoints with the same bodies, before the run.
//!
//! The sender's rate over this one means the same on any machine. The client does what any must (connections that are kept,
//! one request after another on each) and nothing else: it signs nothing, stores nothing and decides nothing.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::{Clock, Recorder};
use crate::endpoint::{Endpoints, Spec, Stage};
use crate::scenario::SECOND;
use crate::trace::{End, Ended, Header};
use crate::traffic::Tokens;

/// Connections of the bare client, over all endpoints. More don't make it faster where a few cores do all the work.
pub const CONNECTIONS: usize = 64;
/// How long it is measured, after a while to warm up.
const LASTS_NS: u64 = 2 * SECOND;
const WARM_NS: u64 = SECOND / 4;

/// Requests a second that a bare client gets answered by such endpoints, which record as in a run.
pub async fn ceiling(specs: Vec<Spec>, body: &[u8], header: Header) -> io::Result<u64> {
    let clock = Clock::begun();
    let (recorder, writer) = Recorder::writing(io::sink())?;
    recorder.begin(header);
    let stage = Stage { clock: clock.clone(), recorder: recorder.clone(), tokens: Tokens::new(0), seed: 0 };
    let endpoints = Endpoints::open(specs, &stage).await?;
    let addresses = endpoints.addresses();
    bare_client(&addresses, body, CONNECTIONS, &clock, WARM_NS).await?;
    let began = clock.now();
    let answered = bare_client(&addresses, body, CONNECTIONS, &clock, LASTS_NS).await?;
    let elapsed = clock.now().saturating_sub(began).max(1);
    endpoints.close().await;
    let end =
        End { t: clock.now(), ended: Ended::Done, dead_listed: false, late: 0, dropped: recorder.dropped() };
    // What the writer says of a sink is of no interest; that it has ended is.
    let _ = tokio::task::spawn_blocking(move || {
        recorder.end(end);
        writer.join()
    })
    .await;
    let per_second = u128::from(answered) * u128::from(SECOND) / u128::from(elapsed);
    Ok(u64::try_from(per_second).unwrap_or(u64::MAX))
}

/// Sends requests over so many connections, one after another on each, for so long; answers how many were answered.
pub async fn bare_client(
    addresses: &[SocketAddr],
    body: &[u8],
    connections: usize,
    clock: &Clock,
    lasts_ns: u64,
) -> io::Result<u64> {
    let until = clock.now().saturating_add(lasts_ns);
    let mut clients = JoinSet::new();
    for address in addresses.iter().cycle().take(if addresses.is_empty() { 0 } else { connections }) {
        let head = format!(
            "POST / HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let request = [head.as_bytes(), body].concat();
        clients.spawn(client(*address, request, clock.clone(), until));
    }
    let mut answered = 0;
    while let Some(one) = clients.join_next().await {
        answered += one.map_err(io::Error::other)??;
    }
    Ok(answered)
}

async fn client(address: SocketAddr, request: Vec<u8>, clock: Clock, until: u64) -> io::Result<u64> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut answered, mut buffer) = (0, vec![0; 4 << 10]);
    while clock.now() < until {
        stream.write_all(&request).await?;
        // An endpoint that behaves answers 204: the end of its head is its end.
        let mut read = 0;
        while !buffer[..read].ends_with(b"\r\n\r\n") {
            match stream.read(&mut buffer[read..]).await? {
                0 => {
                    return Err(io::Error::other(
                        "the endpoint closed the connection, or answered at length",
                    ));
                }
                more => read += more,
            }
        }
        answered += 1;
    }
    Ok(answered)
}
