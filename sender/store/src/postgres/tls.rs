//! TLS to the database server, with a verified certificate and host name.
//!
//! `sslmode=require` and `verify-full` both mean that, because encryption without verification proves nothing.
//! Without `sslmode` there is no TLS. Trusted roots are those of browsers and of the file in `sslrootcert`.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::ClientConfig;
use rustls::pki_types::{InvalidDnsNameError, ServerName};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

use crate::roots::Roots;

/// PostgreSQL's protocol name in ALPN.
const PROTOCOL: &[u8] = b"postgresql";

#[derive(Debug, Default)]
pub(super) struct TlsRequest {
    pub(super) rest: String,
    /// `None`: no TLS.
    pub(super) tls: Option<Tls>,
    pub(super) passfile: Option<String>,
}

impl TlsRequest {
    /// Extracts these settings. Errors quote nothing, because any part may belong to a password.
    pub(super) fn of(address: &str) -> Result<Self, String> {
        // As in `tokio_postgres`, the first @ ends the password.
        let credentials = address.find('@').map_or(0, |end| end + 1);
        let (credentials, place) = address.split_at(credentials);
        if place.contains('@') {
            return Err("write an @ in a user name, password or setting as %40".to_owned());
        }
        let Some((place, query)) = place.split_once('?') else {
            return Ok(Self { rest: address.to_owned(), ..Self::default() });
        };
        let (mut mode, mut roots, mut passfile, mut rest) = (None, None, None, Vec::new());
        for pair in query.split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            match decoded(key).as_str() {
                "sslmode" => mode = Some(decoded(value)),
                "sslrootcert" => roots = Some(decoded(value)),
                "passfile" => passfile = Some(decoded(value)),
                _ => rest.push(pair),
            }
        }
        let tls = match mode.as_deref() {
            Some("require" | "verify-full") => Some(Tls::trusting(roots.as_deref())?),
            None | Some("disable") if roots.is_none() => None,
            None | Some("disable") => {
                return Err("sslrootcert needs sslmode=verify-full".to_owned());
            }
            Some(_) => {
                return Err("its sslmode is not supported; expected disable or verify-full".to_owned());
            }
        };
        let settings = if rest.is_empty() { String::new() } else { format!("?{}", rest.join("&")) };
        Ok(Self { rest: format!("{credentials}{place}{settings}"), tls, passfile })
    }
}

fn decoded(text: &str) -> String {
    // Unlike in a form, a plus is a plus.
    let pair = format!("={}", text.replace('+', "%2B"));
    url::form_urlencoded::parse(pair.as_bytes()).map(|(_, value)| value.into_owned()).collect()
}

#[derive(Clone, Debug)]
pub(super) struct Tls(Arc<ClientConfig>);

impl Tls {
    fn trusting(file: Option<&str>) -> Result<Self, String> {
        let mut roots = Roots::default();
        if let Some(path) = file.filter(|path| *path != "system") {
            let text = std::fs::read(path).map_err(|error| format!("sslrootcert: {path}: {error}"))?;
            roots = roots.with_pem(&text).map_err(|error| format!("sslrootcert: {path}: {error}"))?;
        }
        let mut config = roots.config();
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(Self(Arc::new(config)))
    }
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Stream;
    type TlsConnect = To;
    type Error = InvalidDnsNameError;

    fn make_tls_connect(&mut self, domain: &str) -> Result<To, InvalidDnsNameError> {
        let name = ServerName::try_from(domain)?.to_owned();
        Ok(To { connector: TlsConnector::from(Arc::clone(&self.0)), name })
    }
}

pub(super) struct To {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl TlsConnect<Socket> for To {
    type Stream = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            self.connector.connect(self.name, socket).await.map(|stream| Stream(Box::new(stream)))
        })
    }
}

pub(super) struct Stream(Box<tokio_rustls::client::TlsStream<Socket>>);

impl TlsStream for Stream {
    /// None: the certificate proves the server's identity.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
