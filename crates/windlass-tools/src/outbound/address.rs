//! What kind of address it is.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is not public.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
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
    /// An IPv6 address that stands for an IPv4 address.
    Disguised,
}

impl Kind {
    /// A rule that allows a name allows this, too. Other kinds are allowed by address alone.
    pub(super) fn can_be_allowed_by_name(self) -> bool {
        matches!(self, Kind::Loopback | Kind::Private | Kind::Shared)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Unspecified => "no address at all",
            Kind::Loopback => "this machine itself",
            Kind::Private => "a private network",
            Kind::Shared => "a provider's own network",
            Kind::LinkLocal => "the local link",
            Kind::Metadata => "where a machine is told about itself and its keys",
            Kind::Multicast => "many at once",
            Kind::Documentation => "for documentation only",
            Kind::Benchmarking => "for benchmarks only",
            Kind::Reserved => "reserved",
            Kind::Disguised => "an IPv4 address in disguise",
        })
    }
}

/// Where clouds answer the machines they run, some of them on addresses that look public.
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

/// None for a public address. Mapped addresses have become IPv4 before.
pub(super) fn kind(address: IpAddr) -> Option<Kind> {
    match address {
        IpAddr::V4(address) => kind_v4(address),
        IpAddr::V6(address) => kind_v6(address),
    }
}

fn kind_v4(address: Ipv4Addr) -> Option<Kind> {
    let octets = address.octets();
    let [a, b, c, _] = octets;
    match (a, b, c) {
        _ if METADATA_V4.contains(&octets) => Some(Kind::Metadata),
        (0, ..) => Some(Kind::Unspecified),
        (127, ..) => Some(Kind::Loopback),
        (10, ..) | (172, 16..=31, _) | (192, 168, _) => Some(Kind::Private),
        (100, 64..=127, _) => Some(Kind::Shared),
        (169, 254, _) => Some(Kind::LinkLocal),
        (198, 18 | 19, _) => Some(Kind::Benchmarking),
        (192, 0, 2) | (198, 51, 100) | (203, 0, 113) => Some(Kind::Documentation),
        // Assigned protocols; relays of 6to4, which are gone.
        (192, 0, 0) | (192, 88, 99) => Some(Kind::Reserved),
        (224..=239, ..) => Some(Kind::Multicast),
        (240.., ..) => Some(Kind::Reserved),
        _ => None,
    }
}

fn kind_v6(address: Ipv6Addr) -> Option<Kind> {
    let segments = address.segments();
    match segments {
        _ if METADATA_V6.contains(&segments) => Some(Kind::Metadata),
        [0, 0, 0, 0, 0, 0, 0, 0] => Some(Kind::Unspecified),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some(Kind::Loopback),
        // What networks without IPv4 reach the public IPv4 internet by.
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => disguised(address.into()).and_then(kind_v4).map(|_| Kind::Disguised),
        // Compatible, translated, local NAT64, Teredo, 6to4: nobody needs them to reach a public place.
        [0, ..] | [0x64, 0xff9b, ..] | [0x2001, 0, ..] | [0x2002, ..] => Some(Kind::Disguised),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0x0fff, ..] => Some(Kind::Documentation),
        [0x2001, 2, 0, ..] => Some(Kind::Benchmarking),
        [0x2001, 0..=0x1ff, ..] => Some(Kind::Reserved),
        // Tunnels that write the IPv4 address into the end.
        [0x2000..=0x3fff, _, _, _, 0 | 0x200, 0x5efe, ..] => Some(Kind::Disguised),
        // Global unicast is all there is.
        [0x2000..=0x3fff, ..] => None,
        [0xfc00..=0xfdff, ..] => Some(Kind::Private),
        [0xfe80..=0xfebf, ..] => Some(Kind::LinkLocal),
        [0xfec0..=0xfeff, ..] => Some(Kind::Private),
        [0xff00..=0xffff, ..] => Some(Kind::Multicast),
        _ => Some(Kind::Reserved),
    }
}

/// The IPv4 address that an IPv6 address stands for.
pub(super) fn disguised(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else { return None };
    let [a, b, c, .., w, x, y, z] = address.segments();
    let made = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match (a, b) {
        (0x2002, high) => Some(made(high, c)),
        // Teredo turns every bit over.
        (0x2001, 0) => Some(made(!y, !z)),
        (0, _) | (0x64, 0xff9b) => Some(made(y, z)),
        _ if matches!(w, 0 | 0x200) && x == 0x5efe => Some(made(y, z)),
        _ => None,
    }
}
