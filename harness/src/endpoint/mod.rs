//! Endpoints: mock receivers that behave as a scenario says, and stamp arrivals.
//!
//! ```text
//!   port ──► listener ──► connection ──► choice ──► answer
//!            closed while    reads,        picks a     or none
//!            it refuses      stamps,       behaviour
//!                            records
//! ```
//!
//! Every endpoint has a port of its own, which accepts HTTP/1.1, and HTTP/2 by its preface or over TLS. With a public
//! URL all endpoints share one port, and a request's path or host names its endpoint (`reach`). A shut port (`refuse`,
//! `no-accept`) then resets each request. A request for no endpoint is answered 404 and recorded.
//!
//! An arrival is stamped when its first byte is read, and recorded before its answer is written. An answer's times are
//! taken just *before* each write: the sender cannot have seen a byte earlier.
//!
//! Bounds: the head and body of a request (`request`), the deliveries with counted attempts (`Choices`), the waiting
//! records ([`hookproof_judge::trace::Recorder`]), and the limit of open files.

mod certificate;
mod connection;
mod form;
mod http2;
mod listener;
mod port;
mod reach;
mod request;
mod stream;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

pub use certificate::{Identity, TlsError};
use hookproof_judge::scenario::{
    Answer as Script, Behaviour, Duration, Permission, Range, Reply, RetryAfter, Size,
};
use hookproof_judge::signature::{Key, Scheme};
use hookproof_judge::trace::{CutKind, Head, Record, Recorder, Shared, SharedSecret, Stray, StrayKind, Text};
use hookproof_play::endpoint::{Choices, Enforced};
use hookproof_play::payload::Offered;
use hookproof_play::traffic::Tokens;
use port::{Behind, Port};
pub(crate) use reach::ListenError;
pub use reach::{Bind, HOLE, PublicUrl, Reach, ReachError, Tls};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use crate::clock::Clock;

#[derive(Clone, Debug)]
pub struct Spec {
    pub name: String,
    /// A public URL may replace it.
    pub path: String,
    pub behaviours: Vec<Behaviour>,
    pub answers: Range<Duration>,
    pub permission: Option<Permission>,
    pub scheme: Scheme,
}

#[derive(Clone, Debug)]
pub struct Stage {
    pub clock: Clock,
    pub recorder: Recorder,
    pub tokens: Tokens,
    pub seed: u64,
    /// Bodies are compared with these.
    pub offered: Option<Arc<Offered>>,
}

#[derive(Debug)]
pub struct Endpoints {
    keys: Keys,
    addresses: Vec<SocketAddr>,
    strays: Arc<Strays>,
    closing: watch::Sender<bool>,
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
    text: Text,
    url: String,
    scheme: Scheme,
    /// Empty while unknown.
    secrets: RwLock<Vec<Key>>,
    choices: Choices,
    permission: Option<(Permission, AtomicU64)>,
    last_head: Mutex<Option<Shared<Head>>>,
    stage: Stage,
}

#[derive(Clone, Debug)]
struct ShutdownSignal {
    closing: watch::Receiver<bool>,
    _alive: mpsc::Sender<()>,
}

impl Endpoints {
    pub async fn open(specs: Vec<Spec>, stage: &Stage) -> io::Result<Self> {
        Self::open_at(specs, stage, &Reach::default(), None).await
    }

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
            let port = Port::new((address, behind), identity.cloned(), stage, &strays, &connections);
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

    #[must_use]
    pub fn url(&self, at: usize) -> Option<String> {
        self.keys.all.get(at).map(|endpoint| endpoint.url.clone())
    }

    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.addresses.clone()
    }

    #[must_use]
    pub fn keys(&self) -> Keys {
        self.keys.clone()
    }

    pub fn learn(&self, at: usize, secrets: Vec<Key>) {
        self.keys.learn(at, secrets);
    }

    pub async fn close(mut self) {
        // There may be no task left.
        let _ = self.closing.send(true);
        while self.ended.recv().await.is_some() {}
        self.strays.end();
    }
}

