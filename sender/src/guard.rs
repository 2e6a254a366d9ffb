//! Keeps a subscriber's URL from reaching into the network that the sender runs in (server-side request forgery).
//!
//! A URL is checked when it is set ([`Target`]), which gives its owner a clear answer. That check proves nothing
//! later: a name may resolve to another address each time. So the runtime asks again with the address that it is
//! about to connect to, after DNS, for every connection ([`Guard::check`]); that one decides.
//!
//! Addresses are judged by what they reach, not by how they are written: an IPv6 address that carries an IPv4 one
//! (mapped, compatible, translated, NAT64, 6to4, Teredo) is judged by the one it carries.
//!
//! Pure: no resolver and no socket in here.

mod network;
mod ranges;
mod target;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use network::{Network, NetworkError, NetworkProblem};
pub use ranges::Range;
pub use target::{Parts, Target, TargetError};

/// What may be connected to.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    allow_private: bool,
    allowed: Vec<Network>,
}

/// An address that must not be connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("will not connect to {address}: {judged} is {range}; if it is meant, {}", self.remedy())]
pub struct Refused {
    /// The address.
    pub address: IpAddr,
    /// What was judged: the address, or one that it carries.
    pub judged: IpAddr,
    /// Where it lies.
    pub range: Range,
}

impl Refused {
    const fn remedy(&self) -> &'static str {
        if self.range.is_private() { "allow private targets or list its network" } else { "list its network" }
    }
}

impl Guard {
    /// Lets through nothing but public addresses.
    #[must_use]
    pub const fn strict() -> Self {
        Self { allow_private: false, allowed: Vec::new() }
    }

    /// Lets through private addresses too: everything that [`Range::is_private`] says is. Never the addresses at which
    /// clouds hand out credentials, nor any of the local link (169.254.0.0/16 and fe80::/10), where most of these lie; those must
    /// be listed.
    #[must_use]
    pub fn allow_private_targets(mut self) -> Self {
        self.allow_private = true;
        self
    }

    /// Lets through what lies in this network, whatever it is.
    #[must_use]
    pub fn allow_network(mut self, network: Network) -> Self {
        self.allowed.push(network);
        self
    }

    /// Whether this address may be connected to.
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

/// Where packets to an address may end up: at itself, or, for a tunnel or a translation, at the IPv4 address that it
/// carries. Teredo carries two, of the client and of its server.
fn reached_by(address: IpAddr) -> [Option<IpAddr>; 2] {
    let IpAddr::V6(v6) = address else { return [Some(address), None] };
    match v6.segments() {
        // The unspecified address and loopback are in the compatible range, but are themselves.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => [Some(address), None],
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => {
            [Some(ipv4_at(v6, 96)), None]
        }
        [0x2002, ..] => [Some(ipv4_at(v6, 16)), None],
        // The client's address is stored inverted.
        [0x2001, 0, ..] => [Some(ipv4_at(v6, 32)), Some(ipv4_at(Ipv6Addr::from_bits(!v6.to_bits()), 96))],
        _ => [Some(address), None],
    }
}

/// The 32 bits that follow the first `bit` ones, as an IPv4 address.
fn ipv4_at(v6: Ipv6Addr, bit: usize) -> IpAddr {
    let octets = v6.octets();
    let at = bit / 8;
    IpAddr::V4(Ipv4Addr::new(octets[at], octets[at + 1], octets[at + 2], octets[at + 3]))
}

#[cfg(test)]
mod tests;
