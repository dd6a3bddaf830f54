//! Parsing of hosts.

use std::net::{IpAddr, Ipv6Addr};

/// A host in its canonical spelling.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Host {
    Address(IpAddr),
    /// In lower case, without a trailing dot.
    Name(String),
    /// A name of this machine, whatever a resolver returns.
    Local(String),
}

/// Names of this machine in hosts files, in addition to all names below `localhost`.
const LOCAL: [&str; 6] =
    ["localhost", "localhost.localdomain", "localhost4", "localhost6", "ip6-localhost", "ip6-loopback"];

impl Host {
    /// Parses a host. Returns `None` if it is neither a name nor an address in its canonical spelling: old resolvers
    /// read `0x7f.1`, `017700000001` and `2130706433` as addresses.
    pub(super) fn parse(text: &str) -> Option<Host> {
        if let Some(inner) = text.strip_prefix('[') {
            return inner.strip_suffix(']')?.parse::<Ipv6Addr>().ok().map(|address| Host::Address(address.into()));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(Host::Address(address));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if let Ok(address) = name.parse::<IpAddr>() {
            return Some(Host::Address(address));
        }
        let usable = |label: &str| {
            let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            !label.is_empty() && label.len() <= 63 && label.bytes().all(letter)
        };
        let last = name.rsplit('.').next().unwrap_or_default();
        if name.len() > 253 || !name.split('.').all(usable) || is_number(last) {
            return None;
        }
        match LOCAL.contains(&name.as_str()) || name.ends_with(".localhost") {
            true => Some(Host::Local(name)),
            false => Some(Host::Name(name)),
        }
    }

    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Host::Address(_) => None,
            Host::Name(name) | Host::Local(name) => Some(name),
        }
    }
}

fn is_number(label: &str) -> bool {
    let hex = label.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    hex || label.bytes().all(|byte| byte.is_ascii_digit())
}
