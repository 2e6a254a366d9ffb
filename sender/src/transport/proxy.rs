//! The way out through an HTTP proxy, by CONNECT (RFC 9110 §9.3.6), for http and https alike.
//!
//! The sender resolves the endpoint's name, and the proxy gets an address that the guard has checked: its own DNS cannot
//! lead it into an inside network. No byte of a request is written before the tunnel stands, so that a failure here is
//! "unsent".
//!
//! A proxy that fails holds up all lanes and shows nothing about an endpoint. So attempts of all lanes wait at one gate,
//! which lets one try through after each pause.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tracing::info;
use url::{Host, Url};
use zeroize::Zeroizing;

use super::failure::{Cause, Failure};
use super::lookups::Lookups;
use super::timer::{after, lock, now};
use crate::guard::Network;

const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Without deliveries, nothing shows that the proxy has come back.
const KNOWN_FOR: Duration = Duration::from_secs(60);
/// A head of an answer. Its body is not read.
const HEAD_BYTES_MAX: usize = 8 * 1024;
const PEEK_BYTES: usize = 512;

pub struct EgressProxy {
    pub(super) host: Host<String>,
    pub(super) port: u16,
    /// The value of `Proxy-Authorization`.
    credentials: Option<Zeroizing<String>>,
    direct: Vec<Network>,
    pub(super) lookups: Lookups,
    failing: Mutex<Option<Failing>>,
}

struct Failing {
    failure: Failure,
    found: Instant,
    pause: Duration,
    next_try: Instant,
}

/// A try that is dropped before its end lets the next one through at once.
pub(super) struct Turn<'p> {
    proxy: &'p EgressProxy,
    began: Instant,
    has_ended: bool,
}

/// No message repeats the text, which may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    #[error("it cannot be read: {0}")]
    Malformed(url::ParseError),
    #[error("its scheme is not http; TLS to the proxy itself is not supported")]
    Scheme,
    #[error("it has a path, a query or a fragment")]
    Surplus,
    #[error("its port is 0")]
    Port,
    #[error("its user name has a colon, or a % without two hexadecimal digits")]
    User,
}

