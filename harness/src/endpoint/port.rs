//! A port and the endpoints behind it: one, or with a public URL all of them, which each request names.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use super::reach::PublicUrl;
use super::stray::Strays;
use super::{Endpoint, Stage};
use hookproof_judge::trace::{CutKind, StrayKind};

/// Concurrent handshakes of a port; further ones wait, within their time limit.
const HANDSHAKES_MAX: usize = 1_024;

pub(super) struct Port {
    pub(super) address: SocketAddr,
    pub(super) behind: Behind,
    /// TLS, if the port uses it.
    pub(super) tls: Option<TlsAcceptor>,
    /// Permits for handshakes.
    pub(super) handshakes: Semaphore,
    pub(super) stage: Stage,
    pub(super) strays: Arc<Strays>,
    /// Numbers connections over the run.
    pub(super) connections: Arc<AtomicU64>,
}

pub(super) enum Behind {
    /// One endpoint: every request is for it.
    One(Arc<Endpoint>),
    /// All endpoints, by name.
    All { url: PublicUrl, endpoints: BTreeMap<String, Arc<Endpoint>> },
}

impl Port {
    pub(super) fn new(
        (address, behind): (SocketAddr, Behind),
        tls: Option<TlsAcceptor>,
        stage: &Stage,
        strays: &Arc<Strays>,
        connections: &Arc<AtomicU64>,
    ) -> Self {
        let (strays, connections) = (Arc::clone(strays), Arc::clone(connections));
        let handshakes = Semaphore::new(HANDSHAKES_MAX);
        Self { address, behind, tls, handshakes, stage: stage.clone(), strays, connections }
    }

    pub(super) fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }

    /// The only endpoint of this port, if it is not shared.
    pub(super) const fn alone(&self) -> Option<&Arc<Endpoint>> {
        match &self.behind {
            Behind::One(endpoint) => Some(endpoint),
            Behind::All { .. } => None,
        }
    }

    /// The endpoint of a request with this target and host.
    pub(super) fn find(&self, target: &str, host: Option<&str>) -> Option<&Arc<Endpoint>> {
        match &self.behind {
            Behind::One(endpoint) => Some(endpoint),
            Behind::All { url, endpoints } => {
                let host = host.map(str::to_ascii_lowercase);
                endpoints.get(url.name_in(target, host.as_deref())?)
            }
        }
    }

    /// Records a request that matches no endpoint.
    pub(super) fn stray(&self, method: &str, target: &str, host: Option<&str>, body: &[u8]) {
        let said = format!("{method} {target} at {}", host.unwrap_or("no host"));
        self.strays.note(StrayKind::Request, self.stage.tokens.find(body), &said);
    }

    /// Records an incomplete request; `began` is the time of its first byte.
    pub(super) fn broken_off(&self, how: CutKind, began: u64, bytes: &[u8]) {
        let token = self.stage.tokens.find(bytes);
        match &self.behind {
            Behind::One(endpoint) => endpoint.keep_cut(None, how, Some(began), token),
            Behind::All { .. } => {
                self.strays.note(StrayKind::Request, token, "it ended before it said whom it was for");
            }
        }
    }
}
