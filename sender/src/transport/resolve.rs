//! Names to addresses, without a thread: a name server that does not answer costs a socket and a little memory.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::system_conf::read_system_conf;
use tracing::warn;

use super::sync::lock;
use super::timer::now;

/// The addresses of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The best first. There may be none.
    pub all: Vec<IpAddr>,
    /// For how long they may be gone by.
    pub valid_for: Duration,
}

/// What a look-up comes to.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Addresses>> + Send + 'a>>;

/// Knows the addresses of names. It need not bound its time, nor how many look-ups run: the transport does.
pub trait Resolve: Send + Sync {
    /// All addresses of a name. Fails when the name has none, or nobody could be asked. Dropped when it is given up.
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a>;
}

/// Asks name servers: those of `/etc/resolv.conf`, after a look into `/etc/hosts`, or one that is given. Both files are read
/// again when they have changed. Of what else a system may know (nsswitch.conf, mDNS) it knows nothing.
pub struct DnsResolver {
    server: Option<SocketAddr>,
    built: Mutex<Option<(Stamps, Arc<TokioResolver>)>>,
}

/// When the system's files were changed last.
type Stamps = [Option<SystemTime>; 2];

impl DnsResolver {
    /// The system's hosts and name servers.
    #[must_use]
    pub const fn system() -> Self {
        Self { server: None, built: Mutex::new(None) }
    }

    /// The system's hosts, and this name server alone, over UDP and TCP.
    #[must_use]
    pub const fn asking(server: SocketAddr) -> Self {
        Self { server: Some(server), built: Mutex::new(None) }
    }

    /// What asks, made anew when the system's configuration has changed.
    fn asks(&self) -> io::Result<Arc<TokioResolver>> {
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
                // As the C library does.
                let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 53));
                warn!(%error, server = %local, "/etc/resolv.conf names no name server that can be asked; using the usual one");
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

/// The same with the sender's own bounds.
fn bounded(mut options: ResolverOpts) -> ResolverOpts {
    /// A second name server has to get its turn within a look-up's time.
    const TIMEOUT_MAX: Duration = Duration::from_millis(1_500);
    /// Answers that are kept for all lanes.
    const ANSWERS_MAX: u64 = 1_024;
    /// More look-ups are never under way (see `lookups`), each with a question for IPv4 and one for IPv6.
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
            let found = self.asks()?.lookup_ip(name).await.map_err(io::Error::other)?;
            let valid_for = found.valid_until().saturating_duration_since(now().into_std());
            Ok(Addresses { all: found.iter().collect(), valid_for })
        })
    }
}
