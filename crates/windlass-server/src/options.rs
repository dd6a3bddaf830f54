//! Startup options of a server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use windlass_core::ServerLimits;
use windlass_runtime::RetentionPolicy;
use windlass_tools::outbound::AddressRange;

/// The PEM files of a server's certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsFiles {
    /// The certificate of the server, followed by those of its issuers.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

#[derive(Clone, Debug)]
pub struct ServerOptions {
    pub bind: SocketAddr,
    /// Accepts TLS connections only, with this certificate.
    pub tls: Option<TlsFiles>,
    /// A proxy in front of the server has TLS, or the network is trusted. Implied by `proxies`.
    pub behind_proxy: bool,
    /// Requests need no authentication. Allowed on loopback only.
    pub no_auth: bool,
    /// Additional host names of the server, besides its address, accepted in the `Host` header.
    pub hosts: Vec<String>,
    /// Requests per second and token; further requests are rejected with Retry-After.
    pub rate_per_second: u32,
    /// Trusted proxies: their statements about the client address are believed.
    pub proxies: Vec<AddressRange>,
    /// Maximum number of concurrent connections. Idle connections are closed to make room; without idle connections,
    /// new ones are rejected with Retry-After.
    pub max_connections: usize,
    /// The same limit per address (IPv6: per /64), except for proxies and loopback.
    pub max_connections_per_address: usize,
    /// Time without a heartbeat after which the jobs of a remote worker go to another worker.
    pub lease: Duration,
    /// Time that a shutdown waits for work in progress.
    pub drain: Duration,
    /// Interval of keep-alive messages on a quiet stream.
    pub heartbeat: Duration,
    /// Time between two searches for damage in the store; zero for none.
    pub scrub_every: Duration,
    /// Share of time that a search for damage works, in percent.
    pub scrub_percent: u32,
    /// Definitions come from local files and have the same permissions as with `windlass run`.
    pub dev: bool,
    pub limits: ServerLimits,
    /// Which ended runs are removed; `None` keeps all.
    pub retention: Option<RetentionPolicy>,
}

impl Default for ServerOptions {
    fn default() -> ServerOptions {
        ServerOptions {
            bind: SocketAddr::from(([127, 0, 0, 1], 7117)),
            tls: None,
            behind_proxy: false,
            no_auth: false,
            hosts: Vec::new(),
            proxies: Vec::new(),
            rate_per_second: 20_000,
            max_connections: 4_096,
            max_connections_per_address: 1_024,
            lease: Duration::from_secs(30),
            drain: Duration::from_secs(10),
            heartbeat: Duration::from_secs(15),
            scrub_every: Duration::from_secs(24 * 60 * 60),
            scrub_percent: 10,
            dev: false,
            limits: ServerLimits::default(),
            retention: None,
        }
    }
}
