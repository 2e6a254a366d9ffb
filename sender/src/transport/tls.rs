use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use rustls::ClientConfig;
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;

use super::failure::{Cause, Failure};
use super::timer::lock;
pub use crate::store::roots::{Roots, RootsError};
use crate::tls_files::{TlsFileError, TlsFiles};

pub(super) const HTTP2: &[u8] = b"h2";
pub(super) const HTTP1: &[u8] = b"http/1.1";

/// Beyond it, all are made anew.
const OWN_MAX: usize = 1_024;
/// A hung file system blocks a thread for each, and only one for the same files.
const READERS_MAX: usize = 8;

pub(super) struct Tls {
    common: TlsConnector,
    own: Arc<Own>,
    readers: Arc<Semaphore>,
    /// Of files that attempts read.
    turns: Mutex<Vec<(Arc<TlsFiles>, Arc<Semaphore>)>>,
}

/// By the digest of the files' contents.
struct Own {
    roots: Roots,
    connectors: Mutex<BTreeMap<[u8; 32], TlsConnector>>,
}

impl Tls {
    pub(super) fn new(roots: Roots) -> Self {
        let common = connector(roots.clone().config());
        let own = Arc::new(Own { roots, connectors: Mutex::default() });
        Self { common, own, readers: Arc::new(Semaphore::new(READERS_MAX)), turns: Mutex::default() }
    }

    /// Lets one attempt at a time read these files.
    fn turn(&self, files: &Arc<TlsFiles>) -> Arc<Semaphore> {
        let mut turns = lock(&self.turns);
        turns.retain(|(_, turn)| Arc::strong_count(turn) > 1);
        if let Some((_, turn)) = turns.iter().find(|(of, _)| of == files) {
            return Arc::clone(turn);
        }
        let turn = Arc::new(Semaphore::new(1));
        turns.push((Arc::clone(files), Arc::clone(&turn)));
        turn
    }

    pub(super) async fn connector(&self, files: Option<&Arc<TlsFiles>>) -> Result<TlsConnector, Failure> {
        let Some(files) = files else { return Ok(self.common.clone()) };
        let broken = |error: &(dyn std::error::Error + 'static)| Failure::Request(Cause::of(error));
        let turn = self.turn(files).acquire_owned().await.map_err(|closed| broken(&closed))?;
        let reader = Arc::clone(&self.readers).acquire_owned().await.map_err(|closed| broken(&closed))?;
        let (own, files) = (Arc::clone(&self.own), Arc::clone(files));
        let read = tokio::task::spawn_blocking(move || {
            let _until_then = (turn, reader);
            own.connector(&files)
        });
        Ok(read.await.map_err(|stopped| broken(&stopped))??)
    }
}

impl Own {
    fn connector(&self, files: &TlsFiles) -> Result<TlsConnector, TlsFileError> {
        let contents = files.read()?;
        let digest = contents.digest();
        if let Some(known) = lock(&self.connectors).get(&digest) {
            return Ok(known.clone());
        }
        let new = connector(contents.config(&self.roots)?);
        let mut connectors = lock(&self.connectors);
        if connectors.len() >= OWN_MAX {
            connectors.clear();
        }
        connectors.insert(digest, new.clone());
        Ok(new)
    }
}

fn connector(mut config: ClientConfig) -> TlsConnector {
    config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
    TlsConnector::from(Arc::new(config))
}
