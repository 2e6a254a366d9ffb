use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::endpoint::any;
use crate::sender_mutants::sender::Bug;

const HTTPS: &str = "https://";

pub(crate) trait Wire: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Wire for T {}

/// To `HOST:PORT`, after `https://` over TLS.
pub(crate) async fn connect(to: &str, bug: &Bug) -> Option<Box<dyn Wire>> {
    let Some(host) = to.strip_prefix(HTTPS) else {
        return Some(Box::new(TcpStream::connect(to).await.ok()?));
    };
    let stream = TcpStream::connect(host).await.ok()?;
    let (name, _) = host.rsplit_once(':')?;
    let name = ServerName::try_from(name.to_owned()).ok()?;
    Some(Box::new(connector(bug).connect(name, stream).await.ok()?))
}

fn connector(bug: &Bug) -> TlsConnector {
    if bug.is("takes-any-certificate") {
        return any::connector();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut roots = RootCertStore::empty();
    let trusted = std::env::var("SENDER_CA").unwrap();
    roots.add(CertificateDer::from_pem_file(trusted).unwrap()).unwrap();
    TlsConnector::from(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}
