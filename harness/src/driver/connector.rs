//! Connections to the sender under test: plain or TLS, directly or through a proxy of the environment.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::redactor::Redactor;
use tower::Service;

use crate::wire::exchange;

/// The files that a driver's `[connect]` names.
#[derive(Clone, Debug, Default)]
pub struct Certificates {
    /// Certificates of trusted authorities, beside the public ones.
    pub ca: Option<PathBuf>,
    /// The harness's own certificate, and its key.
    pub own: Option<(PathBuf, PathBuf)>,
}

/// A certificate or a key that cannot be used.
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
pub(super) struct Connector {
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

    /// The environment's proxy for a URL; never one for loopback.
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
            let what = format!("the proxy of the environment is {}; expected one by http://", proxy.uri());
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
    /// Whether a proxy reads the requests, which then need the whole URL.
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
