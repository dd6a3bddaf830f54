//! The connections: one pool for plain HTTP, one for TLS.

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

use super::connect::Connector;
use super::failure;
use super::request::Request;
use crate::outbound::Outbound;
use crate::tls;

/// Shorter than the keep-alive of common servers (five seconds and up), so that a request seldom meets a connection
/// which its server is just closing.
const IDLE: Duration = Duration::from_secs(4);
/// Definitions name few; more would be computed ones.
const MAX_CONNECTION_MODES: usize = 32;

type Body = Full<Bytes>;

pub(super) struct Client {
    outbound: Outbound,
    connect: Duration,
    usual: Pools,
    /// For calls that want a connection made in another way.
    others: Mutex<BTreeMap<Manner, Arc<Pools>>>,
}

/// How a call wants its connection made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Manner {
    /// None: the client's own time.
    pub(super) connect: Option<Duration>,
    /// The server must show a certificate that this machine trusts.
    pub(super) verified: bool,
}

impl Default for Manner {
    fn default() -> Manner {
        Manner { connect: None, verified: true }
    }
}

struct Pools {
    manner: Manner,
    connect: Duration,
    plain: Pool<Connector, Body>,
    /// Made when the first `https` address is called: reading the machine's root certificates takes milliseconds that a
    /// short run on plain HTTP need not spend.
    secure: OnceLock<Result<Pool<HttpsConnector<Connector>, Body>, rustls::Error>>,
}

impl Client {
    pub(super) fn new(outbound: Outbound, connect: windlass_value::Duration) -> Client {
        let connect = connect.to_std();
        let usual = Pools::new(&outbound, Manner::default(), connect);
        Client { outbound, connect, usual, others: Mutex::default() }
    }

    pub(super) async fn send(&self, request: &Request) -> Result<Response<Incoming>, ErrorInfo> {
        if request.manner == self.usual.manner {
            return self.usual.send(&self.outbound, request).await;
        }
        let pools = self.other(request.manner);
        pools.send(&self.outbound, request).await
    }

    fn other(&self, manner: Manner) -> Arc<Pools> {
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if others.len() >= MAX_CONNECTION_MODES && !others.contains_key(&manner) {
            others.clear();
        }
        others.entry(manner).or_insert_with(|| Arc::new(Pools::new(&self.outbound, manner, self.connect))).clone()
    }
}

impl Pools {
    fn new(outbound: &Outbound, manner: Manner, usual: Duration) -> Pools {
        let connect = manner.connect.unwrap_or(usual);
        Pools { manner, connect, plain: pool(Connector::new(outbound, connect)), secure: OnceLock::new() }
    }

    async fn send(&self, outbound: &Outbound, request: &Request) -> Result<Response<Incoming>, ErrorInfo> {
        let (method, uri) = (&request.method, &request.uri);
        let message = request.message();
        let pending = if uri.scheme_str() == Some("https") {
            let secure = self.secure.get_or_init(|| {
                let config = if self.manner.verified { tls::trusting(tls::machine_roots()) } else { tls::unchecked() };
                config.map(|config| pool(over_tls(Connector::new(outbound, self.connect), config)))
            });
            secure.as_ref().map_err(|error| failure::connection(method, uri, error))?.request(message)
        } else {
            self.plain.request(message)
        };
        pending.await.map_err(|error| failure::connection(method, uri, &error))
    }
}

fn over_tls(tcp: Connector, config: ClientConfig) -> HttpsConnector<Connector> {
    HttpsConnectorBuilder::new().with_tls_config(config).https_only().enable_http1().wrap_connector(tcp)
}

fn pool<C>(connector: C) -> Pool<C, Body>
where
    C: hyper_util::client::legacy::connect::Connect + Clone,
{
    Pool::builder(TokioExecutor::new()).pool_idle_timeout(IDLE).pool_timer(TokioTimer::new()).build(connector)
}

#[cfg(test)]
mod tests;
