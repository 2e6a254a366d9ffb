//! Name lookups: one at a time for each lane, with a bound for all lanes.
//!
//! The bound has three parts, so that unanswered names cannot use it up. A lookup starts in the part for names that
//! were answered last time, or in that for all others. After [`PROMPT`] it moves to the third part, or ends if that
//! is full, which is not the endpoint's fault.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::system_conf::read_system_conf;
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};
use tracing::warn;

use super::failure::Cause;
use super::timer::{after, lock, now};

/// Limits the lifetime of answers.
pub(super) const VALID_MAX: Duration = Duration::from_secs(300);
pub(super) const FAILED_FOR: Duration = Duration::from_secs(2);
/// An attempt's wait also ends with its connect deadline.
const LOOKUP_MAX: Duration = Duration::from_secs(5);
/// Slower answers move to the third part.
const PROMPT: Duration = Duration::from_millis(250);
const ADDRESSES_MAX: usize = 16;

const KNOWN_MAX: usize = 16_384;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotFound {
    NoRoom,
    Because(Cause),
}

impl From<&str> for NotFound {
    fn from(cause: &str) -> Self {
        Self::Because(cause.into())
    }
}

pub(super) struct Asker {
    resolver: Arc<dyn Resolve>,
    answered: Mutex<Answered>,
    known: Semaphore,
    unknown: Semaphore,
    slow: Semaphore,
}

impl Asker {
    /// `sockets_max` bounds the sockets of deliveries. Lookups get a small share; each may need two.
    pub(super) fn new(resolver: Arc<dyn Resolve>, sockets_max: u32) -> Arc<Self> {
        let quarter = usize::try_from(sockets_max / 32).unwrap_or(usize::MAX).clamp(2, 64);
        let [known, unknown, slow] = [quarter, quarter, 2 * quarter].map(Semaphore::new);
        Arc::new(Self { resolver, answered: Mutex::default(), known, unknown, slow })
    }

    async fn resolve(&self, name: &str, has_turn: &AtomicBool) -> Result<Addresses, NotFound> {
        let found = self.resolve_in_turn(name, has_turn).await;
        lock(&self.answered).record_answer(name, found.is_ok());
        found
    }

    async fn resolve_in_turn(&self, name: &str, has_turn: &AtomicBool) -> Result<Addresses, NotFound> {
        let is_known = lock(&self.answered).has(name);
        let part = if is_known { &self.known } else { &self.unknown };
        // First come, first served; each lane has at most one.
        let turn = part.acquire().await.map_err(|closed| NotFound::Because(Cause::of(&closed)))?;
        has_turn.store(true, Ordering::Release);
        let mut asking = self.resolver.resolve(name);
        let found = match timeout(PROMPT, &mut asking).await {
            Ok(found) => found,
            Err(_) => {
                let Ok(_slow) = self.slow.try_acquire() else {
                    return Err(NotFound::NoRoom);
                };
                drop(turn);
                match timeout(LOOKUP_MAX - PROMPT, asking).await {
                    Ok(found) => found,
                    Err(_) => return Err("the name servers did not answer in time".into()),
                }
            }
        };
        found.map_err(|error| NotFound::Because(Cause::of(&error)))
    }
}

/// Beyond [`KNOWN_MAX`], the oldest is forgotten. Outlives the lanes.
#[derive(Default)]
struct Answered {
    names: BTreeMap<Arc<str>, u64>,
    in_order: BTreeMap<u64, Arc<str>>,
    answers: u64,
}

impl Answered {
    fn has(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    fn record_answer(&mut self, name: &str, is_answered: bool) {
        if let Some(before) = self.names.remove(name) {
            self.in_order.remove(&before);
        }
        if !is_answered {
            return;
        }
        self.answers += 1;
        let name: Arc<str> = name.into();
        self.in_order.insert(self.answers, Arc::clone(&name));
        self.names.insert(name, self.answers);
        if self.names.len() > KNOWN_MAX
            && let Some((_, oldest)) = self.in_order.pop_first()
        {
            self.names.remove(&oldest);
        }
    }
}

#[derive(Clone, Debug)]
struct Answer {
    found: Result<Arc<[IpAddr]>, NotFound>,
    until: Instant,
}

impl Answer {
    fn of(found: Result<Addresses, NotFound>) -> Self {
        let valid_for = found.as_ref().map_or(FAILED_FOR, |found| found.valid_for.min(VALID_MAX));
        let found = found.map(|found| found.all.into_iter().take(ADDRESSES_MAX).collect());
        Self { found, until: after(valid_for) }
    }
}

/// A lane has one name at a time.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    latest: Mutex<Option<Latest>>,
}

