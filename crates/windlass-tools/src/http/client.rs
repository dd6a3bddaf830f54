//! Connection pools: one for plain HTTP, one for TLS.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use windlass_core::ErrorInfo;

use super::HttpOptions;
use super::connect::Connector;
use super::failure;
use super::request::HttpRequest;
use crate::destinations::{CallHealth, Destinations};
use crate::outbound::Outbound;
use crate::tls::AcceptedCertificates;

/// Shorter than the keep-alive of common servers (five seconds and up), so that a request seldom uses a connection
/// that its server is just closing.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);
/// Maximum number of pools with non-default modes. Definitions use few; more would come from computed values.
const MAX_CONNECTION_MODES: usize = 32;

type Body = Full<Bytes>;

pub(super) struct HttpClient {
    outbound: Outbound,
    connect_timeout: Duration,
    certificates: AcceptedCertificates,
    destinations: Destinations,
    default_pools: ClientPools,
    /// Pools of calls with a non-default connection mode.
    other_pools: Mutex<BTreeMap<ConnectionMode, Arc<ClientPools>>>,
}

/// Connection settings of a call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct ConnectionMode {
    /// `None` uses the timeout of the client.
    pub(super) connect_timeout: Option<Duration>,
    /// Requires a server certificate that this machine trusts.
    pub(super) verify_certificate: bool,
}

impl Default for ConnectionMode {
    fn default() -> ConnectionMode {
        ConnectionMode { connect_timeout: None, verify_certificate: true }
    }
}

struct ClientPools {
    mode: ConnectionMode,
    connect_timeout: Duration,
    certificates: AcceptedCertificates,
    plain: Pool<Connector, Body>,
    /// Created on the first `https` call: reading the machine's root certificates takes milliseconds that a short run
    /// over plain HTTP need not spend.
    secure: OnceLock<Result<Pool<HttpsConnector<Connector>, Body>, rustls::Error>>,
}

impl HttpClient {
    pub(super) fn new(options: &HttpOptions) -> HttpClient {
        let HttpOptions { outbound, destinations, certificates, connect_timeout, .. } = options.clone();
        let connect_timeout = connect_timeout.to_std();
        let default_pools = ClientPools::new(&outbound, ConnectionMode::default(), connect_timeout, &certificates);
        let other_pools = Mutex::default();
        HttpClient { outbound, connect_timeout, certificates, destinations, default_pools, other_pools }
    }

    /// Sends a request, unless its destination is paused or has used up its retries.
    pub(super) async fn send(&self, request: &HttpRequest) -> Result<Response<Incoming>, ErrorInfo> {
        let admitted = self.destinations.admit(&request.uri, request.attempt);
        let admitted = admitted.map_err(|why| failure::not_sent(&request.method, &request.uri, why))?;
        let sent = self.send_admitted(request).await;
        admitted.record(health(&sent));
        sent
    }

    async fn send_admitted(&self, request: &HttpRequest) -> Result<Response<Incoming>, ErrorInfo> {
        if request.mode == self.default_pools.mode {
            return self.default_pools.send(&self.outbound, request).await;
        }
        let pools = self.pools_for(request.mode);
        pools.send(&self.outbound, request).await
    }

    fn pools_for(&self, mode: ConnectionMode) -> Arc<ClientPools> {
        let mut others = self.other_pools.lock().unwrap_or_else(PoisonError::into_inner);
        if others.len() >= MAX_CONNECTION_MODES && !others.contains_key(&mode) {
            others.clear();
        }
        let create = || Arc::new(ClientPools::new(&self.outbound, mode, self.connect_timeout, &self.certificates));
        others.entry(mode).or_insert_with(create).clone()
    }
}

impl ClientPools {
    fn new(
        outbound: &Outbound,
        mode: ConnectionMode,
        default_timeout: Duration,
        certificates: &AcceptedCertificates,
    ) -> ClientPools {
        let connect = mode.connect_timeout.unwrap_or(default_timeout);
        let verified = if mode.verify_certificate { certificates.clone() } else { AcceptedCertificates::Any };
        ClientPools {
            mode,
            connect_timeout: connect,
            certificates: verified,
            plain: pool(Connector::new(outbound, connect)),
            secure: OnceLock::new(),
        }
    }

    async fn send(&self, outbound: &Outbound, request: &HttpRequest) -> Result<Response<Incoming>, ErrorInfo> {
        let (method, uri) = (&request.method, &request.uri);
        let message = request.to_hyper();
        let pending = if uri.scheme_str() == Some("https") {
            let secure = self.secure.get_or_init(|| {
                let config = self.certificates.client_config();
                config.map(|config| pool(over_tls(Connector::new(outbound, self.connect_timeout), config)))
            });
            secure.as_ref().map_err(|error| failure::connection(method, uri, error))?.request(message)
        } else {
            self.plain.request(message)
        };
        pending.await.map_err(|error| failure::connection(method, uri, &error))
    }
}

/// Returns what a call says about its destination. Other statuses are answers of a service that works.
fn health(sent: &Result<Response<Incoming>, ErrorInfo>) -> CallHealth {
    match sent {
        Ok(response) if matches!(response.status().as_u16(), 502..=504) => CallHealth::Failed,
        Ok(_) => CallHealth::Healthy,
        Err(error) if &*error.kind == "connection" => CallHealth::Failed,
        // The address is not allowed, for example.
        Err(_) => CallHealth::Unknown,
    }
}

fn over_tls(tcp: Connector, config: ClientConfig) -> HttpsConnector<Connector> {
    HttpsConnectorBuilder::new().with_tls_config(config).https_only().enable_http1().wrap_connector(tcp)
}

fn pool<C>(connector: C) -> Pool<C, Body>
where
    C: hyper_util::client::legacy::connect::Connect + Clone,
{
    Pool::builder(TokioExecutor::new()).pool_idle_timeout(IDLE_TIMEOUT).pool_timer(TokioTimer::new()).build(connector)
}

#[cfg(test)]
mod tests;
