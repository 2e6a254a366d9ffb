//! Endpoints: mock receivers that behave as a scenario says, and stamp what arrives.
//!
//! ```text
//!   port ──► listener ──► connection ──► choice ──► answer
//!            closed while    reads,        which       or none
//!            it refuses      stamps,       behaviour
//!                            records
//! ```
//!
//! Every endpoint has a port of its own, on which it speaks HTTP/1.1, with bytes written by hand, and HTTP/2 to whoever begins
//! with its preface (see `http2`). An arrival is stamped when its first byte is read, and recorded before any of
//! its answer is written. An answer's times are taken just *before* the write that they are of: the sender cannot have
//! seen a byte earlier, so no check that counts from them can accuse it wrongly.
//!
//! Bounds: the head and body of a request (see `request`), the deliveries whose attempts are counted (see `choice`), and
//! what waits for the trace (see [`crate::trace::Recorder`]). Connections are bounded by the files that a process may open.

pub(crate) mod answer;
pub(crate) mod choice;
mod connection;
mod date;
mod deed;
mod http2;
mod listener;
mod request;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

pub(crate) use date::civil;
pub use date::http_date;

use crate::clock::Clock;
use crate::scenario::{Behaviour, Duration, Range};
use crate::trace::{Record, Recorder, SharedSecret};
use crate::traffic::Tokens;
use crate::wire::{Key, Scheme};
use choice::Choices;

/// What an endpoint is to be.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The subscriber's name.
    pub name: String,
    /// The path of its URL.
    pub path: String,
    /// How it misbehaves.
    pub behaviours: Vec<Behaviour>,
    /// How long it takes when it behaves.
    pub answers: Range<Duration>,
    /// How what it gets is signed.
    pub scheme: Scheme,
}

/// What all endpoints of a run share.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The run's clock.
    pub clock: Clock,
    /// Where to say what was seen.
    pub recorder: Recorder,
    /// How the run's tokens look.
    pub tokens: Tokens,
    /// What makes the choices.
    pub seed: u64,
}

/// The endpoints of a run, open.
#[derive(Debug)]
pub struct Endpoints {
    keys: Keys,
    closing: watch::Sender<bool>,
    /// Ends when the last task of any endpoint has.
    ended: mpsc::Receiver<()>,
}

/// What the endpoints of a run know of secrets. Copies are of the same.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    all: Vec<Arc<Endpoint>>,
    /// Whose secret makes a tag, so that one of several owners is noticed.
    owners: Arc<Mutex<BTreeMap<[u8; 32], String>>>,
}

/// One endpoint.
#[derive(Debug)]
struct Endpoint {
    name: String,
    path: String,
    address: SocketAddr,
    scheme: Scheme,
    /// None while they are not known: then nothing can be verified.
    secrets: RwLock<Vec<Key>>,
    choices: Choices,
    stage: Stage,
    connections: Arc<AtomicU64>,
}

/// What keeps a task of an endpoint, and tells it when to end.
#[derive(Clone, Debug)]
struct ShutdownSignal {
    closing: watch::Receiver<bool>,
    /// Held until the task is over.
    _alive: mpsc::Sender<()>,
}

impl Endpoints {
    /// Opens them all, on loopback.
    pub async fn open(specs: Vec<Spec>, stage: &Stage) -> io::Result<Self> {
        let (closing, tether) = watch::channel(false);
        let (alive, ended) = mpsc::channel(1);
        let tether = ShutdownSignal { closing: tether, _alive: alive };
        let connections = Arc::new(AtomicU64::new(0));
        let mut all = Vec::new();
        for (number, spec) in (0_u64..).zip(specs) {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let endpoint = Arc::new(Endpoint {
                choices: Choices::new(spec.behaviours, spec.answers, stage.seed, number),
                name: spec.name,
                path: spec.path,
                address: listener.local_addr()?,
                scheme: spec.scheme,
                secrets: RwLock::default(),
                stage: stage.clone(),
                connections: Arc::clone(&connections),
            });
            tokio::spawn(listener::listen(Arc::clone(&endpoint), listener, tether.clone()));
            all.push(endpoint);
        }
        Ok(Self { keys: Keys { all, owners: Arc::default() }, closing, ended })
    }

