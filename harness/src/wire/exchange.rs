//! One exchange: writes given bytes and reads the answer; nothing is repeated.
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
use tokio::time::{MissedTickBehavior, interval, timeout_at};
use tokio_rustls::TlsConnector;

use super::answer::{Answer, Progress, read};
use super::clock::Watch;
use super::request::Target;

/// A connection, with or without TLS.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// The bytes to write.
#[derive(Clone, Debug)]
pub enum Feed {
    /// These bytes, at once.
    Whole(Vec<u8>),
    /// The first bytes at once, then the others one by one at this interval.
    Slow(Vec<u8>, Vec<u8>, Duration),
    /// The first bytes, then the second ones repeatedly, up to this total.
    Endless(Vec<u8>, Vec<u8>, u64),
}

/// The outcome of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An answer.
    Answer(Answer),
    /// The connection closed or was reset before a whole answer.
    Closed,
    /// Neither an answer nor an end in time.
    Silent,
    /// No connection.
    Unreachable(String),
    /// An answer that is not HTTP.
    Malformed(String),
}

/// An exchange, with its times.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// What came of it.
    pub outcome: Outcome,
    /// Its length from the connection on.
    pub took: Duration,
    /// The bytes that were written.
    pub written: u64,
}

/// Opens a connection.
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

/// Sends on a connection of its own, and waits for the answer up to this limit.
pub async fn exchange(target: &Target, addresses: &[SocketAddr], feed: &Feed, limit: Duration) -> Exchange {
    let watch = Watch::start();
    let until = watch.moment(limit);
    let unreachable =
        |why: String| Exchange { outcome: Outcome::Unreachable(why), took: watch.passed(), written: 0 };
    let stream = match timeout_at(until, connect(target, addresses)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return unreachable(error.to_string()),
        Err(_) => return unreachable(format!("no connection within {limit:?}")),
    };
    let watch = Watch::start();
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut written = 0;
    let both = async {
        // A write error ends only the writing.
        let writing = async {
            let _ended = write(&mut writer, feed, &mut written).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            outcome = read_answer(&mut reader) => outcome,
            () = writing => Outcome::Silent,
        }
    };
    let outcome = timeout_at(until, both).await.unwrap_or(Outcome::Silent);
    Exchange { outcome, took: watch.passed(), written }
}

/// Sends each request after the previous answer, within this total time. Returns early if the connection closes.
pub async fn succession(
    target: &Target,
    addresses: &[SocketAddr],
    requests: &[Vec<u8>],
    limit: Duration,
) -> Vec<Exchange> {
    let until = Watch::start().moment(limit);
    let mut exchanges = Vec::new();
    let mut stream = match timeout_at(until, connect(target, addresses)).await {
        Ok(Ok(stream)) => stream,
        other => {
            let why = match other {
                Ok(Err(error)) => error.to_string(),
                _ => format!("no connection within {limit:?}"),
            };
            return vec![Exchange { outcome: Outcome::Unreachable(why), took: limit, written: 0 }];
        }
    };
    for request in requests {
        let (watch, mut written) = (Watch::start(), 0);
        let both = async {
            // An answer may have come before the write error.
            let _lost = send(&mut stream, request, &mut written).await;
            read_answer(&mut stream).await
        };
        let outcome = timeout_at(until, both).await.unwrap_or(Outcome::Silent);
        let stays = matches!(&outcome, Outcome::Answer(answer) if answer.keeps_open);
        exchanges.push(Exchange { outcome, took: watch.passed(), written });
        if !stays {
            break;
        }
    }
    exchanges
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

async fn read_answer(reader: &mut (impl AsyncRead + Unpin)) -> Outcome {
    let mut bytes = Vec::new();
    loop {
        let ended = match reader.read_buf(&mut bytes).await {
            Ok(count) => count == 0,
            Err(_) => true,
        };
        match read(&bytes, ended) {
            Progress::Whole(answer, _) => return Outcome::Answer(answer),
            Progress::Malformed(why) => return Outcome::Malformed(why),
            Progress::Partial if ended => return Outcome::Closed,
            Progress::Partial => {}
        }
    }
}
