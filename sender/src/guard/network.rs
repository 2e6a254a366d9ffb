//! `10.0.0.0/8`, `fd00::/8`; a bare address is a network of one.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::excerpt::Excerpt;
use hookproof_words::text_form;

text_form!(Network, "a network, such as \"10.0.0.0/8\" or \"fd00::/8\"");

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// A test checks the constants.
    pub(super) const fn v4([a, b, c, d]: [u8; 4], prefix: u8) -> Self {
        Self { address: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix }
    }

    pub(super) const fn v6([a, b, c, d, e, f, g, h]: [u16; 8], prefix: u8) -> Self {
        Self { address: IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)), prefix }
    }

    /// `address` must have no bits set beyond `prefix`.
    pub fn new(address: IpAddr, prefix: u8) -> Result<Self, NetworkProblem> {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        if prefix > bits {
            return Err(NetworkProblem::Prefix { max: bits });
        }
        if let IpAddr::V6(v6) = address
            && v6.to_ipv4_mapped().is_some()
        {
            return Err(NetworkProblem::Mapped);
        }
        let network = Self { address: first_of(address, prefix), prefix };
        if network.address == address { Ok(network) } else { Err(NetworkProblem::HostBits { network }) }
    }

    /// IPv4 addresses lie in no IPv6 network.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        first_of(address, self.prefix) == self.address
    }
}

fn first_of(address: IpAddr, prefix: u8) -> IpAddr {
    let prefix = u32::from(prefix);
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(prefix)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(prefix)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let parts = || {
            let (address, prefix) = match text.split_once('/') {
                Some((address, prefix)) => (address, Some(prefix)),
                None => (text, None),
            };
            let address: IpAddr = address.parse().map_err(|_| NetworkProblem::Address)?;
            let max = if address.is_ipv4() { 32 } else { 128 };
            let prefix = match prefix {
                None => max,
                Some(digits) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
                    digits.parse().map_err(|_| NetworkProblem::Prefix { max })?
                }
                Some(_) => return Err(NetworkProblem::Prefix { max }),
            };
            Self::new(address, prefix)
        };
        parts().map_err(|problem| NetworkError { given: Excerpt::of(text), problem })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read {given} as a network: {problem}; expected a form such as 10.0.0.0/8 or fd00::/8")]
pub struct NetworkError {
    given: Excerpt,
    problem: NetworkProblem,
}

impl NetworkError {
    #[must_use]
    pub const fn problem(&self) -> NetworkProblem {
        self.problem
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkProblem {
    #[error("it does not begin with an IP address")]
    Address,
    #[error("the prefix length after the slash is not a number from 0 to {max}")]
    Prefix {
        /// The largest for this kind of address.
        max: u8,
    },
    #[error("it has bits set beyond its prefix; expected {network}")]
    HostBits {
        /// The network that contains the address.
        network: Network,
    },
    /// IPv4 mapped into IPv6 would never match, because it is judged as IPv4.
    #[error("it maps IPv4 into IPv6; write it as IPv4")]
    Mapped,
}
