//! Opens connections, only to addresses that the guard has checked.

use std::iter;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use url::Host;

use super::failure::{Cause, Failure};
use super::http1::Http1;
use super::http2::Http2;
use super::limit::SocketPermit;
use super::lookups::{Asker, Lookups, NotFound};
use super::proxy::EgressProxy;
use super::route::Origin;
use super::sockets::{self, Sockets};
use super::timer::{SOONER, after, now};
use super::tls::{HTTP1, HTTP2, Tls};
use super::traffic::Charged;
use super::wire::{Speaks, Stream, Wire};
use crate::excerpt::Excerpt;
use crate::guard::Guard;

/// RFC 8305: the next address is tried in parallel.
const STAGGER: Duration = Duration::from_millis(250);

/// Then running tries are replaced, where no place for another is free.
const ALONE_MAX: Duration = Duration::from_secs(1);

/// A proxy that takes no connection for so long is at fault.
const PATIENCE_MIN: Duration = Duration::from_secs(1);

pub(super) struct Connector {
    pub(super) guard: Guard,
    pub(super) asker: Arc<Asker>,
    pub(super) tls: Tls,
    pub(super) sockets: Arc<Sockets>,
    pub(super) proxy: Option<Arc<EgressProxy>>,
}

pub(super) enum Opened {
    Http1(Box<Http1>),
    Http2(Arc<Http2>),
}

impl Connector {
    pub(super) async fn open(
        &self,
        origin: &Origin,
        lookups: &Lookups,
        permit: SocketPermit,
        deadline: Instant,
    ) -> Result<Opened, Failure> {
        let (stream, permit) = self.stream(origin, lookups, permit, deadline, false).await?;
        let speaks_http2 =
            matches!(&stream, Stream::Tls(tls) if tls.get_ref().1.alpn_protocol() == Some(HTTP2));
        Ok(if speaks_http2 {
            let wire = Wire::new(stream, Speaks::http2(), permit);
            Opened::Http2(Http2::over(wire, Arc::clone(&self.sockets)).await?)
        } else {
            Opened::Http1(Box::new(Http1::over(Wire::new(stream, Speaks::Http1, permit))))
        })
    }

    /// For a request that is no attempt.
    pub(super) async fn open_http1(
        &self,
        origin: &Origin,
        lookups: &Lookups,
        permit: SocketPermit,
        deadline: Instant,
    ) -> Result<Wire, Failure> {
        let (stream, permit) = self.stream(origin, lookups, permit, deadline, true).await?;
        Ok(Wire::new(stream, Speaks::Http1, permit))
    }

    async fn stream(
        &self,
        origin: &Origin,
        lookups: &Lookups,
        permit: SocketPermit,
        deadline: Instant,
        only_http1: bool,
    ) -> Result<(Stream, SocketPermit), Failure> {
        if !self.guard.allows(origin.tls.is_some()) {
            return Err(Failure::Unencrypted);
        }
        let tls = match &origin.tls {
            Some(name) => Some((name, self.tls.connector(origin.files.as_ref()).await?)),
            None => None,
        };
        let addresses = self.addresses(origin, lookups).await?;
        let tcp = match (&self.proxy, &*addresses) {
            (None, &[only]) => connect(only).await?,
            (None, _) => {
                first_connected(addresses, deadline, || permit.beside(&self.sockets), connect).await?
            }
            (Some(proxy), _) => {
                let way = Way { proxy: Arc::clone(proxy), asker: Arc::clone(&self.asker), deadline };
                let reach = |address| way.clone().reach(address);
                first_connected(addresses, deadline, || permit.beside(&self.sockets), reach).await?
            }
        };
        let tcp = Charged::new(tcp, Arc::clone(&permit.limit().account));
        let Some((name, connector)) = tls else {
            return Ok((Stream::Plain(tcp), permit));
        };
        let failed = |error| Failure::Tls { host: origin.excerpt(), cause: Cause::of(&error) };
        let connecting = if only_http1 {
            connector.with_alpn(vec![HTTP1.to_vec()]).connect(name.clone(), tcp)
        } else {
            connector.connect(name.clone(), tcp)
        };
        Ok((Stream::Tls(Box::new(connecting.await.map_err(failed)?)), permit))
    }

    /// Never empty, and none that the guard refuses.
    async fn addresses(&self, origin: &Origin, lookups: &Lookups) -> Result<Vec<SocketAddr>, Failure> {
        let found = resolved(&origin.host, lookups, &self.asker).await?;
        let mut allowed = Vec::with_capacity(found.len());
        let mut refused = None;
        for address in found {
            match self.guard.check(address) {
                Ok(()) => allowed.push(SocketAddr::new(address, origin.port)),
                Err(refusal) => refused = refused.or(Some(refusal)),
            }
        }
        match refused {
            Some(refusal) if allowed.is_empty() => Err(Failure::Refused(refusal)),
            _ => Ok(alternating(allowed)),
        }
    }
}

