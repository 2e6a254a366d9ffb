//! Prevents server-side request forgery.
//!
//! A URL is checked when it is set ([`Target`]). Names may resolve differently later, so each connection's address is
//! checked after DNS ([`Guard::check`]). An IPv6 address that carries an IPv4 one (mapped, compatible, translated,
//! NAT64, 6to4, Teredo) is judged by the IPv4 address.

mod network;
mod ranges;
mod target;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use network::{Network, NetworkError, NetworkProblem};
pub use ranges::Range;
pub use target::{Parts, Target, TargetError};

#[derive(Clone, Debug, Default)]
pub struct Guard {
    allow_private: bool,
    https_only: bool,
    allowed: Vec<Network>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("refusing to connect to {address}: {judged} is {range}; to allow it, {}", self.remedy())]
pub struct Refused {
    pub address: IpAddr,
    /// The address, or one that it carries.
    pub judged: IpAddr,
    pub range: Range,
}

impl Refused {
    const fn remedy(&self) -> &'static str {
        if self.range.is_private() { "allow private targets or list its network" } else { "list its network" }
    }
}

impl Guard {
    /// Allows only public addresses.
    #[must_use]
    pub const fn strict() -> Self {
        Self { allow_private: false, https_only: false, allowed: Vec::new() }
    }

    /// Allows each address: for servers that operators name.
    #[must_use]
    pub(crate) fn open() -> Self {
        Self { allowed: vec![Network::v4([0; 4], 0), Network::v6([0; 8], 0)], ..Self::strict() }
    }

    /// See [`Range::is_private`]. Metadata services, which give out cloud credentials, and the local link
    /// (169.254.0.0/16 and fe80::/10) must be allowed by network.
    #[must_use]
    pub fn allow_private_targets(mut self) -> Self {
        self.allow_private = true;
        self
    }

    #[must_use]
    pub fn allow_network(mut self, network: Network) -> Self {
        self.allowed.push(network);
        self
    }

    #[must_use]
    pub const fn https_only(mut self) -> Self {
        self.https_only = true;
        self
    }

    #[must_use]
    pub(crate) const fn allows(&self, is_encrypted: bool) -> bool {
        is_encrypted || !self.https_only
    }

    pub fn check(&self, address: IpAddr) -> Result<(), Refused> {
        for judged in reached_by(address).into_iter().flatten() {
            if let Some(range) = Range::of(judged)
                && !self.lifts(judged, range)
            {
                return Err(Refused { address, judged, range });
            }
        }
        Ok(())
    }

    fn lifts(&self, address: IpAddr, range: Range) -> bool {
        (self.allow_private && range.is_private())
            || self.allowed.iter().any(|network| network.contains(address))
    }
}

/// Teredo carries the client's and the server's.
fn reached_by(address: IpAddr) -> [Option<IpAddr>; 2] {
    let IpAddr::V6(v6) = address else { return [Some(address), None] };
    match v6.segments() {
        // These are in the compatible range, but not IPv4.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => [Some(address), None],
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => {
            [Some(ipv4_at(v6, 96)), None]
        }
        [0x2002, ..] => [Some(ipv4_at(v6, 16)), None],
        // Stored inverted.
        [0x2001, 0, ..] => [Some(ipv4_at(v6, 32)), Some(ipv4_at(Ipv6Addr::from_bits(!v6.to_bits()), 96))],
        _ => [Some(address), None],
    }
}

fn ipv4_at(v6: Ipv6Addr, bit: usize) -> IpAddr {
    let octets = v6.octets();
    let at = bit / 8;
    IpAddr::V4(Ipv4Addr::new(octets[at], octets[at + 1], octets[at + 2], octets[at + 3]))
}

#[cfg(test)]
mod tests;
