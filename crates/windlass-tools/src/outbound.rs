//! The outbound policy: which addresses tools may connect to on behalf of a definition.
//!
//! A name is resolved once, each of its addresses is checked, and only the addresses that pass are connected to, so a
//! name that resolves differently between check and use gains nothing. Every redirect is a new connection and is
//! checked like the first. Proxies of the environment are not used, because their targets could not be checked.

mod address;
mod host;
mod rule;

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use windlass_core::ErrorInfo;

use crate::http::uri;
use host::Host;
pub use rule::{AddressRange, InvalidOutboundRule, OutboundRule};

/// Resolves names to addresses.
pub trait Resolver: Send + Sync {
    fn resolve<'a>(&'a self, name: &'a str) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;
}

/// The resolver of this machine.
struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>> {
        Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.map(|found| found.ip()).collect()) })
    }
}

/// An outbound policy. Clones share it.
#[derive(Clone)]
pub struct Outbound(Arc<Policy>);

#[derive(Clone)]
struct Policy {
    /// Allows addresses that are not public.
    open: bool,
    allow: Vec<OutboundRule>,
    deny: Vec<OutboundRule>,
    /// Additional hosts that are allowed because the operator's settings name them as services.
    trusted: Vec<OutboundRule>,
    /// The section of the settings with the rules, for hints.
    section: Option<&'static str>,
    resolver: Arc<dyn Resolver>,
}

/// Allows public addresses only.
impl Default for Outbound {
    fn default() -> Outbound {
        Outbound::with_policy(false)
    }
}

impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Policy { open, allow, deny, trusted, .. } = &*self.0;
        let mut debug = f.debug_struct("Outbound");
        debug.field("open", open).field("allow", allow).field("deny", deny).field("trusted", trusted);
        debug.finish_non_exhaustive()
    }
}

impl Outbound {
    /// Allows every address, for callers that trust the definition as much as the program.
    pub fn open() -> Outbound {
        Outbound::with_policy(true)
    }

    fn with_policy(open: bool) -> Outbound {
        let (allow, deny, trusted) = (Vec::new(), Vec::new(), Vec::new());
        Outbound(Arc::new(Policy { open, allow, deny, trusted, section: None, resolver: Arc::new(SystemResolver) }))
    }

    fn with_change(&self, change: impl FnOnce(&mut Policy)) -> Outbound {
        let mut policy = Policy::clone(&self.0);
        change(&mut policy);
        Outbound(Arc::new(policy))
    }

    /// Adds rules. `deny` overrides every other rule. `section` is the settings section that contains them.
    #[must_use]
    pub fn with_rules(&self, allow: Vec<OutboundRule>, deny: Vec<OutboundRule>, section: &'static str) -> Outbound {
        self.with_change(|policy| {
            policy.allow = allow;
            policy.deny = deny;
            policy.section = Some(section);
        })
    }

    #[must_use]
    pub fn with_resolver(&self, resolver: impl Resolver + 'static) -> Outbound {
        self.with_change(|policy| policy.resolver = Arc::new(resolver))
    }

    /// Trusts the origins of these URLs, which the operator chose, not a definition. Denied addresses stay denied.
    #[must_use]
    pub(crate) fn with_trusted_urls<'a>(&self, urls: impl IntoIterator<Item = &'a str>) -> Outbound {
        let origins = urls.into_iter().filter_map(uri::host_and_port);
        self.with_change(|policy| {
            policy.trusted.extend(origins.filter_map(|(host, port)| OutboundRule::for_host(&host, port)))
        })
    }

    /// Trusts this host and port, which the operator chose.
    #[must_use]
    pub fn with_trusted_host(&self, host: &str, port: u16) -> Outbound {
        self.with_change(|policy| policy.trusted.extend(OutboundRule::for_host(host, port)))
    }

    /// Returns true if every address is allowed and none is denied, so that no name need be resolved for the check.
    pub(crate) fn is_open(&self) -> bool {
        self.0.open && self.0.deny.is_empty()
    }

    /// Returns the allowed addresses of a host, all from one resolution.
    pub(crate) async fn addresses(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let parsed = match Host::parse(host) {
            Some(parsed) => parsed,
            // An unusual spelling is left to the system resolver if every address is allowed.
            None if self.is_open() => Host::Name(host.to_owned()),
            None => return Err(io::Error::other(self.refusal(host, port, None, RefusalReason::Spelling))),
        };
        let found = match &parsed {
            Host::Address(address) => vec![*address],
            Host::Local(_) if !self.is_open() => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
            Host::Name(name) | Host::Local(name) => self.0.resolver.resolve(name).await?,
        };
        let Some(first) = found.first().copied() else {
            return Err(io::Error::new(io::ErrorKind::NotFound, "lookup found no address for the host"));
        };
        let checked = found.into_iter().map(|address| (address, self.0.check(&parsed, port, address)));
        let (passed, refused): (Vec<_>, Vec<_>) = checked.partition(|(_, check)| check.is_none());
        if passed.is_empty() {
            let (address, why) = refused.into_iter().next().unwrap_or((first, None));
            let why = why.unwrap_or(RefusalReason::Denied);
            return Err(io::Error::other(self.refusal(host, port, Some(address), why)));
        }
        Ok(passed.into_iter().map(|(address, _)| SocketAddr::new(address, port)).collect())
    }

    fn refusal(&self, host: &str, port: u16, address: Option<IpAddr>, reason: RefusalReason) -> OutboundRefusal {
        let shown = host.chars().filter(|c| !c.is_control()).take(200).collect();
        OutboundRefusal { host: shown, port, address, reason, section: self.0.section }
    }

    /// Refuses a socket file unless everything is allowed. A file that the operator chose does not reach this check.
    pub fn check_file(&self, path: &str) -> Option<OutboundRefusal> {
        (!self.is_open()).then(|| self.refusal(path, 0, None, RefusalReason::File))
    }
}

