//! Connections: the outbound policy returns the addresses, and only those are tried.

use std::future::{Future, Ready, ready};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use crate::outbound::Outbound;

#[derive(Clone)]
pub(super) struct Connector {
    outbound: Outbound,
    limit: Duration,
}

impl Connector {
    pub(super) fn new(outbound: &Outbound, limit: Duration) -> Connector {
        Connector { outbound: outbound.clone(), limit }
    }
}

type BoxedError = Box<dyn std::error::Error + Send + Sync>;

impl Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = BoxedError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxedError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxedError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Connector { outbound, limit } = self.clone();
        Box::pin(async move {
            let usual = if uri.scheme_str() == Some("https") { 443 } else { 80 };
            let (host, port) = (uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(usual));
            let addresses = outbound.addresses(host, port).await?;
            Ok(tcp_connector(ResolvedAddresses(addresses), limit).call(uri).await?)
        })
    }
}

/// Tries IPv4 and IPv6 addresses in parallel.
fn tcp_connector(addresses: ResolvedAddresses, limit: Duration) -> HttpConnector<ResolvedAddresses> {
    let mut tcp = HttpConnector::new_with_resolver(addresses);
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(limit));
    tcp.set_keepalive(Some(Duration::from_secs(60)));
    tcp
}

/// A resolver that returns addresses which are already resolved and checked.
#[derive(Clone)]
struct ResolvedAddresses(Vec<SocketAddr>);

impl Service<Name> for ResolvedAddresses {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Ready<io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Name) -> Self::Future {
        ready(Ok(self.0.clone().into_iter()))
    }
}