    /// The URL of the endpoint in this place.
    #[must_use]
    pub fn url(&self, at: usize) -> Option<String> {
        self.keys.all.get(at).map(|endpoint| format!("http://{}{}", endpoint.address, endpoint.path))
    }

    /// Where they all listen, in order.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.keys.all.iter().map(|endpoint| endpoint.address).collect()
    }

    /// What they know of secrets.
    #[must_use]
    pub fn keys(&self) -> Keys {
        self.keys.clone()
    }

    /// Tells an endpoint with which secrets its requests may be signed: see [`Keys::learn`].
    pub fn learn(&self, at: usize, secrets: Vec<Key>) {
        self.keys.learn(at, secrets);
    }

    /// Ends every exchange that is still open, and waits until all is recorded.
    pub async fn close(mut self) {
        // Without a task there is nobody to tell.
        let _ = self.closing.send(true);
        while self.ended.recv().await.is_some() {}
    }
}

impl Keys {
    /// Tells an endpoint with which secrets its requests may be signed, the oldest first. That another endpoint has one of
    /// them goes into the trace, which holds no secret itself.
    pub fn learn(&self, at: usize, secrets: Vec<Key>) {
        if let Some(endpoint) = self.all.get(at) {
            secrets.iter().for_each(|secret| self.tell_shared(endpoint, secret));
            *endpoint.secrets.write().unwrap_or_else(PoisonError::into_inner) = secrets;
        }
    }

    /// Tells an endpoint of a newer secret. One whose secrets are not all known stays without.
    pub fn add(&self, at: usize, secret: Key) {
        if let Some(endpoint) = self.all.get(at) {
            self.tell_shared(endpoint, &secret);
            let mut secrets = endpoint.secrets.write().unwrap_or_else(PoisonError::into_inner);
            if !secrets.is_empty() {
                secrets.push(secret);
            }
        }
    }

    /// Some secret of an endpoint is not known: from now on its signatures are not checked.
    pub fn forget(&self, at: usize) {
        if let Some(endpoint) = self.all.get(at) {
            endpoint.secrets.write().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }

    fn tell_shared(&self, endpoint: &Endpoint, secret: &Key) {
        let Some(mark) = secret.mark() else { return };
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let owner = owners.entry(mark).or_insert_with(|| endpoint.name.clone());
        if *owner != endpoint.name {
            let (t, endpoint_name) = (endpoint.stage.clock.now(), endpoint.name.clone());
            let shared = SharedSecret { t, endpoint: endpoint_name, with: owner.clone() };
            endpoint.stage.recorder.keep(Record::SharedSecret(shared));
        }
    }
}

impl Endpoint {
    fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }
}

impl ShutdownSignal {
    /// Whether the endpoints close.
    fn is_closed(&self) -> bool {
        *self.closing.borrow()
    }

    /// Waits until the endpoints close.
    async fn closed(&mut self) {
        // An error says that nobody is left to close them, which is the same.
        let _ = self.closing.wait_for(|closing| *closing).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Profile, Secret};

    #[tokio::test]
    async fn an_endpoint_whose_secrets_are_not_all_known_checks_none() {
        let (recorder, _records) = Recorder::new(10);
        let stage = Stage { clock: Clock::begun(), recorder, tokens: Tokens::new(1), seed: 1 };
        let spec = Spec {
            name: "a".to_owned(),
            path: "/".to_owned(),
            behaviours: Vec::new(),
            answers: Range::just(Duration(0)),
            scheme: Profile::Github.into(),
        };
        let keys = Endpoints::open(vec![spec], &stage).await.unwrap().keys();
        let known = || keys.all[0].secrets.read().unwrap().len();
        let secret = |text: &str| Key::from(Secret::parse(Profile::Github, text).unwrap());
        keys.learn(0, vec![secret("one-secret-of-sixteen")]);
        keys.add(0, secret("two-secrets-of-sixteen"));
        assert_eq!(known(), 2);
        keys.forget(0);
        keys.add(0, secret("three-secrets-of-sixteen"));
        assert_eq!(known(), 0, "one that was never learned may sign too");
    }
}
