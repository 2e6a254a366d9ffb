use std::io;
use std::sync::Arc;

use tokio_rustls::TlsConnector;

pub use crate::store::roots::{Roots, RootsError};

pub(super) const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

pub(super) fn connector(roots: Roots) -> io::Result<TlsConnector> {
    let mut config = roots.config()?;
    config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}
