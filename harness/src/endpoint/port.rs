//! A port: the endpoints behind it, and its certificate.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hookproof_judge::trace::StrayKind;
use tokio::sync::Semaphore;

use super::certificate::Identity;
use super::reach::PublicUrl;
use super::{Broken, Endpoint, Stage, Strays};

/// Further handshakes of a port wait, within their time limit.
const HANDSHAKES_MAX: usize = 1_024;

pub(super) struct Port {
    pub(super) address: SocketAddr,
    pub(super) behind: Behind,
    pub(super) tls: Option<Identity>,
    pub(super) handshakes: Semaphore,
    pub(super) stage: Stage,
    pub(super) strays: Arc<Strays>,
    pub(super) connections: Arc<AtomicU64>,
}

pub(super) enum Behind {
    One(Arc<Endpoint>),
    All { url: PublicUrl, endpoints: BTreeMap<String, Arc<Endpoint>> },
}

impl Port {
    pub(super) fn new(
        (address, behind): (SocketAddr, Behind),
        tls: Option<Identity>,
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

    /// None if the port is shared.
    pub(super) const fn alone(&self) -> Option<&Arc<Endpoint>> {
        match &self.behind {
            Behind::One(endpoint) => Some(endpoint),
            Behind::All { .. } => None,
        }
    }

    /// Waits until new connections get another certificate than one that begins now.
    pub(super) async fn certificate_changed(&self) {
        let now = self.stage.clock.now();
        let until = self.alone().filter(|_| self.tls.is_some());
        match until.and_then(|endpoint| endpoint.choices.certificate_until(now)) {
            Some(until) => self.begun_until(until).await,
            None => std::future::pending().await,
        }
    }

    /// The run may not have begun yet.
    pub(super) async fn begun_until(&self, at: u64) {
        const LOOK_NS: u64 = 1_000_000;
        while self.stage.clock.now() == 0 && at > 0 {
            self.stage.clock.pass(LOOK_NS).await;
        }
        self.stage.clock.until(at).await;
    }

    pub(super) fn find(&self, target: &str, host: Option<&str>) -> Option<&Arc<Endpoint>> {
        match &self.behind {
            Behind::One(endpoint) => Some(endpoint),
            Behind::All { url, endpoints } => {
                let host = host.map(str::to_ascii_lowercase);
                endpoints.get(url.name_in(target, host.as_deref())?)
            }
        }
    }

    pub(super) fn stray(&self, method: &str, target: &str, host: Option<&str>, body: &[u8]) {
        let said = format!("{method} {target} at {}", host.unwrap_or("no host"));
        self.strays.record_or_count(StrayKind::Request, self.stage.tokens.find(body), &said);
    }

    /// `began` is the time of its first byte.
    pub(super) fn broken_off(&self, how: Broken, began: u64, bytes: &[u8]) {
        let token = self.stage.tokens.find(bytes);
        match &self.behind {
            Behind::One(endpoint) => endpoint.record_cut(None, how, Some(began), token),
            Behind::All { .. } => {
                self.strays.record_or_count(
                    StrayKind::Request,
                    token,
                    "the connection ended before the request named its endpoint",
                );
            }
        }
    }
}
