//! Writes given bytes and reads the answer; nothing is repeated.
//!
//! A receiver may answer before it has read everything, so writing and reading overlap. A write error is no verdict,
//! since an answer may have come before it.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout, timeout_at};
use tokio_rustls::TlsConnector;

use super::answer::{Answer, Progress, continues, read};
use super::clock::Watch;
use super::request::Target;

pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

#[derive(Clone, Debug)]
pub enum Feed {
    /// These bytes, at once.
    Whole(Vec<u8>),
    /// The first bytes at once, then the others one by one at this interval.
    Slow(Vec<u8>, Vec<u8>, Duration),
    /// The first bytes, then the second ones repeatedly, up to this total.
    Endless(Vec<u8>, Vec<u8>, u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Answer(Answer),
    /// The connection closed or was reset before a whole answer.
    Closed,
    /// Neither an answer nor an end in time.
    Silent,
    Unreachable(String),
    Malformed(String),
}

#[derive(Clone, Debug)]
pub struct Exchange {
    pub outcome: Outcome,
    /// Its length from the connection on.
    pub took: Duration,
    pub written: u64,
}

pub async fn connect(target: &Target, addresses: &[SocketAddr]) -> std::io::Result<Box<dyn Stream>> {
    let stream = TcpStream::connect(addresses).await?;
    // Each byte must stay a packet of its own.
    stream.set_nodelay(true)?;
    if !target.tls {
        return Ok(Box::new(stream));
    }
    let name = ServerName::try_from(target.host.clone()).map_err(std::io::Error::other)?;
    Ok(Box::new(TLS.connect(name, stream).await?))
}

/// The public roots; other certificates are refused, as senders do.
static TLS: LazyLock<TlsConnector> = LazyLock::new(|| {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    TlsConnector::from(Arc::new(config))
});

/// Sends on a connection of its own, or to a new process, and waits up to this limit.
pub async fn exchange(target: &Target, addresses: &[SocketAddr], feed: &Feed, limit: Duration) -> Exchange {
    if let Some(command) = &target.command {
        return super::command::exchange(command, feed, limit).await;
    }
    let until = Watch::start().moment(limit);
    let stream = match opened(target, addresses, limit).await {
        Ok(stream) => stream,
        Err(unreachable) => return unreachable,
    };
    let watch = Watch::start();
    let (mut reader, mut writer) = tokio::io::split(stream);
    let (mut written, mut came) = (0, Vec::new());
    let both = async {
        // A write error ends only the writing.
        let writing = async {
            let _ended = write(&mut writer, feed, &mut written).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            outcome = read_answer(&mut reader, &mut came) => outcome,
            () = writing => Outcome::Silent,
        }
    };
    let outcome = timeout_at(until, both).await.unwrap_or(Outcome::Silent);
    Exchange { outcome, took: watch.passed(), written }
}

/// How long a server that has answered may take for the rest of the request.
const READ_ON: Duration = Duration::from_secs(2);

/// Sends each request after the previous answer, within this total time. Returns early if the connection closes, or
/// if the server does not read the rest of a request that it has answered.
pub async fn succession(
    target: &Target,
    addresses: &[SocketAddr],
    requests: &[Vec<u8>],
    limit: Duration,
) -> Vec<Exchange> {
    let until = Watch::start().moment(limit);
    let mut exchanges = Vec::new();
    let stream = match opened(target, addresses, limit).await {
        Ok(stream) => stream,
        Err(unreachable) => return vec![unreachable],
    };
    let (mut reader, mut writer) = tokio::io::split(stream);
    // Answers may come faster than they are asked for.
    let mut came = Vec::new();
    for request in requests {
        let (watch, mut written) = (Watch::start(), 0);
        let (outcome, is_sent) =
            answered(&mut reader, &mut writer, request, &mut written, &mut came, until).await;
        let stays = matches!(&outcome, Outcome::Answer(answer) if answer.keeps_open);
        exchanges.push(Exchange { outcome, took: watch.passed(), written });
        if !stays {
            break;
        }
        if !is_sent {
            // An answer that is there already is to a part of this request.
            if let Ok(Outcome::Answer(answer)) = timeout(READ_ON, read_answer(&mut reader, &mut came)).await {
                let outcome = Outcome::Answer(answer);
                exchanges.push(Exchange { outcome, took: watch.passed(), written: 0 });
            }
            break;
        }
    }
    exchanges
}

/// The second value: whether the whole request was sent.
async fn answered(
    reader: &mut (impl AsyncRead + Unpin),
    writer: &mut (impl AsyncWrite + Unpin),
    request: &[u8],
    written: &mut u64,
    came: &mut Vec<u8>,
    until: Instant,
) -> (Outcome, bool) {
    let (writing, answering) = (send(writer, request, written), read_answer(reader, came));
    tokio::pin!(writing, answering);
    let mut is_sent = None;
    let both = async {
        tokio::select! {
            // An answer may have come before a write error.
            done = &mut writing => {
                is_sent = Some(done.is_ok());
                answering.as_mut().await
            }
            outcome = &mut answering => outcome,
        }
    };
    let outcome = timeout_at(until, both).await.unwrap_or(Outcome::Silent);
    let is_sent = match is_sent {
        Some(is_sent) => is_sent,
        // An early answer; the rest may still be read.
        None if matches!(outcome, Outcome::Answer(_)) => {
            matches!(timeout(READ_ON, writing).await, Ok(Ok(())))
        }
        None => false,
    };
    (outcome, is_sent)
}

/// Sends a head, and the body once `100 Continue` came. The second value: whether it came. Other interim answers do not
/// ask for the body.
pub async fn expectant(
    target: &Target,
    addresses: &[SocketAddr],
    head: &[u8],
    body: &[u8],
    limit: Duration,
) -> (Exchange, bool) {
    let until = Watch::start().moment(limit);
    let mut stream = match opened(target, addresses, limit).await {
        Ok(stream) => stream,
        Err(unreachable) => return (unreachable, false),
    };
    let (watch, mut written, mut continued) = (Watch::start(), 0, false);
    let both = async {
        let _lost = send(&mut stream, head, &mut written).await;
        let mut came = Vec::new();
        while !continues(&came) {
            let ended = !matches!(stream.read_buf(&mut came).await, Ok(1..));
            if let Some(outcome) = outcome_of(&mut came, ended) {
                return outcome;
            }
        }
        continued = true;
        let _lost = send(&mut stream, body, &mut written).await;
        read_answer(&mut stream, &mut came).await
    };
    let outcome = timeout_at(until, both).await.unwrap_or(Outcome::Silent);
    (Exchange { outcome, took: watch.passed(), written }, continued)
}

async fn opened(
    target: &Target,
    addresses: &[SocketAddr],
    limit: Duration,
) -> Result<Box<dyn Stream>, Exchange> {
    let watch = Watch::start();
    let why = match timeout_at(watch.moment(limit), connect(target, addresses)).await {
        Ok(Ok(stream)) => return Ok(stream),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no connection within {limit:?}"),
    };
    Err(Exchange { outcome: Outcome::Unreachable(why), took: watch.passed(), written: 0 })
}

async fn write(
    writer: &mut (impl AsyncWrite + Unpin),
    feed: &Feed,
    written: &mut u64,
) -> std::io::Result<()> {
    match feed {
        Feed::Whole(bytes) => send(writer, bytes, written).await,
        Feed::Slow(first, rest, gap) => {
            send(writer, first, written).await?;
            let mut beat = interval(*gap);
            beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
            for byte in rest {
                beat.tick().await;
                send(writer, &[*byte], written).await?;
            }
            Ok(())
        }
        Feed::Endless(first, again, most) => {
            send(writer, first, written).await?;
            while *written < *most {
                send(writer, again, written).await?;
            }
            Ok(())
        }
    }
}

async fn send(
    writer: &mut (impl AsyncWrite + Unpin),
    bytes: &[u8],
    written: &mut u64,
) -> std::io::Result<()> {
    writer.write_all(bytes).await?;
    writer.flush().await?;
    *written += bytes.len() as u64;
    Ok(())
}

/// Leaves bytes behind the answer in `came`.
async fn read_answer(reader: &mut (impl AsyncRead + Unpin), came: &mut Vec<u8>) -> Outcome {
    loop {
        if let Some(outcome) = outcome_of(came, false) {
            return outcome;
        }
        let ended = !matches!(reader.read_buf(came).await, Ok(1..));
        if ended {
            return outcome_of(came, true).unwrap_or(Outcome::Closed);
        }
    }
}

fn outcome_of(came: &mut Vec<u8>, ended: bool) -> Option<Outcome> {
    match read(came, ended) {
        Progress::Whole(answer, length) => {
            came.drain(..length.min(came.len()));
            Some(Outcome::Answer(answer))
        }
        Progress::Malformed(why) => Some(Outcome::Malformed(why)),
        Progress::Partial => ended.then_some(Outcome::Closed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of them is noticed first, is chance.
    #[tokio::test]
    async fn an_answer_is_read_before_and_after_a_write_error() {
        let until = Watch::start().moment(Duration::from_secs(60));
        for _ in 0..100 {
            let (mut closed, peer) = tokio::io::duplex(1);
            drop(peer);
            let mut reader = b"HTTP/1.1 401 X\r\nContent-Length: 0\r\n\r\n".as_slice();
            let (mut written, mut came) = (0, Vec::new());
            let (outcome, is_sent) =
                answered(&mut reader, &mut closed, b"POST", &mut written, &mut came, until).await;
            assert!(matches!(&outcome, Outcome::Answer(answer) if answer.status == 401), "{outcome:?}");
            assert!(!is_sent);
        }
    }
}
