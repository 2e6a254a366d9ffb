//! Before a run, a bare client calls the same endpoints with the same body.
//!
//! The ratio of the sender's rate to this one is comparable across machines. The client uses plain HTTP on kept-alive
//! connections, one request after another; it signs, stores and decides nothing.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use hookproof_judge::scenario::{Duration, Range, SECOND};
use hookproof_judge::trace::Recorder;
use hookproof_judge::trace::{End, Ended, Header};
use hookproof_play::traffic::Tokens;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::heartbeat::EndpointThread;
use crate::clock::Clock;
use crate::endpoint::{Reach, Spec, Stage};

/// Connections over all endpoints. More are no faster on a few cores.
pub const CONNECTIONS: usize = 64;
/// A warm-up comes before.
const LASTS_NS: u64 = 2 * SECOND;
const WARM_NS: u64 = SECOND / 4;

/// Requests per second. The endpoints record as in a run.
pub async fn ceiling(specs: Vec<Spec>, body: &[u8], header: Header) -> io::Result<u64> {
    let clock = Clock::begun();
    let (recorder, writer) = Recorder::writing(io::sink())?;
    recorder.begin(header);
    let stage = Stage {
        clock: clock.clone(),
        recorder: recorder.clone(),
        tokens: Tokens::new(0),
        seed: 0,
        offered: None,
    };
    let thread = EndpointThread::start(&clock, &recorder)?;
    let specs = specs.into_iter().map(at_their_best).collect();
    let endpoints = thread.open(specs, &stage, &Reach::default(), None).await?;
    let addresses = endpoints.addresses();
    bare_client(&addresses, body, CONNECTIONS, &clock, WARM_NS).await?;
    let began = clock.now();
    let answered = bare_client(&addresses, body, CONNECTIONS, &clock, LASTS_NS).await?;
    let elapsed = clock.now().saturating_sub(began).max(1);
    endpoints.close().await;
    drop(thread);
    let end =
        End { t: clock.now(), ended: Ended::Done, dead_listed: false, late: 0, dropped: recorder.dropped() };
    // Only the end of the writer matters.
    let _ = tokio::task::spawn_blocking(move || {
        recorder.end(end);
        writer.join()
    })
    .await;
    let per_second = u128::from(answered) * u128::from(SECOND) / u128::from(elapsed);
    Ok(u64::try_from(per_second).unwrap_or(u64::MAX))
}

fn at_their_best(spec: Spec) -> Spec {
    let at_once = Range::just(Duration(0));
    Spec { behaviours: Vec::new(), answers: at_once, permission: None, ..spec }
}

/// One after another on each connection; returns the number of answers.
pub async fn bare_client(
    addresses: &[SocketAddr],
    body: &[u8],
    connections: usize,
    clock: &Clock,
    lasts_ns: u64,
) -> io::Result<u64> {
    let until = clock.now().saturating_add(lasts_ns);
    let body = Bytes::copy_from_slice(body);
    let mut clients = JoinSet::new();
    for address in addresses.iter().cycle().take(if addresses.is_empty() { 0 } else { connections }) {
        clients.spawn(client(*address, body.clone(), clock.clone(), until));
    }
    let mut answered = 0;
    while let Some(one) = clients.join_next().await {
        answered += one.map_err(io::Error::other)??;
    }
    Ok(answered)
}

async fn client(address: SocketAddr, body: Bytes, clock: Clock, until: u64) -> io::Result<u64> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut requests, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    tokio::spawn(connection);
    let host = address.to_string();
    let mut answered = 0;
    while clock.now() < until {
        let request = Request::post("/")
            .header("host", &host)
            .header("content-type", "application/json")
            .body(Full::new(body.clone()))
            .map_err(io::Error::other)?;
        let answer = requests.send_request(request).await.map_err(io::Error::other)?;
        answer.into_body().collect().await.map_err(io::Error::other)?;
        answered += 1;
    }
    Ok(answered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ceiling_is_measured_with_endpoints_that_answer_at_once() {
        let slow = "name = \"slow\"\n[[traffic]]\nshape = \"burst\"\nevents = 1\n[[subscriber]]\nname = \"a\"\n\
                    answers = \"100ms\"\n[[subscriber.behaviour]]\nanswer = 503\n";
        let subscriber =
            hookproof_judge::scenario::Scenario::from_text(slow, "slow.toml").unwrap().subscribers.remove(0);
        let spec = Spec {
            path: subscriber.path(),
            name: subscriber.name,
            behaviours: subscriber.behaviours,
            answers: subscriber.answers,
            permission: None,
            scheme: hookproof_judge::signature::Profile::GITHUB.into(),
        };
        let spec = at_their_best(spec);
        assert!(spec.behaviours.is_empty() && spec.answers.most.0 == 0, "{spec:?}");
    }
}