impl EgressProxy {
    pub fn parse(text: &str) -> Result<Self, ProxyError> {
        let url = Url::parse(text).map_err(ProxyError::Malformed)?;
        if url.scheme() != "http" {
            return Err(ProxyError::Scheme);
        }
        if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            return Err(ProxyError::Surplus);
        }
        let host = url.host().ok_or(ProxyError::Malformed(url::ParseError::EmptyHost))?.to_owned();
        let port = url.port_or_known_default().filter(|port| *port > 0).ok_or(ProxyError::Port)?;
        let credentials = credentials(&url)?;
        let (direct, lookups, failing) = Default::default();
        Ok(Self { host, port, credentials, direct, lookups, failing })
    }

    /// Addresses in these networks are reached without the proxy.
    #[must_use]
    pub fn except(self, direct: Vec<Network>) -> Self {
        Self { direct, ..self }
    }

    #[must_use]
    pub const fn has_credentials(&self) -> bool {
        self.credentials.is_some()
    }

    /// Host and port.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The latest failure of the proxy itself, of the last minute.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let failing = lock(&self.failing);
        let recent = failing.as_ref().filter(|failing| now() < failing.found + KNOWN_FOR)?;
        Some(recent.failure.to_string())
    }

    pub(super) fn leads_to(&self, address: IpAddr) -> bool {
        !self.direct.iter().any(|network| network.contains(address))
    }

    pub(super) fn enter(&self) -> Result<Turn<'_>, Failure> {
        let began = now();
        if let Some(failing) = &mut *lock(&self.failing) {
            if began < failing.next_try {
                return Err(Failure::ProxyAway(Cause::of(&failing.failure)));
            }
            failing.next_try = began + failing.pause;
        }
        Ok(Turn { proxy: self, began, has_ended: false })
    }

    pub(super) async fn connect_through(
        &self,
        tcp: &mut TcpStream,
        target: SocketAddr,
    ) -> Result<(), Failure> {
        let mut head = Zeroizing::new(format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n"));
        if let Some(credentials) = &self.credentials {
            head.push_str("proxy-authorization: ");
            head.push_str(credentials);
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        let broken = |error: io::Error| Failure::Proxy(Cause::of(&error));
        tcp.write_all(head.as_bytes()).await.map_err(broken)?;
        let answer = read_head(tcp).await.map_err(broken)?;
        match status(&answer) {
            None => Err(Failure::Proxy("it does not answer CONNECT with HTTP".into())),
            Some(200..=299) => Ok(()),
            Some(status) => Err(Failure::ProxyRefused { status, target }),
        }
    }
}

impl Turn<'_> {
    /// An answer about the target shows that the proxy works.
    pub(super) fn end<T>(mut self, tried: Result<T, Failure>) -> Result<T, Failure> {
        self.has_ended = true;
        let mut failing = lock(&self.proxy.failing);
        match &tried {
            Err(failure) if failure.is_the_proxys() => {
                let pause = match &*failing {
                    // Of the same time as one that counts already.
                    Some(known) if self.began < known.found => return tried,
                    Some(known) => (2 * known.pause).min(PAUSE_MAX),
                    None => PAUSE_MIN,
                };
                let (failure, found) = (failure.clone(), now());
                *failing = Some(Failing { failure, found, pause, next_try: after(pause) });
            }
            Ok(_) | Err(Failure::ProxyRefused { .. }) => {
                if failing.take().is_some() {
                    info!(proxy = self.proxy.place(), "the egress proxy works again");
                }
            }
            Err(_) => {}
        }
        tried
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.has_ended
            && let Some(failing) = &mut *lock(&self.proxy.failing)
        {
            failing.next_try = now();
        }
    }
}

/// Leaves the bytes after the head to the tunnel.
async fn read_head(tcp: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut seen = vec![0; PEEK_BYTES];
    while head.len() < HEAD_BYTES_MAX {
        let (from, count) = (head.len(), tcp.peek(&mut seen).await?);
        if count == 0 {
            let closed = "it closed the connection without an answer to CONNECT";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, closed));
        }
        head.extend_from_slice(&seen[..count]);
        let end = head.windows(4).skip(from.saturating_sub(3)).position(|four| four == b"\r\n\r\n");
        let end = end.map(|place| from.saturating_sub(3) + place + 4);
        tcp.read_exact(&mut seen[..end.unwrap_or(head.len()) - from]).await?;
        if let Some(end) = end {
            head.truncate(end);
            return Ok(head);
        }
    }
    Err(io::Error::other(format!("its answer to CONNECT has over {HEAD_BYTES_MAX} bytes")))
}