/// Never empty.
async fn resolved(
    host: &Host<String>,
    lookups: &Lookups,
    asker: &Arc<Asker>,
) -> Result<Vec<IpAddr>, Failure> {
    let name = match host {
        Host::Ipv4(v4) => return Ok(vec![IpAddr::V4(*v4)]),
        Host::Ipv6(v6) => return Ok(vec![IpAddr::V6(*v6)]),
        Host::Domain(name) if is_localhost(name) => {
            return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        Host::Domain(name) => name,
    };
    let unresolved = |cause| Failure::Unresolved { host: Excerpt::of(name), cause };
    let found = lookups.find(asker, name).await.map_err(|failed| match failed {
        NotFound::NoRoom => Failure::NoLookup,
        NotFound::Because(cause) => unresolved(cause),
    })?;
    if found.is_empty() { Err(unresolved("the name has no address".into())) } else { Ok(found.to_vec()) }
}

#[derive(Clone)]
struct Way {
    proxy: Arc<EgressProxy>,
    asker: Arc<Asker>,
    deadline: Instant,
}

impl Way {
    /// `target` is an address that the guard has checked. A proxy is the operator's own choice: none is refused.
    async fn reach(self, target: SocketAddr) -> Result<TcpStream, Failure> {
        let proxy = &self.proxy;
        if !proxy.leads_to(target.ip()) {
            return connect(target).await;
        }
        let turn = proxy.enter()?;
        turn.end(self.tunnel(target).await)
    }

    async fn tunnel(&self, target: SocketAddr) -> Result<TcpStream, Failure> {
        // Sooner than the attempt's own, so that the reason names the proxy.
        let until = self.deadline.checked_sub(SOONER).unwrap_or(self.deadline);
        let began = now();
        let opened = timeout_at(until, self.to_proxy(until)).await;
        // A subscriber's short `connect_timeout` must not hold up the others.
        let opened = opened.unwrap_or_else(|_| match now() - began {
            waited if waited < PATIENCE_MIN => Err(Failure::ProxyDeadline { target }),
            waited => Err(Failure::Proxy(format!("no connection to it within {waited:.0?}").as_str().into())),
        });
        let mut tcp = opened.map_err(|failure| match failure {
            Failure::NoSocket { .. } | Failure::NoLookup => failure,
            failure => Failure::Proxy(Cause::of(&failure)),
        })?;
        let asked = timeout_at(until, self.proxy.connect_through(&mut tcp, target)).await;
        asked.unwrap_or(Err(Failure::ProxyDeadline { target }))?;
        Ok(tcp)
    }

    async fn to_proxy(&self, until: Instant) -> Result<TcpStream, Failure> {
        let EgressProxy { host, port, lookups, .. } = &*self.proxy;
        let found = resolved(host, lookups, &self.asker).await?;
        let addresses = found.into_iter().map(|address| SocketAddr::new(address, *port)).collect();
        first_connected(alternating(addresses), until, || None::<()>, connect).await
    }
}

/// Means this machine by definition (RFC 6761 §6.3).
fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name == "localhost" || name.ends_with(".localhost")
}

/// Alternates the address families, so that a broken one costs one try.
fn alternating(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let Some(first) = addresses.first() else { return addresses };
    let of_first = first.is_ipv4();
    let (one, other): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|a| a.is_ipv4() == of_first);
    let longer = one.len().max(other.len());
    let (mut one, mut other) = (one.into_iter(), other.into_iter());
    iter::repeat_with(|| [one.next(), other.next()]).take(longer).flatten().flatten().collect()
}

/// An equal share of the time left, or at least a stagger if that leaves time.
fn patience(left: Duration, waiting: usize) -> Duration {
    let parts = u32::try_from(waiting).unwrap_or(u32::MAX).saturating_add(1);
    (left / parts).max(STAGGER.min(left / 2)).min(ALONE_MAX)
}

/// A parallel try takes another place of the lane and among all sockets; without one, it waits a little longer and
/// replaces the running tries. Every address gets its turn, if time permits.
async fn first_connected<T, F, P>(
    addresses: Vec<SocketAddr>,
    deadline: Instant,
    place_beside: impl Fn() -> Option<P>,
    connect: impl Fn(SocketAddr) -> F,
) -> Result<T, Failure>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Failure>> + Send + 'static,
    P: Send + 'static,
{
    let mut waiting = addresses.into_iter();
    let mut trying = JoinSet::new();
    let mut failure = Failure::Request("there is no address to connect to".into());
    // The running tries are not replaced before then.
    let mut alone_until = now();
    loop {
        let is_beside = waiting.len() > 0 && !trying.is_empty();
        let beside = if is_beside { place_beside() } else { None };
        if is_beside && beside.is_none() && alone_until <= now() {
            trying.shutdown().await;
        }
        if (beside.is_some() || trying.is_empty())
            && let Some(address) = waiting.next()
        {
            let trial = connect(address);
            trying.spawn(async move { (trial.await, beside) });
            alone_until = after(patience(deadline.saturating_duration_since(now()), waiting.len()));
        }
        let tried = if waiting.len() == 0 {
            trying.join_next().await
        } else {
            match timeout_at(alone_until.min(after(STAGGER)), trying.join_next()).await {
                Ok(tried) => tried,
                Err(_) => continue,
            }
        };
        match tried {
            Some(Ok((Ok(connected), beside))) => {
                // The other tries must end before this place is freed.
                trying.shutdown().await;
                drop(beside);
                return Ok(connected);
            }
            // It would end the other tries too.
            Some(Ok((Err(failed), _))) if failed.is_the_proxys() => {
                trying.shutdown().await;
                return Err(failed);
            }
            Some(Ok((Err(failed), _))) => failure = failed,
            Some(Err(_)) => {}
            None => return Err(failure),
        }
    }
}