impl Policy {
    /// Returns the reason why an address is refused, or `None` if it is allowed.
    fn check(&self, host: &Host, port: u16, address: IpAddr) -> Option<RefusalReason> {
        let address = address.to_canonical();
        let embedded = address::embedded_ipv4(address).map(IpAddr::V4);
        let denies = |rule: &OutboundRule| {
            rule.covers_name(host, port)
                || rule.covers(address, port)
                || embedded.is_some_and(|inner| rule.covers(inner, port))
        };
        if self.deny.iter().any(denies) {
            return Some(RefusalReason::Denied);
        }
        let kind = address::classify(address).filter(|_| !self.open)?;
        let allowed = || self.allow.iter().chain(&self.trusted);
        let by_address = allowed().any(|rule| rule.covers(address, port));
        // A DNS answer must not give access to the metadata service of a machine.
        let by_name = kind.can_be_allowed_by_name() && allowed().any(|rule| rule.covers_name(host, port));
        (!by_address && !by_name).then_some(RefusalReason::NotPublic(kind))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum RefusalReason {
    NotPublic(address::AddressKind),
    Denied,
    Spelling,
    File,
}

/// An address that the policy forbids. This is an error of the task, not of the network.
#[derive(Clone, Debug)]
pub struct OutboundRefusal {
    host: String,
    port: u16,
    address: Option<IpAddr>,
    reason: RefusalReason,
    section: Option<&'static str>,
}

impl fmt::Display for OutboundRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = &self.host;
        let literal = self.address.is_some_and(|address| host.trim_matches(['[', ']']) == address.to_string());
        let location = match self.address.filter(|_| !literal) {
            Some(address) => format!("`{host}` leads to {address}"),
            None => format!("`{host}`"),
        };
        match self.reason {
            RefusalReason::NotPublic(kind) if literal => write!(f, "{location} is not public: it is {kind}"),
            RefusalReason::NotPublic(kind) => write!(f, "{location}, which is not public: it is {kind}"),
            RefusalReason::Denied if literal => write!(f, "{location} is denied"),
            RefusalReason::Denied => write!(f, "{location}, which is denied"),
            RefusalReason::Spelling => {
                write!(f, "{location} is neither a host name nor an address in its usual spelling")
            }
            RefusalReason::File => write!(f, "{location} is a file of this machine, and not public"),
        }
    }
}

impl std::error::Error for OutboundRefusal {}

impl OutboundRefusal {
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only databases connect in a way of their own"))]
    pub(crate) fn from_io_error(error: &io::Error) -> Option<&OutboundRefusal> {
        error.get_ref()?.downcast_ref()
    }

    /// Finds a refusal among the causes of an error.
    pub(crate) fn find_in<'a>(links: &[&'a (dyn std::error::Error + 'static)]) -> Option<&'a OutboundRefusal> {
        links.iter().find_map(|link| link.downcast_ref::<OutboundRefusal>())
    }

    /// Converts to an error. `what` begins the message: `GET http://host/` or similar.
    pub(crate) fn error(&self, what: &str) -> ErrorInfo {
        ErrorInfo::new("BlockedAddress", "input", format!("{what}: {self}")).hint(self.hint())
    }

    fn hint(&self) -> String {
        match (self.reason, self.section) {
            (RefusalReason::Spelling, _) => {
                "write an address as 192.0.2.1 or [2001:db8::1], a name with letters, digits and hyphens".to_owned()
            }
            (RefusalReason::Denied, Some(section)) => format!("`deny` under [{section}] in windlass.toml names it"),
            (RefusalReason::File, Some(_)) => {
                "give it as a credential of the server: [auth] in windlass.toml".to_owned()
            }
            (RefusalReason::NotPublic(_), Some(section)) => {
                format!("allow = [\"{}\"] under [{section}] in windlass.toml opens it", self.rule())
            }
            (_, None) => "this engine calls public addresses only; `windlass run` also calls local ones".to_owned(),
        }
    }

    /// Returns the narrowest rule that allows the address.
    fn rule(&self) -> String {
        match (self.reason, self.address) {
            (RefusalReason::NotPublic(kind), Some(address))
                if !kind.can_be_allowed_by_name() || self.host.contains(':') =>
            {
                SocketAddr::new(address, self.port).to_string()
            }
            _ => format!("{}:{}", self.host.trim_end_matches('.').to_ascii_lowercase(), self.port),
        }
    }
}

#[cfg(test)]
mod tests;