impl Keys {
    /// Sets an endpoint's secrets, the oldest first. The trace records that two endpoints share a secret, without the
    /// secret.
    pub fn learn(&self, at: usize, secrets: Vec<Key>) {
        if let Some(endpoint) = self.all.get(at) {
            secrets.iter().for_each(|secret| self.share_secret(endpoint, secret));
            *endpoint.secrets.write().unwrap_or_else(PoisonError::into_inner) = secrets;
        }
    }

    /// Does nothing while the endpoint's secrets are unknown.
    pub fn add(&self, at: usize, secret: Key) {
        if let Some(endpoint) = self.all.get(at) {
            self.share_secret(endpoint, &secret);
            let mut secrets = endpoint.secrets.write().unwrap_or_else(PoisonError::into_inner);
            if !secrets.is_empty() {
                secrets.push(secret);
            }
        }
    }

    pub fn forget(&self, at: usize) {
        if let Some(endpoint) = self.all.get(at) {
            endpoint.secrets.write().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }

    fn share_secret(&self, endpoint: &Endpoint, secret: &Key) {
        let Some(mark) = secret.mark() else { return };
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let owner = owners.entry(mark).or_insert_with(|| endpoint.name.clone());
        if *owner != endpoint.name {
            let (t, endpoint_name) = (endpoint.stage.clock.now(), endpoint.name.clone());
            let shared = SharedSecret { t, endpoint: endpoint_name, with: owner.clone() };
            endpoint.stage.recorder.record(Record::SharedSecret(shared));
        }
    }
}

impl Endpoint {
    fn new(spec: Spec, number: u64, url: String, stage: &Stage) -> Self {
        let Spec { name, behaviours, answers, permission, scheme, .. } = spec;
        let choices = Choices::new(behaviours, answers, stage.seed, number);
        Self {
            text: name.as_str().into(),
            name,
            url,
            scheme,
            secrets: RwLock::default(),
            choices,
            permission: permission.map(|permission| (permission, AtomicU64::new(0))),
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

#[derive(Debug)]
enum Deed<'a> {
    Answer(Cow<'a, Reply>),
    Drip(Duration),
    HalfAnswer,
    Close,
    Reset,
}

impl Endpoint {
    fn deed<'a>(&self, chosen: Option<(usize, &'a Behaviour)>) -> Deed<'a> {
        let Some((place, behaviour)) = chosen else { return Deed::Answer(Cow::Owned(no_content())) };
        match &behaviour.answer {
            Script::Status(reply) => Deed::Answer(Cow::Borrowed(reply)),
            Script::Enforce { limit, burst } => {
                let now = self.stage.clock.now();
                Deed::Answer(Cow::Owned(match self.choices.enforce(place, *limit, *burst, now) {
                    Enforced::Inside => no_content(),
                    Enforced::Past { retry_after_s } => too_many(retry_after_s),
                }))
            }
            Script::HugeAnswer { body } => Deed::Answer(Cow::Owned(Reply { body: *body, ..ok() })),
            Script::Drip { pace } => Deed::Drip(*pace),
            Script::HalfAnswer => Deed::HalfAnswer,
            Script::Close => Deed::Close,
            // These belong before the read, which was not possible here.
            Script::Reset | Script::Refuse | Script::NoAccept | Script::ResetAfterRead => Deed::Reset,
            Script::Stall | Script::Blackhole | Script::WrongCertificate(_) => {
                Deed::Answer(Cow::Owned(no_content()))
            }
        }
    }
}

pub(super) struct Broken {
    pub(super) how: CutKind,
    why: Option<Cow<'static, str>>,
}

impl From<CutKind> for Broken {
    fn from(how: CutKind) -> Self {
        Self { how, why: None }
    }
}

fn is_blackhole(chosen: Option<(usize, &Behaviour)>) -> bool {
    chosen.is_some_and(|(_, behaviour)| matches!(behaviour.answer, Script::Blackhole))
}

const fn no_content() -> Reply {
    Reply { status: 204, retry_after: None, body: Size(0), location: None }
}

const fn ok() -> Reply {
    Reply { status: 200, retry_after: None, body: Size(0), location: None }
}

fn too_many(retry_after_s: u64) -> Reply {
    Reply { status: 429, retry_after: Some(RetryAfter::Seconds(retry_after_s)), ..no_content() }
}

// The first strays are recorded one by one, the rest counted.

const STRAYS_MAX: u64 = 1_000;
const SAID_MAX: usize = 300;

#[derive(Debug)]
struct Strays {
    clock: Clock,
    recorder: Recorder,
    requests: AtomicU64,
    handshakes: AtomicU64,
}

impl Strays {
    fn new(clock: Clock, recorder: Recorder) -> Self {
        Self { clock, recorder, requests: AtomicU64::new(0), handshakes: AtomicU64::new(0) }
    }