#[derive(Debug)]
struct Latest {
    name: Box<str>,
    answer: watch::Receiver<Option<Answer>>,
    has_turn: Arc<AtomicBool>,
    task: AbortHandle,
}

impl Lookups {
    pub(super) async fn find(&self, asker: &Arc<Asker>, name: &str) -> Result<Arc<[IpAddr]>, NotFound> {
        let mut answer = self.join_or_begin(asker, name);
        let found = answer.wait_for(Option::is_some).await;
        match found.as_deref() {
            Ok(Some(answer)) => answer.found.clone(),
            // The resolver panicked, or the lane now needs another name.
            Ok(None) | Err(_) => Err("the lookup ended without an answer".into()),
        }
    }

    fn join_or_begin(&self, asker: &Arc<Asker>, name: &str) -> watch::Receiver<Option<Answer>> {
        let mut latest = lock(&self.latest);
        let before = latest.as_ref().filter(|before| *before.name == *name);
        if let Some(before) = before.filter(|before| before.is_of_use()) {
            return before.answer.clone();
        }
        let (tell, answer) = watch::channel(None);
        let has_turn = Arc::<AtomicBool>::default();
        let (asker, asked, turn) = (Arc::clone(asker), name.to_owned(), Arc::clone(&has_turn));
        let task = tokio::spawn(async move {
            let found = asker.resolve(&asked, &turn).await;
            tell.send_replace(Some(Answer::of(found)));
        });
        let task = task.abort_handle();
        *latest = Some(Latest { name: name.into(), answer: answer.clone(), has_turn, task });
        answer
    }

    pub(super) fn is_in_line(&self) -> bool {
        lock(&self.latest).as_ref().is_some_and(|latest| {
            latest.answer.borrow().is_none() && !latest.has_turn.load(Ordering::Acquire)
        })
    }
}

impl Latest {
    /// Whether it is under way, or its answer is still valid.
    fn is_of_use(&self) -> bool {
        match self.answer.borrow().as_ref() {
            Some(answer) => now() < answer.until,
            None => self.answer.has_changed().is_ok(),
        }
    }
}

impl Drop for Latest {
    /// No waiter is left, or the lane needs another name.
    fn drop(&mut self) {
        self.task.abort();
    }
}

// An unresponsive name server takes no thread.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The best first. May be empty.
    pub all: Vec<IpAddr>,
    pub valid_for: Duration,
}

pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Addresses>> + Send + 'a>>;

/// The transport bounds the time and the number of lookups.
pub trait Resolve: Send + Sync {
    /// Fails when the name has no address, or no server answered. Dropping the future gives up.
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a>;
}

/// Asks through `/etc/hosts` and `/etc/resolv.conf`, or one given server. Rereads both files when they change.
/// Ignores other sources such as nsswitch.conf and mDNS.
pub struct DnsResolver {
    server: Option<SocketAddr>,
    built: Mutex<Option<(Stamps, Arc<TokioResolver>)>>,
}

type Stamps = [Option<SystemTime>; 2];

impl DnsResolver {
    #[must_use]
    pub const fn system() -> Self {
        Self { server: None, built: Mutex::new(None) }
    }

    /// The system's hosts, and only this name server, over UDP and TCP.
    #[must_use]
    pub const fn asking(server: SocketAddr) -> Self {
        Self { server: Some(server), built: Mutex::new(None) }
    }

    /// Rebuilt when the system's configuration has changed.
    fn current_resolver(&self) -> io::Result<Arc<TokioResolver>> {
        let changed = |file| fs::metadata(file).and_then(|file| file.modified()).ok();
        let stamps = ["/etc/resolv.conf", "/etc/hosts"].map(changed);
        let mut built = lock(&self.built);
        if let Some((_, resolver)) = built.as_ref().filter(|(before, _)| *before == stamps) {
            return Ok(Arc::clone(resolver));
        }
        let resolver = Arc::new(self.build()?);
        *built = Some((stamps, Arc::clone(&resolver)));
        Ok(resolver)
    }

