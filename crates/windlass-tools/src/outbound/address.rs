//! Classification of IP addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The reason why an address is not public.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressKind {
    Unspecified,
    Loopback,
    Private,
    Shared,
    LinkLocal,
    Metadata,
    Multicast,
    Documentation,
    Benchmarking,
    Reserved,
    /// An IPv6 address that embeds an IPv4 address.
    EmbeddedIpv4,
}

impl AddressKind {
    /// Returns true if a rule that allows a name also allows this kind. Other kinds must be allowed by address.
    pub(super) fn can_be_allowed_by_name(self) -> bool {
        matches!(self, AddressKind::Loopback | AddressKind::Private | AddressKind::Shared)
    }
}

impl fmt::Display for AddressKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AddressKind::Unspecified => "an unspecified address",
            AddressKind::Loopback => "this machine (loopback)",
            AddressKind::Private => "a private network",
            AddressKind::Shared => "a shared (carrier-grade NAT) network",
            AddressKind::LinkLocal => "the local link",
            AddressKind::Metadata => "a cloud metadata address",
            AddressKind::Multicast => "a multicast address",
            AddressKind::Documentation => "for documentation only",
            AddressKind::Benchmarking => "for benchmarks only",
            AddressKind::Reserved => "reserved",
            AddressKind::EmbeddedIpv4 => "an IPv6 address that embeds an IPv4 address",
        })
    }
}

/// Metadata services of clouds; some of their addresses look public.
const METADATA_V4: [[u8; 4]; 6] = [
    [169, 254, 169, 254],
    [169, 254, 170, 2],
    [169, 254, 170, 23],
    [100, 100, 100, 200],
    [192, 0, 0, 192],
    [168, 63, 129, 16],
];
const METADATA_V6: [[u16; 8]; 3] =
    [[0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23], [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254]];

/// Returns `None` for a public address. The caller has converted mapped addresses to IPv4.
pub(super) fn classify(address: IpAddr) -> Option<AddressKind> {
    match address {
        IpAddr::V4(address) => classify_v4(address),
        IpAddr::V6(address) => classify_v6(address),
    }
}

fn classify_v4(address: Ipv4Addr) -> Option<AddressKind> {
    let octets = address.octets();
    let [a, b, c, _] = octets;
    match (a, b, c) {
        _ if METADATA_V4.contains(&octets) => Some(AddressKind::Metadata),
        (0, ..) => Some(AddressKind::Unspecified),
        (127, ..) => Some(AddressKind::Loopback),
        (10, ..) | (172, 16..=31, _) | (192, 168, _) => Some(AddressKind::Private),
        (100, 64..=127, _) => Some(AddressKind::Shared),
        (169, 254, _) => Some(AddressKind::LinkLocal),
        (198, 18 | 19, _) => Some(AddressKind::Benchmarking),
        (192, 0, 2) | (198, 51, 100) | (203, 0, 113) => Some(AddressKind::Documentation),
        // Protocol assignments, and 6to4 relays, which no longer exist.
        (192, 0, 0) | (192, 88, 99) => Some(AddressKind::Reserved),
        (224..=239, ..) => Some(AddressKind::Multicast),
        (240.., ..) => Some(AddressKind::Reserved),
        _ => None,
    }
}

fn classify_v6(address: Ipv6Addr) -> Option<AddressKind> {
    let segments = address.segments();
    match segments {
        _ if METADATA_V6.contains(&segments) => Some(AddressKind::Metadata),
        [0, 0, 0, 0, 0, 0, 0, 0] => Some(AddressKind::Unspecified),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some(AddressKind::Loopback),
        // NAT64: networks without IPv4 reach the public IPv4 internet through this prefix.
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => {
            embedded_ipv4(address.into()).and_then(classify_v4).map(|_| AddressKind::EmbeddedIpv4)
        }
        // Compatible, translated, local NAT64, Teredo, 6to4: not needed to reach a public address.
        [0, ..] | [0x64, 0xff9b, ..] | [0x2001, 0, ..] | [0x2002, ..] => Some(AddressKind::EmbeddedIpv4),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0x0fff, ..] => Some(AddressKind::Documentation),
        [0x2001, 2, 0, ..] => Some(AddressKind::Benchmarking),
        [0x2001, 0..=0x1ff, ..] => Some(AddressKind::Reserved),
        // ISATAP tunnels, which embed the IPv4 address at the end.
        [0x2000..=0x3fff, _, _, _, 0 | 0x200, 0x5efe, ..] => Some(AddressKind::EmbeddedIpv4),
        // Only global unicast is public.
        [0x2000..=0x3fff, ..] => None,
        [0xfc00..=0xfdff, ..] => Some(AddressKind::Private),
        [0xfe80..=0xfebf, ..] => Some(AddressKind::LinkLocal),
        [0xfec0..=0xfeff, ..] => Some(AddressKind::Private),
        [0xff00..=0xffff, ..] => Some(AddressKind::Multicast),
        _ => Some(AddressKind::Reserved),
    }
}

/// Returns the IPv4 address that an IPv6 address embeds.
pub(super) fn embedded_ipv4(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else { return None };
    let [a, b, c, .., w, x, y, z] = address.segments();
    let join = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match (a, b) {
        (0x2002, high) => Some(join(high, c)),
        // Teredo inverts every bit.
        (0x2001, 0) => Some(join(!y, !z)),
        (0, _) | (0x64, 0xff9b) => Some(join(y, z)),
        _ if matches!(w, 0 | 0x200) && x == 0x5efe => Some(join(y, z)),
        _ => None,
    }
}
