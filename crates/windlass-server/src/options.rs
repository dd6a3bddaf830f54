//! What a server is told when it starts.

use std::net::SocketAddr;
use std::time::Duration;

use windlass_core::ServerLimits;
use windlass_tools::outbound::AddressRange;

#[derive(Clone, Debug)]
pub struct ServerOptions {
    pub bind: SocketAddr,
    /// Nobody has to say who they are. Only on loopback.
    pub no_auth: bool,
    /// Names under which the server is reached, besides its address: what else a `Host` header may say.
    pub hosts: Vec<String>,
    /// Requests of one token in a second; more than that are told to come back.
    pub rate_per_second: u32,
    /// Proxies in front of it: what they say of whom they ask for is believed.
    pub proxies: Vec<AddressRange>,
    /// Connections at once; those that say nothing make room for more, and if there are none, more are told to come back.
    pub max_connections: usize,
    /// The same of one address (IPv6: one /64), unless it is a proxy or this machine.
    pub max_connections_per_address: usize,
    /// How long a remote worker may be silent before its jobs go to another.
    pub lease: Duration,
    /// How long a shutdown waits for what is being done.
    pub drain: Duration,
    /// A quiet stream says that it is alive this often.
    pub heartbeat: Duration,
    /// Definitions come from files of this machine, and may do what `windlass run` may.
    pub dev: bool,
    pub limits: ServerLimits,
}

impl Default for ServerOptions {
    fn default() -> ServerOptions {
        ServerOptions {
            bind: SocketAddr::from(([127, 0, 0, 1], 7117)),
            no_auth: false,
            hosts: Vec::new(),
            proxies: Vec::new(),
            rate_per_second: 20_000,
            max_connections: 4_096,
            max_connections_per_address: 1_024,
            lease: Duration::from_secs(30),
            drain: Duration::from_secs(10),
            heartbeat: Duration::from_secs(15),
            dev: false,
            limits: ServerLimits::default(),
        }
    }
}
