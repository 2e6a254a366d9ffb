use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use http_body_util::{BodyExt, Full, Limited};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower::Service;

use super::template::Redactor;
use crate::wire::exchange;

const ANSWER_BYTES_MAX: usize = 64 << 20;
const SHOWN_CHARS_MAX: usize = 2_000;
/// Servers close idle connections after 2 s or more, and a call on a closed one gets no answer.
const IDLE_MAX: Duration = Duration::from_secs(1);

/// A connection pool. Clones share it.
#[derive(Clone, Debug)]
pub struct Client {
    connections: legacy::Client<Connector, Full<Bytes>>,
    connector: Connector,
}

#[derive(Clone, Debug)]
pub struct Call {
    pub method: http::Method,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    /// Limits the whole call.
    pub within: Duration,
}

#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    /// Verbatim.
    pub retry_after: Option<String>,
    /// Verbatim.
    pub date: Option<String>,
    pub body: Bytes,
}

#[derive(Debug, thiserror::Error)]
#[error("{method} {url} was not answered: {why}")]
pub struct CallError {
    pub method: String,
    /// Its URL, without its query.
    pub url: String,
    pub why: String,
    pub unknown: bool,
    pub ours: bool,
}

impl Call {
    pub(super) fn display_text(&self, hidden: &Redactor) -> String {
        let fields = self.headers.iter().map(|(name, value)| format!("{name}: {value}\n"));
        let head = format!("{} {}\n{}", self.method, self.url, fields.collect::<String>());
        hidden.hide(&head) + &hidden.beginning(&self.body, SHOWN_CHARS_MAX)
    }
}

impl Reply {
    pub(super) fn display_text(&self, hidden: &Redactor) -> String {
        format!("{}\n{}", self.status, hidden.beginning(&self.body, SHOWN_CHARS_MAX))
    }
}

impl Client {
    pub fn new(certificates: &Certificates) -> Result<Self, CertificateError> {
        let connector = Connector::new(certificates)?;
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        // A resent request may arrive twice, unseen by the harness.
        builder.retry_canceled_requests(false).pool_max_idle_per_host(16).pool_idle_timeout(IDLE_MAX);
        Ok(Self { connections: builder.build(connector.clone()), connector })
    }

    pub async fn call(&self, call: Call) -> Result<Reply, CallError> {
        let Call { method, url, headers, body, within } = call;
        let failed = |why: String, unknown: bool| CallError {
            method: method.to_string(),
            // The query may contain a key.
            url: url.split('?').next().unwrap_or_default().to_owned(),
            why,
            unknown,
            ours: false,
        };
        let mut request = http::Request::builder().method(&method).uri(&url);
        for (name, value) in &headers {
            request = request.header(name, value);
        }
        let mut request = request.body(Full::new(body)).map_err(|error| failed(error.to_string(), false))?;
        // Tunnels authenticate on CONNECT; a proxy for plain requests wants the credentials in each.
        if request.uri().scheme_str() == Some("http")
            && let Some(user) =
                self.connector.proxy(request.uri()).and_then(|proxy| proxy.basic_auth().cloned())
        {
            request.headers_mut().insert(http::header::PROXY_AUTHORIZATION, user);
        }
        let exchange = async {
            let response = self.connections.request(request).await.map_err(|error| {
                let connecting = error.is_connect();
                CallError { ours: connecting && is_ours(&error), ..failed(causes(&error), !connecting) }
            })?;
            let status = response.status().as_u16();
            let field = |name| {
                let value = response.headers().get(name);
                value.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            };
            let (retry_after, date) = (field(http::header::RETRY_AFTER), field(http::header::DATE));
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| failed(format!("the answer broke off: {error}"), true))?;
            Ok(Reply { status, retry_after, date, body: body.to_bytes() })
        };
        let late = |_| failed(format!("no data within {within:?}"), true);
        tokio::time::timeout(within, exchange).await.map_err(late)?
    }
}

