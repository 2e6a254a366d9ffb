//! Endpoints: mock receivers that behave as a scenario says, and stamp arrivals.
//!
//! ```text
//!   port ──► listener ──► connection ──► choice ──► answer
//!            closed while    reads,        picks a     or none
//!            it refuses      stamps,       behaviour
//!                            records
//! ```
//!
//! Every endpoint has a port of its own, which accepts HTTP/1.1, and HTTP/2 by its preface or over TLS (`http2`,
//! `tls`). With a public URL all endpoints share one port, and the path or host of a request names its endpoint
//! (`reach`). An accepted connection has no endpoint until then, so a shut port (`refuse`, `no-accept`) resets each
//! request instead. A request for no endpoint is answered 404 and recorded.
//!
//! An arrival is stamped when its first byte is read, and recorded before its answer is written. An answer's times
//! are taken just *before* each write: the sender cannot have seen a byte earlier, so no check can accuse it
//! wrongly.
//!
//! Bounds: the head and body of a request (`request`), the deliveries with counted attempts (`choice`), and the
//! records that wait ([`hookproof_judge::trace::Recorder`]). The limit of open files bounds connections.

mod connection;
mod deed;
mod http2;
mod listener;
mod port;
mod reach;
mod request;
mod seen;
mod stray;
mod stream;
mod tls;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

pub(crate) use reach::ListenError;
pub use reach::{Bind, HOLE, PublicUrl, Reach, ReachError, Tls};
pub use tls::{Identity, TlsError};

use crate::clock::Clock;
use hookproof_judge::scenario::{Behaviour, Duration, Range};
use hookproof_judge::signature::{Key, Scheme};
use hookproof_judge::trace::{Head, Record, Recorder, Shared, SharedSecret, Text};
use hookproof_play::endpoint::choice::Choices;
use hookproof_play::traffic::Tokens;
use port::{Behind, Port};
use stray::Strays;

/// The settings of an endpoint.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The subscriber's name.
    pub name: String,
    /// The path of its URL, unless a public URL replaces it.
    pub path: String,
    /// Its behaviours.
    pub behaviours: Vec<Behaviour>,
    /// Its latency when it behaves.
    pub answers: Range<Duration>,
    /// The signature scheme of its requests.
    pub scheme: Scheme,
}

/// The context that all endpoints of a run share.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The run's clock.
    pub clock: Clock,
    /// Takes the records.
    pub recorder: Recorder,
    /// The form of the run's tokens.
    pub tokens: Tokens,
    /// The seed of its random choices.
    pub seed: u64,
}

/// The open endpoints of a run.
#[derive(Debug)]
pub struct Endpoints {
    keys: Keys,
    /// The address of each, in order.
    addresses: Vec<SocketAddr>,
    strays: Arc<Strays>,
    closing: watch::Sender<bool>,
    /// Closed when the last task of any endpoint ends.
    ended: mpsc::Receiver<()>,
}

/// The secrets of a run's endpoints. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    all: Vec<Arc<Endpoint>>,
    /// The first subscriber of each secret, by its hash, to find shared secrets.
    owners: Arc<Mutex<BTreeMap<[u8; 32], String>>>,
}

#[derive(Debug)]
struct Endpoint {
    name: String,
    /// The name, as records share it.
    text: Text,
    /// The URL of its subscriber.
    url: String,
    scheme: Scheme,
    /// Empty while unknown: then nothing can be verified.
    secrets: RwLock<Vec<Key>>,
    choices: Choices,
    /// The head of its latest request, which the next one usually repeats.
    last_head: Mutex<Option<Shared<Head>>>,
    stage: Stage,
}

/// The end signal of an endpoint's tasks.
#[derive(Clone, Debug)]
struct ShutdownSignal {
    closing: watch::Receiver<bool>,
    /// Held until the task ends.
    _alive: mpsc::Sender<()>,
}

impl Endpoints {
    /// Opens endpoints on loopback, in plain HTTP.
    pub async fn open(specs: Vec<Spec>, stage: &Stage) -> io::Result<Self> {
        Self::open_at(specs, stage, &Reach::default(), None).await
    }