async fn connect(address: SocketAddr) -> Result<TcpStream, Failure> {
    let failed = |error| {
        if sockets::are_used_up(&error) {
            Failure::NoSocket { max: sockets::max_by_limit() }
        } else {
            Failure::Connect { address, cause: Cause::of(&error) }
        }
    };
    let tcp = TcpStream::connect(address).await.map_err(failed)?;
    // The whole request is written at once.
    tcp.set_nodelay(true).map_err(failed)?;
    Ok(tcp)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Returns the result, the most parallel tries, and the sockets left open.
    async fn tried(hanging: u8, sockets_max: u32) -> (Result<u16, Failure>, usize, u32) {
        let sockets = Sockets::new(sockets_max);
        let first = sockets.enter().unwrap();
        let addresses =
            (0..=hanging).map(|last| SocketAddr::from(([127, 0, 0, last], u16::from(last)))).collect();
        let counted = Arc::new(());
        let most = Arc::new(AtomicUsize::new(0));
        let connect = |address: SocketAddr| {
            let held = Arc::clone(&counted);
            most.fetch_max(Arc::strong_count(&counted) - 1, Ordering::SeqCst);
            async move {
                if address.port() < u16::from(hanging) {
                    std::future::pending::<()>().await;
                }
                drop(held);
                Ok(address.port())
            }
        };
        let deadline = after(Duration::from_secs(60));
        let connected = first_connected(addresses, deadline, || sockets.enter(), connect).await;
        let open = sockets.open();
        drop(first);
        (connected, most.load(Ordering::SeqCst), open)
    }

    #[tokio::test]
    async fn no_more_addresses_are_tried_at_once_than_there_are_sockets() {
        assert_eq!(tried(3, 10).await, (Ok(3), 4, 1));
        assert_eq!(tried(3, 3).await, (Ok(3), 3, 1));
        assert_eq!(tried(1, 1).await, (Ok(1), 1, 1), "one is given up for the next");
    }

    #[tokio::test]
    async fn an_address_that_hangs_is_given_up_in_time_for_the_next() {
        let addresses = [0, 1].map(|port| SocketAddr::from(([127, 0, 0, 1], port))).into();
        let connect = async |address: SocketAddr| match address.port() {
            0 => std::future::pending().await,
            port => Ok(port),
        };
        let looks = AtomicUsize::new(0);
        let no_place = || {
            looks.fetch_add(1, Ordering::SeqCst);
            None::<()>
        };
        let deadline = after(Duration::from_millis(900));
        assert_eq!(first_connected(addresses, deadline, no_place, connect).await, Ok(1));
        assert!(looks.load(Ordering::SeqCst) <= 2, "{looks:?}");
    }

    #[test]
    fn the_tries_under_way_leave_time_for_those_that_wait() {
        let millis = Duration::from_millis;
        for (left, waiting, expected) in [
            (60_000, 1, 1_000),
            (900, 1, 450),
            (900, 2, 300),
            (900, 9, 250),
            (400, 9, 200),
            (10, 1, 5),
            (0, 1, 0),
        ] {
            assert_eq!(patience(millis(left), waiting), millis(expected), "{left} ms, {waiting} wait");
        }
    }

    #[test]
    fn only_this_machines_own_names_are_known_without_asking() {
        for (name, expected) in [
            ("localhost", true),
            ("localhost.", true),
            ("a.localhost", true),
            ("notlocalhost", false),
            ("localhost.example", false),
        ] {
            assert_eq!(is_localhost(name), expected, "{name}");
        }
    }

    #[test]
    fn families_of_addresses_take_turns() {
        let ordered = |given: &[&str]| {
            let parsed = given.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 1)).collect();
            alternating(parsed).iter().map(|address| address.ip().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(ordered(&[]), [""; 0]);
        assert_eq!(ordered(&["::1", "::2", "1.0.0.1"]), ["::1", "1.0.0.1", "::2"]);
        assert_eq!(ordered(&["1.0.0.1", "1.0.0.2"]), ["1.0.0.1", "1.0.0.2"]);
        assert_eq!(ordered(&["1.0.0.1", "::1", "::2", "::3"]), ["1.0.0.1", "::1", "::2", "::3"]);
    }
}