fn is_ours(error: &(dyn std::error::Error + 'static)) -> bool {
    use rustix::io::Errno;

    /// No file for this process, no file for this machine, no port, no memory for a socket.
    const WANTING: [Errno; 4] = [Errno::MFILE, Errno::NFILE, Errno::ADDRNOTAVAIL, Errno::NOBUFS];
    let causes = std::iter::successors(Some(error), |error| error.source());
    let codes = causes.filter_map(|error| error.downcast_ref::<std::io::Error>()?.raw_os_error());
    codes.into_iter().any(|code| WANTING.iter().any(|errno| errno.raw_os_error() == code))
}

fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[derive(Clone, Debug, Default)]
pub struct Certificates {
    /// Trusted beside the public ones.
    pub ca: Option<PathBuf>,
    pub own: Option<(PathBuf, PathBuf)>,
}

#[derive(Debug, thiserror::Error)]
#[error("{path} cannot be used: {why}", path = path.display())]
pub struct CertificateError {
    path: PathBuf,
    why: String,
}

impl CertificateError {
    pub(super) fn hide(&mut self, hidden: &Redactor) {
        self.path = hidden.hide(&self.path.to_string_lossy()).into();
        self.why = hidden.hide(&self.why);
    }
}

#[derive(Clone, Debug)]
struct Connector {
    http: HttpConnector,
    tls: Arc<ClientConfig>,
    proxies: Arc<Matcher>,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

impl Connector {
    pub(super) fn new(certificates: &Certificates) -> Result<Self, CertificateError> {
        let mut http = HttpConnector::new();
        http.set_nodelay(true);
        http.enforce_http(false);
        http.set_connect_timeout(Some(Duration::from_secs(5)));
        let tls = Arc::new(configure(certificates)?);
        Ok(Self { http, tls, proxies: Arc::new(Matcher::from_env()) })
    }

    /// Never one for loopback.
    pub(super) fn proxy(&self, to: &Uri) -> Option<Intercept> {
        let host = to.host().unwrap_or_default().trim_matches(['[', ']']);
        let address: Option<std::net::IpAddr> = host.parse().ok();
        let is_here = host.eq_ignore_ascii_case("localhost")
            || address.is_some_and(|address| address.to_canonical().is_loopback());
        if is_here { None } else { self.proxies.intercept(to) }
    }

    async fn connect(mut self, to: Uri) -> Result<Stream, Failure> {
        let proxy = self.proxy(&to);
        if let Some(proxy) = &proxy
            && proxy.uri().scheme_str() != Some("http")
        {
            let what = format!("the proxy in the environment is {}; expected http://", proxy.uri());
            return Err(what.into());
        }
        let is_tls = to.scheme_str() == Some("https");
        let tcp: TcpStream = match &proxy {
            None => self.http.call(to.clone()).await?.into_inner(),
            Some(proxy) if is_tls => {
                let mut tunnel = Tunnel::new(proxy.uri().clone(), self.http);
                if let Some(user) = proxy.basic_auth() {
                    tunnel = tunnel.with_auth(user.clone());
                }
                tunnel.call(to.clone()).await?.into_inner()
            }
            Some(proxy) => self.http.call(proxy.uri().clone()).await?.into_inner(),
        };
        if !is_tls {
            return Ok(Stream { io: TokioIo::new(Box::new(tcp)), is_proxied: proxy.is_some() });
        }
        let host = to.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let stream = TlsConnector::from(self.tls).connect(ServerName::try_from(host)?, tcp).await?;
        Ok(Stream { io: TokioIo::new(Box::new(stream)), is_proxied: false })
    }
}

fn configure(certificates: &Certificates) -> Result<ClientConfig, CertificateError> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(path) = &certificates.ca {
        for certificate in chain(path)? {
            roots.add(certificate).map_err(|error| unusable(path, &error))?;
        }
    }
    let config = ClientConfig::builder().with_root_certificates(roots);
    let Some((path, key)) = &certificates.own else { return Ok(config.with_no_client_auth()) };
    let own = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, &error))?;
    config.with_client_auth_cert(chain(path)?, own).map_err(|error| unusable(path, &error))
}

fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let all = CertificateDer::pem_file_iter(path).map_err(|error| unusable(path, &error))?;
    let all: Vec<_> = all.collect::<Result<_, _>>().map_err(|error| unusable(path, &error))?;
    if all.is_empty() {
        let why = "there is no certificate in it; expected PEM".to_owned();
        return Err(CertificateError { path: path.to_owned(), why });
    }
    Ok(all)
}

fn unusable(path: &Path, why: &dyn std::fmt::Display) -> CertificateError {
    CertificateError { path: path.to_owned(), why: why.to_string() }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, Failure>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        Box::pin(self.clone().connect(to))
    }
}

pub(super) struct Stream {
    io: TokioIo<Box<dyn exchange::Stream>>,
    is_proxied: bool,
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new().proxy(self.is_proxied)
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl Write for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::TcpListener;

    use super::*;
    use crate::clock::Clock;

    #[derive(Debug, thiserror::Error)]
    #[error("connecting")]
    struct Connecting(#[source] std::io::Error);

    #[test]
    fn a_want_of_files_is_ours_and_a_refusal_is_not() {
        let of =
            |errno: rustix::io::Errno| Connecting(std::io::Error::from_raw_os_error(errno.raw_os_error()));
        assert!(is_ours(&std::io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error())));
        assert!(is_ours(&of(rustix::io::Errno::ADDRNOTAVAIL)), "the cause of a cause");
        assert!(!is_ours(&of(rustix::io::Errno::CONNREFUSED)));
    }

    #[tokio::test]
    async fn a_connection_that_lay_idle_carries_no_call() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let (opened, mut connections) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                opened.send(()).unwrap();
                tokio::spawn(async move {
                    let mut lines = BufReader::new(stream).lines();
                    while let Ok(Some(line)) = lines.next_line().await {
                        if line.is_empty() {
                            lines.get_mut().write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
                        }
                    }
                });
            }
        });
        let client = Client::new(&Certificates::default()).unwrap();
        let call = || Call {
            method: http::Method::GET,
            url: url.clone(),
            headers: Vec::new(),
            body: Bytes::new(),
            within: Duration::from_secs(30),
        };
        client.call(call()).await.unwrap();
        Clock::begun().pass(1_100_000_000).await;
        client.call(call()).await.unwrap();
        connections.recv().await.unwrap();
        assert!(connections.try_recv().is_ok(), "the second call used the idle connection");
    }
}
