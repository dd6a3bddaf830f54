//! The connections: one pool for plain HTTP, one for TLS.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use windlass_core::ErrorInfo;

use super::failure;
use super::guard::Guard;
use super::request::Request;

/// Shorter than the keep-alive of common servers (five seconds and up), so that a request seldom meets a connection
/// which its server is just closing.
const IDLE: Duration = Duration::from_secs(4);
const CONNECT: Duration = Duration::from_secs(15);

type Tcp = HttpConnector<Guard>;
type Body = Full<Bytes>;

pub(super) struct Client {
    guard: Guard,
    plain: Pool<Tcp, Body>,
    /// Made when the first `https` address is called: reading the machine's root certificates takes milliseconds that a
    /// short run on plain HTTP need not spend.
    secure: OnceLock<Result<Pool<HttpsConnector<Tcp>, Body>, rustls::Error>>,
}

impl Client {
    pub(super) fn new(allow_private: bool) -> Client {
        let guard = Guard { allow_private };
        Client { guard, plain: pool(tcp(guard)), secure: OnceLock::new() }
    }

    pub(super) async fn send(&self, request: &Request) -> Result<Response<Incoming>, ErrorInfo> {
        let (method, uri) = (&request.method, &request.uri);
        if !self.guard.allows_host(uri.host().unwrap_or_default()) {
            return Err(failure::blocked(method, uri));
        }
        let message = request.message();
        let pending = if uri.scheme_str() == Some("https") {
            let secure =
                self.secure.get_or_init(|| tls(machine_roots()).map(|config| pool(over_tls(self.guard, config))));
            secure.as_ref().map_err(|error| failure::connection(method, uri, error))?.request(message)
        } else {
            self.plain.request(message)
        };
        pending.await.map_err(|error| failure::connection(method, uri, &error))
    }
}

fn tcp(guard: Guard) -> Tcp {
    let mut tcp = HttpConnector::new_with_resolver(guard);
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT));
    tcp.set_keepalive(Some(Duration::from_secs(60)));
    tcp
}

fn over_tls(guard: Guard, config: ClientConfig) -> HttpsConnector<Tcp> {
    HttpsConnectorBuilder::new().with_tls_config(config).https_only().enable_http1().wrap_connector(tcp(guard))
}

fn pool<C>(connector: C) -> Pool<C, Body>
where
    C: hyper_util::client::legacy::connect::Connect + Clone,
{
    Pool::builder(TokioExecutor::new()).pool_idle_timeout(IDLE).pool_timer(TokioTimer::new()).build(connector)
}

/// The provider is named here, so that another crate's choice of a process-wide one does not matter.
fn tls(roots: RootCertStore) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// The public roots that come with the program, and what this machine trusts besides (a company's own root). Machines
/// without any, such as bare containers, still reach the public internet.
fn machine_roots() -> RootCertStore {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let found: Vec<CertificateDer<'static>> = rustls_native_certs::load_native_certs().certs;
    roots.add_parsable_certificates(found);
    roots
}

#[cfg(test)]
mod tests;