    /// Opens endpoints at their address, over TLS if they have an identity.
    pub async fn open_at(
        specs: Vec<Spec>,
        stage: &Stage,
        reach: &Reach,
        identity: Option<&Identity>,
    ) -> io::Result<Self> {
        let (closing, tether) = watch::channel(false);
        let (alive, ended) = mpsc::channel(1);
        let tether = ShutdownSignal { closing: tether, _alive: alive };
        let strays = Arc::new(Strays::new(stage.clock.clone(), stage.recorder.clone()));
        let connections = Arc::new(AtomicU64::new(0));
        let listen = |listener: TcpListener, address: SocketAddr, behind: Behind| {
            let tls = identity.map(|identity| identity.acceptor.clone());
            let port = Port::new((address, behind), tls, stage, &strays, &connections);
            tokio::spawn(listener::listen(Arc::new(port), listener, tether.clone()));
        };
        let (mut all, mut addresses) = (Vec::new(), Vec::new());
        let specs = (0_u64..).zip(specs);
        if let Some(public) = &reach.public {
            let listener = reach.listen().await?;
            let address = listener.local_addr()?;
            for (number, spec) in specs {
                let url = public.url(&spec.name);
                all.push(Arc::new(Endpoint::new(spec, number, url, stage)));
                addresses.push(address);
            }
            let endpoints = all.iter().map(|one| (one.name.clone(), Arc::clone(one))).collect();
            listen(listener, address, Behind::All { url: public.clone(), endpoints });
        } else {
            let scheme = if identity.is_some() { "https" } else { "http" };
            for (number, spec) in specs {
                let listener = reach.listen().await?;
                let address = listener.local_addr()?;
                let url = format!("{scheme}://{address}{}", spec.path);
                let endpoint = Arc::new(Endpoint::new(spec, number, url, stage));
                all.push(Arc::clone(&endpoint));
                addresses.push(address);
                listen(listener, address, Behind::One(endpoint));
            }
        }
        Ok(Self { keys: Keys { all, owners: Arc::default() }, addresses, strays, closing, ended })
    }

    /// The URL of an endpoint.
    #[must_use]
    pub fn url(&self, at: usize) -> Option<String> {
        self.keys.all.get(at).map(|endpoint| endpoint.url.clone())
    }

    /// Their addresses, in order.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.addresses.clone()
    }

    /// Their secrets.
    #[must_use]
    pub fn keys(&self) -> Keys {
        self.keys.clone()
    }

    /// Sets the secrets of an endpoint's requests: see [`Keys::learn`].
    pub fn learn(&self, at: usize, secrets: Vec<Key>) {
        self.keys.learn(at, secrets);
    }

    /// Ends every open exchange, and waits until all is recorded.
    pub async fn close(mut self) {
        // There may be no task left.
        let _ = self.closing.send(true);
        while self.ended.recv().await.is_some() {}
        self.strays.end();
    }
}

impl Keys {
    /// Sets the secrets of an endpoint's requests, the oldest first. The trace records a secret that two
    /// endpoints share, without the secret itself.
    pub fn learn(&self, at: usize, secrets: Vec<Key>) {
        if let Some(endpoint) = self.all.get(at) {
            secrets.iter().for_each(|secret| self.tell_shared(endpoint, secret));
            *endpoint.secrets.write().unwrap_or_else(PoisonError::into_inner) = secrets;
        }
    }

    /// Adds a newer secret, unless the endpoint's secrets are unknown.
    pub fn add(&self, at: usize, secret: Key) {
        if let Some(endpoint) = self.all.get(at) {
            self.tell_shared(endpoint, &secret);
            let mut secrets = endpoint.secrets.write().unwrap_or_else(PoisonError::into_inner);
            if !secrets.is_empty() {
                secrets.push(secret);
            }
        }
    }

    /// Marks an endpoint's secrets as unknown: its signatures are no longer checked.
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
    fn new(spec: Spec, number: u64, url: String, stage: &Stage) -> Self {
        let Spec { name, behaviours, answers, scheme, .. } = spec;
        let choices = Choices::new(behaviours, answers, stage.seed, number);
        Self {
            text: name.as_str().into(),
            name,
            url,
            scheme,
            secrets: RwLock::default(),
            choices,
            last_head: Mutex::default(),
            stage: stage.clone(),
        }
    }
}

impl ShutdownSignal {
    fn is_closed(&self) -> bool {
        *self.closing.borrow()
    }

    async fn closed(&mut self) {
        // An error means that the endpoints are gone.
        let _ = self.closing.wait_for(|closing| *closing).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hookproof_judge::signature::{Profile, Secret};

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