    /// `token` is the harness's, if there was one.
    fn record_or_count(&self, kind: StrayKind, token: Option<u64>, said: &str) {
        if self.count(kind).fetch_add(1, Ordering::Relaxed) < STRAYS_MAX {
            let said: String = said.chars().take(SAID_MAX).collect();
            self.record(Stray { t: self.clock.now(), kind, token, said, count: 1 });
        }
    }

    /// Records the counted rest. Called once, after all connections have ended.
    fn end(&self) {
        for kind in [StrayKind::Request, StrayKind::Handshake] {
            let count = self.count(kind).load(Ordering::Relaxed).saturating_sub(STRAYS_MAX);
            if count > 0 {
                let said = "not recorded individually".to_owned();
                self.record(Stray { t: self.clock.now(), kind, token: None, said, count });
            }
        }
    }

    const fn count(&self, kind: StrayKind) -> &AtomicU64 {
        match kind {
            StrayKind::Request => &self.requests,
            StrayKind::Handshake => &self.handshakes,
        }
    }

    fn record(&self, stray: Stray) {
        self.recorder.record(Record::Stray(stray));
    }
}

#[cfg(test)]
mod tests {
    use hookproof_judge::signature::{Profile, Secret};

    use super::*;

    #[tokio::test]
    async fn an_endpoint_whose_secrets_are_not_all_known_checks_none() {
        let (recorder, _records) = Recorder::new(10);
        let stage = Stage { clock: Clock::begun(), recorder, tokens: Tokens::new(1), seed: 1, offered: None };
        let spec = Spec {
            name: "a".to_owned(),
            path: "/".to_owned(),
            behaviours: Vec::new(),
            answers: Range::just(Duration(0)),
            permission: None,
            scheme: Profile::GITHUB.into(),
        };
        let keys = Endpoints::open(vec![spec], &stage).await.unwrap().keys();
        let known = || keys.all[0].secrets.read().unwrap().len();
        let secret = |text: &str| Key::from(Secret::parse(Profile::GITHUB, text).unwrap());
        keys.learn(0, vec![secret("one-secret-of-sixteen")]);
        keys.add(0, secret("two-secrets-of-sixteen"));
        assert_eq!(known(), 2);
        keys.forget(0);
        keys.add(0, secret("three-secrets-of-sixteen"));
        assert_eq!(known(), 0, "one that was never learned may sign too");
    }

    #[test]
    fn an_endless_stream_of_strays_is_counted_to_its_end() {
        let (recorder, records) = Recorder::new(10_000);
        let strays = Strays::new(Clock::begun(), recorder);
        for _ in 0..STRAYS_MAX + 7 {
            strays.record_or_count(StrayKind::Handshake, None, &"x".repeat(SAID_MAX + 1));
        }
        strays.record_or_count(StrayKind::Request, Some(3), "POST /");
        strays.end();
        let stray = |record| if let Record::Stray(stray) = record { Some(stray) } else { None };
        let kept: Vec<Stray> = records.take().into_iter().filter_map(stray).collect();
        assert_eq!(kept.iter().map(|stray| stray.count).sum::<u64>(), STRAYS_MAX + 8);
        assert_eq!(kept.len(), usize::try_from(STRAYS_MAX).unwrap() + 2);
        assert!(kept.iter().all(|stray| stray.said.len() <= SAID_MAX));
    }
}
