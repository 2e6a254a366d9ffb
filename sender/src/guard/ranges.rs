//! Non-public address ranges, from IANA's special-purpose registries.

use std::fmt;
use std::net::IpAddr;

use super::Network;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Range {
    Unspecified,
    Loopback,
    /// Private networks (RFC 1918).
    Private,
    /// Shared by a carrier's customers (RFC 6598).
    CarrierShared,
    LinkLocal,
    /// Private networks of IPv6.
    UniqueLocal,
    /// Deprecated private networks of IPv6.
    SiteLocal,
    /// For benchmarks of network devices.
    Benchmark,
    /// Cloud services that give out credentials.
    Metadata,
    Multicast,
    Broadcast,
    Documentation,
    /// Any other range that is not in public use.
    Reserved,
}

impl Range {
    /// Ignores carried addresses. `None` if it is public.
    #[must_use]
    pub(super) fn of(address: IpAddr) -> Option<Self> {
        let found = RANGES.iter().find(|(network, _)| network.contains(address));
        match found {
            Some((_, range)) => Some(*range),
            None if address.is_ipv6() && !IPV6_PUBLIC.contains(address) => Some(Self::Reserved),
            None => None,
        }
    }

    /// Whether allowing private targets allows this range. Not the local link: endpoints have no permanent
    /// addresses there, and clouds place metadata services there, of which the table knows only some.
    #[must_use]
    pub const fn is_private(self) -> bool {
        match self {
            Self::Unspecified
            | Self::Loopback
            | Self::Private
            | Self::CarrierShared
            | Self::UniqueLocal
            | Self::SiteLocal
            | Self::Benchmark => true,
            Self::LinkLocal
            | Self::Metadata
            | Self::Multicast
            | Self::Broadcast
            | Self::Documentation
            | Self::Reserved => false,
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unspecified => "an unspecified address",
            Self::Loopback => "a loopback address",
            Self::Private => "a private address",
            Self::CarrierShared => "an address shared behind a carrier's NAT",
            Self::LinkLocal => "a link-local address",
            Self::UniqueLocal => "a unique-local address",
            Self::SiteLocal => "a site-local address",
            Self::Benchmark => "an address for benchmarks",
            Self::Metadata => "a cloud's metadata service",
            Self::Multicast => "a multicast address",
            Self::Broadcast => "the broadcast address",
            Self::Documentation => "an address for documentation",
            Self::Reserved => "a reserved address",
        })
    }
}

/// The only part of IPv6 in public use.
const IPV6_PUBLIC: Network = Network::v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

/// The first match counts, so metadata services come first.
pub(super) const RANGES: [(Network, Range); 43] = [
    // AWS, Google, Azure, Oracle, DigitalOcean and others
    (Network::v4([169, 254, 169, 254], 32), Range::Metadata),
    // AWS: credentials of tasks and of pods
    (Network::v4([169, 254, 170, 2], 32), Range::Metadata),
    (Network::v4([169, 254, 170, 23], 32), Range::Metadata),
    (Network::v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23], 128), Range::Metadata),
    (Network::v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128), Range::Metadata),
    // Tencent
    (Network::v4([169, 254, 0, 23], 32), Range::Metadata),
    // Scaleway
    (Network::v4([169, 254, 42, 42], 32), Range::Metadata),
    (Network::v6([0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42], 128), Range::Metadata),
    // Akamai's IPv6 form
    (Network::v6([0xfd00, 0xa9fe, 0xa9fe, 0, 0, 0, 0, 1], 128), Range::Metadata),
    // Google's IPv6 form
    (Network::v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128), Range::Metadata),
    // Alibaba
    (Network::v4([100, 100, 100, 200], 32), Range::Metadata),
    // Oracle's older one
    (Network::v4([192, 0, 0, 192], 32), Range::Metadata),
    // Azure's host agent, on an address that looks public
    (Network::v4([168, 63, 129, 16], 32), Range::Metadata),
    (Network::v4([0, 0, 0, 0], 8), Range::Unspecified),
    (Network::v4([10, 0, 0, 0], 8), Range::Private),
    (Network::v4([100, 64, 0, 0], 10), Range::CarrierShared),
    (Network::v4([127, 0, 0, 0], 8), Range::Loopback),
    (Network::v4([169, 254, 0, 0], 16), Range::LinkLocal),
    (Network::v4([172, 16, 0, 0], 12), Range::Private),
    (Network::v4([192, 0, 0, 0], 24), Range::Reserved),
    (Network::v4([192, 0, 2, 0], 24), Range::Documentation),
    // the relays of 6to4, which are gone
    (Network::v4([192, 88, 99, 0], 24), Range::Reserved),
    (Network::v4([192, 168, 0, 0], 16), Range::Private),
    (Network::v4([198, 18, 0, 0], 15), Range::Benchmark),
    (Network::v4([198, 51, 100, 0], 24), Range::Documentation),
    (Network::v4([203, 0, 113, 0], 24), Range::Documentation),
    (Network::v4([224, 0, 0, 0], 4), Range::Multicast),
    (Network::v4([255, 255, 255, 255], 32), Range::Broadcast),
    (Network::v4([240, 0, 0, 0], 4), Range::Reserved),
    (Network::v6([0, 0, 0, 0, 0, 0, 0, 0], 128), Range::Unspecified),
    (Network::v6([0, 0, 0, 0, 0, 0, 0, 1], 128), Range::Loopback),
    // NAT64 of a site's own: where in it the IPv4 address lies is known to the site alone
    (Network::v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), Range::Reserved),
    (Network::v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64), Range::Reserved),
    (Network::v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48), Range::Benchmark),
    (Network::v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), Range::Documentation),
    // protocols' own; nobody's endpoint
    (Network::v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), Range::Reserved),
    (Network::v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), Range::Documentation),
    // the 6bone, which is gone
    (Network::v6([0x3ffe, 0, 0, 0, 0, 0, 0, 0], 16), Range::Reserved),
    (Network::v6([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16), Range::Reserved),
    (Network::v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), Range::UniqueLocal),
    (Network::v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), Range::LinkLocal),
    (Network::v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), Range::SiteLocal),
    (Network::v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), Range::Multicast),
];