    fn build(&self) -> io::Result<TokioResolver> {
        let (config, options) = match self.server {
            Some(server) => (only(server), ResolverOpts::default()),
            None => read_system_conf().unwrap_or_else(|error| {
                // The C library does the same.
                let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 53));
                warn!(%error, server = %local, "/etc/resolv.conf names no usable name server; using 127.0.0.1");
                (only(local), ResolverOpts::default())
            }),
        };
        let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        *builder.options_mut() = bounded(options);
        builder.build().map_err(io::Error::other)
    }
}

fn only(server: SocketAddr) -> ResolverConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = server.port();
        connection
    });
    let server = NameServerConfig::new(server.ip(), true, connections.into());
    ResolverConfig::from_name_servers(vec![server])
}

fn bounded(mut options: ResolverOpts) -> ResolverOpts {
    /// Leaves time for a second name server.
    const TIMEOUT_MAX: Duration = Duration::from_millis(1_500);
    const ANSWERS_MAX: u64 = 1_024;
    /// See `lookups`; each asks for IPv4 and for IPv6.
    const QUESTIONS_MAX: usize = 1_024;
    options.timeout = options.timeout.min(TIMEOUT_MAX);
    options.attempts = options.attempts.clamp(1, 2);
    options.num_concurrent_reqs = 1;
    options.max_active_requests = QUESTIONS_MAX;
    options.cache_size = ANSWERS_MAX;
    options.positive_max_ttl = Some(super::lookups::VALID_MAX);
    options.negative_max_ttl = Some(super::lookups::FAILED_FOR);
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    options
}

impl Default for DnsResolver {
    fn default() -> Self {
        Self::system()
    }
}

impl Resolve for DnsResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        Box::pin(async move {
            let found = self.current_resolver()?.lookup_ip(name).await.map_err(io::Error::other)?;
            let valid_for = found.valid_until().saturating_duration_since(now().into_std());
            Ok(Addresses { all: found.iter().collect(), valid_for })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::task::JoinSet;

    use super::*;

    struct OneName;

    impl Resolve for OneName {
        fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
            let all = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
            match name {
                "healthy" => Box::pin(async { Ok(Addresses { all, valid_for: Duration::ZERO }) }),
                _ => Box::pin(std::future::pending()),
            }
        }
    }

    #[tokio::test]
    async fn a_name_that_was_answered_goes_ahead_of_names_that_hang_though_its_lane_was_forgotten() {
        let asker = Asker::new(Arc::new(OneName), 1);
        assert!(Lookups::default().find(&asker, "healthy").await.is_ok());
        let mut hanging = JoinSet::new();
        for lane in 0..100 {
            let asker = Arc::clone(&asker);
            hanging.spawn(async move { Lookups::default().find(&asker, &format!("hangs-{lane}")).await });
        }
        while asker.unknown.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let lookups = Lookups::default();
        tokio::select! {
            found = lookups.find(&asker, "healthy") => assert!(found.is_ok()),
            first = hanging.join_next() => panic!("a name that hangs came first: {first:?}"),
        }
        // It reports missing room, not a missing address.
        assert_eq!(hanging.join_next().await.unwrap().unwrap(), Err(NotFound::NoRoom));
        let new = Lookups::default();
        tokio::select! {
            biased;
            found = new.find(&asker, "new") => panic!("it came before those that wait: {found:?}"),
            () = std::future::ready(()) => assert!(new.is_in_line()),
        }
    }

    #[test]
    fn names_are_known_from_one_answer_to_the_next_failure_and_only_so_many() {
        let mut answered = Answered::default();
        answered.record_answer("a", true);
        answered.record_answer("b", true);
        assert!(answered.has("a") && answered.has("b"));
        answered.record_answer("a", false);
        assert!(!answered.has("a"));
        (0..KNOWN_MAX).for_each(|name| answered.record_answer(&name.to_string(), true));
        assert!(!answered.has("b") && answered.has("0"));
        assert_eq!((answered.names.len(), answered.in_order.len()), (KNOWN_MAX, KNOWN_MAX));
    }
}
