//! Opens connections, to addresses that the guard has seen and to no others.

use std::iter;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use url::Host;

use super::failure::{Cause, Failure};
use super::http1::Http1;
use super::http2::Http2;
use super::limit::SocketPermit;
use super::lookups::{Asker, Lookups};
use super::route::Origin;
use super::sockets;
use super::tls::HTTP2;
use super::wire::{Speaks, Stream, Wire};
use crate::guard::Guard;

/// How long an address may take before the next is tried beside it (RFC 8305).
const STAGGER: Duration = Duration::from_millis(250);

pub(super) struct Connector {
    pub(super) guard: Guard,
    pub(super) asker: Arc<Asker>,
    pub(super) tls: TlsConnector,
}

/// A new connection, by what the two ends agreed to speak.
pub(super) enum Opened {
    Http1(Http1),
    Http2(Arc<Http2>),
}

impl Connector {
    pub(super) async fn open(
        &self,
        origin: &Origin,
        lookups: &Lookups,
        permit: SocketPermit,
    ) -> Result<Opened, Failure> {
        let addresses = self.addresses(origin, lookups).await?;
        let tcp = first_connected(addresses).await?;
        let Some(name) = &origin.tls else {
            let wire = Wire::new(Stream::Plain(tcp), Speaks::Http1, permit);
            return Ok(Opened::Http1(Http1::over(wire).await?));
        };
        let failed = |error| Failure::Tls { host: origin.shown(), cause: Cause::of(&error) };
        let tls = self.tls.connect(name.clone(), tcp).await.map_err(failed)?;
        let speaks_http2 = tls.get_ref().1.alpn_protocol() == Some(HTTP2);
        let stream = Stream::Tls(Box::new(tls));
        Ok(if speaks_http2 {
            Opened::Http2(Http2::over(Wire::new(stream, Speaks::http2(), permit)).await?)
        } else {
            Opened::Http1(Http1::over(Wire::new(stream, Speaks::Http1, permit)).await?)
        })
    }

    /// Where to connect to: never empty, nothing that the guard refuses. What is returned is what is connected to; the
    /// name is not asked for again.
    async fn addresses(&self, origin: &Origin, lookups: &Lookups) -> Result<Vec<SocketAddr>, Failure> {
        let found: Vec<IpAddr> = match &origin.host {
            Host::Ipv4(v4) => vec![IpAddr::V4(*v4)],
            Host::Ipv6(v6) => vec![IpAddr::V6(*v6)],
            Host::Domain(name) if is_localhost(name) => {
                vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
            }
            Host::Domain(name) => {
                let unresolved = |cause| Failure::Unresolved { host: origin.shown(), cause };
                let found = lookups.find(&self.asker, name).await.map_err(unresolved)?;
                if found.is_empty() {
                    return Err(unresolved("the name has no address".into()));
                }
                found.to_vec()
            }
        };
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

/// Whether a name is this machine's by definition (RFC 6761 §6.3), so that nobody need be asked.
fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name == "localhost" || name.ends_with(".localhost")
}

/// The addresses in their order, but families by turns, so that one that is broken costs one try.
fn alternating(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let Some(first) = addresses.first() else { return addresses };
    let of_first = first.is_ipv4();
    let (one, other): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|a| a.is_ipv4() == of_first);
    let longer = one.len().max(other.len());
    let (mut one, mut other) = (one.into_iter(), other.into_iter());
    iter::repeat_with(|| [one.next(), other.next()]).take(longer).flatten().flatten().collect()
}

/// A connection to the address that answers first. The next one is tried when one has failed, or takes long.
async fn first_connected(addresses: Vec<SocketAddr>) -> Result<TcpStream, Failure> {
    if let [only] = *addresses {
        return connect(only).await;
    }
    let mut waiting = addresses.into_iter();
    let mut trying = JoinSet::new();
    let mut failure = Failure::Request("there is no address to connect to".into());
    loop {
        if let Some(address) = waiting.next() {
            trying.spawn(connect(address));
        }
        let tried = match waiting.len() {
            0 => trying.join_next().await,
            _ => match timeout(STAGGER, trying.join_next()).await {
                Ok(tried) => tried,
                Err(_) => continue,
            },
        };
        match tried {
            Some(Ok(Ok(tcp))) => return Ok(tcp),
            Some(Ok(Err(failed))) => failure = failed,
            // A task that panicked, which is as good as an address that failed.
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
    // A request is written whole; waiting for more to put into its packet would only delay it.
    tcp.set_nodelay(true).map_err(failed)?;
    Ok(tcp)
}

#[cfg(test)]
mod tests {
    use super::*;

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
