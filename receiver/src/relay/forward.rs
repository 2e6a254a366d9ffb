//! One request to a target, on a connection of its own: a stale one from a pool would leave the request in doubt.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tracing::debug;
use url::Url;

/// A longer body is omitted.
const ANSWER_BYTES_MAX: usize = 64 << 10;
const ANSWER_BODY_TIME_MAX: Duration = Duration::from_secs(1);
const ANSWER_HEAD_BYTES_MAX: usize = 32 << 10;

/// Headers of one connection, not of the message.
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];
/// The relay writes these itself.
const OUR_OWN: [HeaderName; 3] = [header::HOST, header::CONTENT_LENGTH, header::EXPECT];
/// Headers of an answer that the sender receives.
const PASSED_BACK: [HeaderName; 3] = [header::RETRY_AFTER, header::CONTENT_TYPE, header::DATE];

#[derive(Clone)]
pub struct Target {
    host: String,
    port: u16,
    path: PathAndQuery,
    authority: HeaderValue,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        write!(f, "Target({scheme}://{}:{})", self.host, self.port)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot forward to {given:?}: {problem}; expected a URL such as http://127.0.0.1:9000/hook")]
pub struct TargetError {
    given: String,
    problem: String,
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let wrong = |problem: String| TargetError { given: text.to_owned(), problem };
        let url = Url::parse(text).map_err(|error| wrong(error.to_string()))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(TargetError { given: "…".to_owned(), problem: "it holds a password".to_owned() });
        }
        let host = url.host_str().ok_or_else(|| wrong("it names no host".to_owned()))?;
        let tls = match url.scheme() {
            "http" => None,
            "https" => Some(tls(host).map_err(wrong)?),
            other => return Err(wrong(format!("its scheme is {other}"))),
        };
        let port = url.port_or_known_default().ok_or_else(|| wrong("it names no port".to_owned()))?;
        let path =
            url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
        let path = path.parse::<PathAndQuery>().map_err(|error| wrong(error.to_string()))?;
        let authority = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let authority = HeaderValue::try_from(authority).map_err(|error| wrong(error.to_string()))?;
        // The resolver does not accept brackets.
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { host, port, path, authority, tls })
    }
}

static TLS: LazyLock<Result<Arc<ClientConfig>, String>> = LazyLock::new(|| {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let versions = versions.map_err(|error| error.to_string())?;
    Ok(Arc::new(versions.with_root_certificates(roots).with_no_client_auth()))
});

fn tls(host: &str) -> Result<(TlsConnector, ServerName<'static>), String> {
    let config = Arc::clone(TLS.as_ref().map_err(Clone::clone)?);
    let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(bare).map_err(|error| error.to_string())?;
    Ok((TlsConnector::from(config), name))
}

impl Target {
    pub(super) async fn forward(&self, headers: &HeaderMap, body: Bytes) -> Result<Head, ForwardError> {
        let stream =
            TcpStream::connect((self.host.as_str(), self.port)).await.map_err(ForwardError::Connect)?;
        stream.set_nodelay(true).map_err(ForwardError::Connect)?;
        let request = self.request(headers, body)?;
        match &self.tls {
            None => exchange(stream, request).await,
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await.map_err(ForwardError::Connect)?;
                exchange(stream, request).await
            }
        }
    }

    fn request(&self, headers: &HeaderMap, body: Bytes) -> Result<Request<Full<Bytes>>, ForwardError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from(self.path.clone());
        let named = named_by_connection(headers);
        for (name, value) in headers {
            if !HOP_BY_HOP.contains(name) && !OUR_OWN.contains(name) && !named.contains(name) {
                request.headers_mut().append(name.clone(), value.clone());
            }
        }
        request.headers_mut().insert(header::HOST, self.authority.clone());
        Ok(request)
    }
}

/// Named by the `Connection` header.
fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).filter_map(|name| name.trim().parse().ok()).collect()
}

async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> Result<Head, ForwardError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut client = http1::Builder::new();
    client.max_buf_size(ANSWER_HEAD_BYTES_MAX);
    let (mut sender, connection) = client.handshake(TokioIo::new(stream)).await?;
    let mut driving = JoinSet::new();
    driving.spawn(async move {
        if let Err(error) = connection.await {
            debug!(%error, "the connection to the target ended early");
        }
    });
    let answer = sender.send_request(request).await?;
    Ok(Head { answer, _driving: driving })
}

pub(super) struct Head {
    answer: Response<Incoming>,
    /// The connection ends with its user.
    _driving: JoinSet<()>,
}

impl Head {
    pub(super) fn status(&self) -> StatusCode {
        self.answer.status()
    }

    /// The answer, without a body if that is too long or too slow.
    pub(super) async fn whole(self) -> Response<Full<Bytes>> {
        let (parts, body) = self.answer.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect();
        let body = match timeout(ANSWER_BODY_TIME_MAX, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(_)) | Err(_) => Bytes::new(),
        };
        let mut answer = Response::new(Full::new(body));
        *answer.status_mut() = parts.status;
        for name in PASSED_BACK {
            for value in parts.headers.get_all(&name) {
                answer.headers_mut().append(name.clone(), value.clone());
            }
        }
        answer
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ForwardError {
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    #[error("no answer: {0}")]
    Exchange(#[from] hyper::Error),
}
