//! Which addresses may be called. The name is resolved once, and the addresses that pass are the ones connected to, so a
//! name that changes its mind between check and use gains nothing.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::dns::Name;
use tower_service::Service;

/// A resolver that keeps back addresses the engine may not call.
#[derive(Clone, Copy)]
pub(super) struct Guard {
    pub(super) allow_private: bool,
}

/// All addresses of a name are off limits.
#[derive(Debug)]
pub(super) struct Blocked;

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the address is not public")
    }
}

impl std::error::Error for Blocked {}

impl Guard {
    /// Address literals never reach the resolver, so they are checked here, before the connector sees them.
    pub(super) fn allows_host(self, host: &str) -> bool {
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        self.allow_private || literal.parse::<IpAddr>().map_or(true, is_public)
    }

    fn filter(self, found: Vec<SocketAddr>) -> io::Result<std::vec::IntoIter<SocketAddr>> {
        if found.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "lookup found no address for the host"));
        }
        let kept: Vec<_> = found.into_iter().filter(|addr| self.allow_private || is_public(addr.ip())).collect();
        if kept.is_empty() { Err(io::Error::other(Blocked)) } else { Ok(kept.into_iter()) }
    }
}

impl Service<Name> for Guard {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let guard = *self;
        Box::pin(async move { guard.filter(tokio::net::lookup_host((name.as_str(), 0)).await?.collect()) })
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = matches!(
        (a, b, c),
        (0 | 10 | 127 | 224.., ..)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 168, _)
            | (192, 0, 0 | 2)
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
    );
    // A cloud's host agent that answers, from inside, on an address which looks public.
    !special && address != Ipv4Addr::new(168, 63, 129, 16)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, .., y, z] = address.segments();
    let embedded = |high: u16, low: u16| is_public_v4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match (a, b, c) {
        // IPv4 in disguise: mapped and compatible, NAT64, 6to4.
        (0, 0, 0) => address.to_ipv4_mapped().is_some_and(is_public_v4),
        (0x64, 0xff9b, 0) => embedded(y, z),
        (0x2002, high, low) => embedded(high, low),
        // Teredo, other assigned protocols, documentation.
        (0x2001, 0..=0x1ff | 0xdb8, _) => false,
        // Global unicast is all there is; local, link-local and multicast lie outside.
        (0x2000..=0x3fff, ..) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_public_addresses_from_others() {
        let closed = Guard { allow_private: false };
        for host in [
            "127.0.0.1",
            "10.1.2.3",
            "172.31.0.1",
            "192.168.0.1",
            "169.254.169.254",
            "100.100.100.200",
            "0.0.0.0",
            "168.63.129.16",
            "192.0.0.192",
            "198.19.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "[::1]",
            "[::]",
            "[::ffff:127.0.0.1]",
            "[::ffff:10.0.0.1]",
            "[::127.0.0.1]",
            "[fe80::1]",
            "[fd00:ec2::254]",
            "[ff02::1]",
            "[64:ff9b::a00:1]",
            "[2002:7f00:1::]",
            "[2001::1]",
            "[2001:db8::1]",
            "[64:ff9b:1::1]",
        ] {
            assert!(!closed.allows_host(host), "{host}");
            assert!(Guard { allow_private: true }.allows_host(host), "{host}");
        }
        for host in ["1.1.1.1", "172.32.0.1", "[2606:4700::1111]", "[::ffff:1.1.1.1]", "[64:ff9b::101:101]", "name"] {
            assert!(closed.allows_host(host), "{host}");
        }
    }

    #[test]
    fn keeps_the_public_addresses_of_a_name() {
        let closed = Guard { allow_private: false };
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let public = SocketAddr::from(([1, 1, 1, 1], 0));
        assert_eq!(closed.filter(vec![local, public]).unwrap().collect::<Vec<_>>(), [public]);
        assert!(closed.filter(vec![local]).unwrap_err().get_ref().unwrap().is::<Blocked>());
        assert!(closed.filter(vec![]).is_err());
    }
}
