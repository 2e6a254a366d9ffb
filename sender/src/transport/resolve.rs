//! Resolves names without threads, so that an unresponsive name server costs little.

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
    /// The best first. May be empty.
    pub all: Vec<IpAddr>,
    /// How long they are valid.
    pub valid_for: Duration,
}

/// The result of a lookup.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Addresses>> + Send + 'a>>;

/// Resolves names. The transport bounds the time and the number of lookups.
pub trait Resolve: Send + Sync {
    /// Fails when the name has no address, or no server answered. The transport drops the future to give up.
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a>;
}

/// Resolves through `/etc/hosts` and `/etc/resolv.conf`, or one given server. Reads both files again when
/// they change. Ignores other sources such as nsswitch.conf and mDNS.
pub struct DnsResolver {
    server: Option<SocketAddr>,
    built: Mutex<Option<(Stamps, Arc<TokioResolver>)>>,
}

type Stamps = [Option<SystemTime>; 2];

impl DnsResolver {
    /// Uses the system's hosts and name servers.
    #[must_use]
    pub const fn system() -> Self {
        Self { server: None, built: Mutex::new(None) }
    }

    /// Uses the system's hosts and only this name server, over UDP and TCP.
    #[must_use]
    pub const fn asking(server: SocketAddr) -> Self {
        Self { server: Some(server), built: Mutex::new(None) }
    }

    /// Rebuilt when the system's configuration has changed.
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
                // The C library does the same.
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
            let found = self.asks()?.lookup_ip(name).await.map_err(io::Error::other)?;
            let valid_for = found.valid_until().saturating_duration_since(now().into_std());
            Ok(Addresses { all: found.iter().collect(), valid_for })
        })
    }
}