/// Of a line such as `HTTP/1.1 200 Connection established`.
fn status(head: &[u8]) -> Option<u16> {
    let rest = head.strip_prefix(b"HTTP/1.")?;
    let (minor, rest) = rest.split_first()?;
    let digits = rest.strip_prefix(b" ")?.get(..3)?;
    let are_digits = minor.is_ascii_digit() && digits.iter().all(u8::is_ascii_digit);
    are_digits.then(|| digits.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0')))
}

fn credentials(url: &Url) -> Result<Option<Zeroizing<String>>, ProxyError> {
    if url.username().is_empty() && url.password().is_none() {
        return Ok(None);
    }
    let mut pair = Zeroizing::new(percent_decoded(url.username()).ok_or(ProxyError::User)?);
    if pair.contains(&b':') {
        return Err(ProxyError::User);
    }
    pair.push(b':');
    pair.extend(percent_decoded(url.password().unwrap_or_default()).ok_or(ProxyError::User)?);
    let encoded = Zeroizing::new(STANDARD.encode(&*pair));
    Ok(Some(Zeroizing::new(format!("Basic {}", *encoded))))
}

/// `None` if a `%` begins no two hexadecimal digits.
pub(crate) fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(if byte == b'%' {
            let mut digit = || char::from(bytes.next()?).to_digit(16);
            let (high, low) = digit().zip(digit())?;
            u8::try_from(16 * high + low).ok()?
        } else {
            byte
        });
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(String, Option<String>), ProxyError> {
        let proxy = EgressProxy::parse(text)?;
        Ok((proxy.place(), proxy.credentials.map(|credentials| credentials.to_string())))
    }

    #[test]
    fn an_address_is_read_with_its_credentials() {
        let with = |credentials: &str| Some(format!("Basic {}", STANDARD.encode(credentials)));
        for (text, place, credentials) in [
            ("http://proxy.example:3128", "proxy.example:3128", None),
            ("http://10.0.0.1/", "10.0.0.1:80", None),
            ("http://[::1]:3128", "[::1]:3128", None),
            ("http://me:s3%40%3acret@proxy:1", "proxy:1", with("me:s3@:cret")),
            ("http://me@proxy:1", "proxy:1", with("me:")),
        ] {
            assert_eq!(read(text), Ok((place.to_owned(), credentials)), "{text}");
        }
        for (text, error) in [
            ("proxy:3128", ProxyError::Scheme),
            ("https://proxy:3128", ProxyError::Scheme),
            ("http://proxy:3128/path", ProxyError::Surplus),
            ("http://proxy:0", ProxyError::Port),
            ("http://a%3ab:c@proxy:1", ProxyError::User),
            ("http://a:%4@proxy:1", ProxyError::User),
            ("proxy", ProxyError::Malformed(url::ParseError::RelativeUrlWithoutBase)),
        ] {
            assert_eq!(read(text), Err(error), "{text}");
        }
    }

    #[test]
    fn a_status_is_read_strictly() {
        for (head, expected) in [
            ("HTTP/1.1 200 Connection established\r\n\r\n", Some(200)),
            ("HTTP/1.0 407\r\n\r\n", Some(407)),
            ("HTTP/2 200\r\n\r\n", None),
            ("HTTP/1.1 20", None),
            ("SSH-2.0-OpenSSH\r\n\r\n", None),
        ] {
            assert_eq!(status(head.as_bytes()), expected, "{head:?}");
        }
    }

    #[test]
    fn failures_of_one_moment_count_once_and_one_try_follows_each_pause() {
        let proxy = EgressProxy::parse("http://proxy:3128").unwrap();
        let fail = |turn: Turn<'_>| drop(turn.end::<()>(Err(Failure::Proxy("refused".into()))));
        let pause = || lock(&proxy.failing).as_ref().unwrap().pause;
        let (one, other) = (proxy.enter().unwrap(), proxy.enter().unwrap());
        fail(one);
        assert!(proxy.enter().is_err_and(|failure| failure.code() == "proxy_away"));
        fail(other);
        assert_eq!(pause(), PAUSE_MIN);
        for _ in 0..10 {
            lock(&proxy.failing).as_mut().unwrap().next_try = now();
            let turn = proxy.enter().unwrap();
            assert!(proxy.enter().is_err(), "one at a time");
            drop(turn);
            let turn = proxy.enter().unwrap();
            assert!(proxy.enter().is_err(), "one after a dropped one");
            fail(turn);
        }
        assert_eq!(pause(), PAUSE_MAX);
        assert_eq!(proxy.failure().as_deref(), Some("cannot use the egress proxy: refused"));
        let target = SocketAddr::from(([192, 0, 2, 1], 443));
        lock(&proxy.failing).as_mut().unwrap().next_try = now();
        let turn = proxy.enter().unwrap();
        let refused = turn.end::<()>(Err(Failure::ProxyRefused { status: 502, target }));
        assert!(refused.is_err() && proxy.enter().is_ok() && proxy.failure().is_none());
    }
}
