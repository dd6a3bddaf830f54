//! Rules of the outbound policy.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::host::Host;

/// A host or a range: `10.1.0.0/16`, `127.0.0.1:9000`, `[fd00::1]:443`, `intranet.example`,
/// `*.intranet.example:8443`.
#[derive(Clone, Debug, PartialEq)]
pub struct OutboundRule {
    hosts: HostPattern,
    /// `None` covers every port.
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq)]
enum HostPattern {
    Range(AddressRange),
    Name(String),
    /// All subdomains of a name, without the name itself.
    Subdomains(String),
}

/// Addresses with a common prefix: `10.1.0.0/16`, `fd00::/8`, or a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    address: IpAddr,
    bits: u8,
}

/// The problem of an invalid rule as a sentence, and a hint.
#[derive(Clone, Debug, PartialEq)]
pub struct InvalidOutboundRule {
    pub message: String,
    pub hint: String,
}

const FORMS: &str = "such as \"10.1.0.0/16\", \"127.0.0.1:9000\", \"[fd00::1]:443\", \"intranet.example:8443\" or \"*.intranet.example\"";

impl fmt::Display for InvalidOutboundRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for InvalidOutboundRule {}

impl FromStr for OutboundRule {
    type Err = InvalidOutboundRule;

    fn from_str(text: &str) -> Result<OutboundRule, InvalidOutboundRule> {
        let bad = |why: &str, hint: &str| InvalidOutboundRule {
            message: format!("`{text}` is not a host, address or range: {why}"),
            hint: hint.to_owned(),
        };
        let text = text.trim();
        if text.contains("://") || text.contains('@') {
            return Err(bad("it is a whole address", "omit the scheme, the login and the path"));
        }
        if let Some((address, bits)) = text.split_once('/') {
            let range = AddressRange::parse_cidr(address, bits);
            let range = range.map_err(|(why, hint)| bad(&why, hint.as_deref().unwrap_or(FORMS)))?;
            return Ok(OutboundRule { hosts: HostPattern::Range(range), port: None });
        }
        // An IPv6 address without brackets contains colons.
        let (host, port) = match text.parse::<Ipv6Addr>() {
            Ok(_) => (text, None),
            Err(_) => match text.rsplit_once(':') {
                Some((host, port)) => {
                    let port = port.parse::<u16>().ok().filter(|port| *port > 0);
                    (host, Some(port.ok_or_else(|| bad("its port is not a number from 1 to 65535", FORMS))?))
                }
                None => (text, None),
            },
        };
        let (below, name) = host.strip_prefix("*.").map_or((false, host), |name| (true, name));
        let hosts = match (Host::parse(name), below) {
            (Some(Host::Address(address)), false) => HostPattern::Range(AddressRange::single(address)),
            (Some(Host::Name(name) | Host::Local(name)), false) => HostPattern::Name(name),
            (Some(Host::Name(name) | Host::Local(name)), true) => HostPattern::Subdomains(name),
            _ => return Err(bad("it is neither a name nor an address in its usual spelling", FORMS)),
        };
        Ok(OutboundRule { hosts, port })
    }
}

impl AddressRange {
    /// Parses the parts before and after the `/`. The error is the reason, and a suggestion if there is one.
    fn parse_cidr(address: &str, bits: &str) -> Result<AddressRange, (String, Option<String>)> {
        let wrong = |why: &str| (why.to_owned(), None);
        let address = address.trim_matches(['[', ']']).parse::<IpAddr>();
        let address = address.map_err(|_| wrong("the part before `/` is not an address"))?;
        let max_bits = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.parse::<u8>().ok().filter(|bits| *bits <= max_bits);
        let bits = bits.ok_or_else(|| (format!("the part after `/` is not a number from 0 to {max_bits}"), None))?;
        let start = masked(address, bits);
        if start != address {
            let why = "the address is not the first of its range";
            return Err((why.to_owned(), Some(format!("did you mean `{start}/{bits}`?"))));
        }
        Ok(AddressRange { address, bits })
    }

    fn single(address: IpAddr) -> AddressRange {
        let address = address.to_canonical();
        AddressRange { address, bits: if address.is_ipv4() { 32 } else { 128 } }
    }

    /// Returns true if the address is in the range.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && masked(address, self.bits) == self.address
    }
}

impl FromStr for AddressRange {
    type Err = InvalidOutboundRule;

    fn from_str(text: &str) -> Result<AddressRange, InvalidOutboundRule> {
        let usual = "such as \"10.1.2.3\", \"10.1.0.0/16\" or \"fd00::/8\"";
        let bad = |why: &str, hint: Option<String>| InvalidOutboundRule {
            message: format!("`{text}` is not {why}"),
            hint: hint.unwrap_or_else(|| usual.to_owned()),
        };
        match text.trim().split_once('/') {
            Some((address, bits)) => AddressRange::parse_cidr(address, bits)
                .map_err(|(why, hint)| bad(&format!("an address range: {why}"), hint)),
            None => match text.trim().trim_matches(['[', ']']).parse() {
                Ok(address) => Ok(AddressRange::single(address)),
                Err(_) => Err(bad("an address or an address range", None)),
            },
        }
    }
}

impl OutboundRule {
    /// Returns the rule for exactly this host and port.
    pub(super) fn for_host(host: &str, port: u16) -> Option<OutboundRule> {
        let hosts = match Host::parse(host)? {
            Host::Address(address) => HostPattern::Range(AddressRange::single(address)),
            Host::Name(name) | Host::Local(name) => HostPattern::Name(name),
        };
        Some(OutboundRule { hosts, port: Some(port) })
    }

    fn covers_port(&self, port: u16) -> bool {
        self.port.is_none_or(|own| own == port)
    }

    /// Returns true if the rule names addresses and covers this one.
    pub(super) fn covers(&self, address: IpAddr, port: u16) -> bool {
        let HostPattern::Range(range) = &self.hosts else { return false };
        self.covers_port(port) && range.contains(address)
    }

    /// Returns true if the rule names hosts and covers this one.
    pub(super) fn covers_name(&self, host: &Host, port: u16) -> bool {
        let Some(name) = host.name() else { return false };
        let covered = match &self.hosts {
            HostPattern::Range(_) => false,
            HostPattern::Name(own) => own == name,
            HostPattern::Subdomains(own) => name.strip_suffix(own.as_str()).is_some_and(|rest| rest.ends_with('.')),
        };
        covered && self.covers_port(port)
    }
}

fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            Ipv4Addr::from(u32::from(address) & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            Ipv6Addr::from(u128::from(address) & mask).into()
        }
    }
}
