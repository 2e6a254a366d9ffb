//! The harness's HTTP client for the sender under test. A call without an answer tells whether the sender may
//! have read the request.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;

use super::connector::{CertificateError, Certificates, Connector};
use super::redactor::Redactor;

/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// The longest quotation of a body.
const SHOWN_CHARS_MAX: usize = 2_000;

/// A connection pool. Clones share it.
#[derive(Clone, Debug)]
pub struct Client {
    connections: legacy::Client<Connector, Full<Bytes>>,
    connector: Connector,
}

/// A complete request.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its method.
    pub method: http::Method,
    /// Its URL.
    pub url: String,
    /// Its header fields.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Bytes,
    /// The time limit of the whole call.
    pub within: Duration,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// `Retry-After`, word for word.
    pub retry_after: Option<String>,
    /// `Date`, word for word.
    pub date: Option<String>,
    /// The body.
    pub body: Bytes,
}

/// A call without an answer.
#[derive(Debug, thiserror::Error)]
#[error("{method} {url} got no answer: {why}")]
pub struct CallError {
    /// Its method.
    pub method: String,
    /// Its URL, without its query.
    pub url: String,
    /// The error.
    pub why: String,
    /// Whether the sender may have read the request.
    pub unknown: bool,
    /// Whether the harness has no file or port left for a connection.
    pub ours: bool,
}

impl Call {
    /// The request, for people; a long body is cut.
    pub(super) fn shown(&self, hidden: &Redactor) -> String {
        let fields = self.headers.iter().map(|(name, value)| format!("{name}: {value}\n"));
        let head = format!("{} {}\n{}", self.method, self.url, fields.collect::<String>());
        hidden.hide(&head) + &hidden.beginning(&self.body, SHOWN_CHARS_MAX)
    }
}

impl Reply {
    /// The answer, for people; a long body is cut.
    pub(super) fn shown(&self, hidden: &Redactor) -> String {
        format!("{}\n{}", self.status, hidden.beginning(&self.body, SHOWN_CHARS_MAX))
    }
}

impl Client {
    /// A client with these certificates.
    pub fn new(certificates: &Certificates) -> Result<Self, CertificateError> {
        let connector = Connector::new(certificates)?;
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        // The client must not resend a request that may have arrived: the harness would not see it.
        builder.retry_canceled_requests(false).pool_max_idle_per_host(16);
        Ok(Self { connections: builder.build(connector.clone()), connector })
    }

    /// Makes one call.
    pub async fn call(&self, call: Call) -> Result<Reply, CallError> {
        let Call { method, url, headers, body, within } = call;
        let failed = |why: String, unknown: bool| CallError {
            method: method.to_string(),
            // A query may contain a key.
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
        let late = |_| failed(format!("nothing within {within:?}"), true);
        tokio::time::timeout(within, exchange).await.map_err(late)?
    }
}

/// Whether a resource that this process lacks caused an error.
fn is_ours(error: &(dyn std::error::Error + 'static)) -> bool {
    use rustix::io::Errno;

    /// No file left for this process, none on this machine, no port, no memory for a socket.
    const WANTING: [Errno; 4] = [Errno::MFILE, Errno::NFILE, Errno::ADDRNOTAVAIL, Errno::NOBUFS];
    let causes = std::iter::successors(Some(error), |error| error.source());
    let codes = causes.filter_map(|error| error.downcast_ref::<std::io::Error>()?.raw_os_error());
    codes.into_iter().any(|code| WANTING.iter().any(|errno| errno.raw_os_error() == code))
}

/// An error with all of its causes.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
