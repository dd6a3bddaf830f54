//! Conversion of a credential to a connection.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use windlass_core::ErrorInfo;

use super::failure::PgFailure;
use crate::credentials::Credential;
use crate::outbound::{Outbound, OutboundRefusal};
use crate::tls;

const HINT: &str = "postgres://user:password@host:5432/database?sslmode=require, or a JSON object with host, port, user, \
                    password, database and sslmode";

/// Returns the connection parameters and the TLS settings of a credential.
pub(super) fn connection_target(facts: &Credential) -> Result<(Config, PgTls), ErrorInfo> {
    let unusable = |what: &str| unusable(facts, what);
    let (mut config, mode) = match facts.url() {
        Some(url) => {
            let (url, mode) = split_sslmode(url);
            // The parser's message may repeat parts of the text.
            (url.parse().map_err(|_| unusable("its address is not valid"))?, mode)
        }
        None => (from_fields(facts)?, None),
    };
    let mode = mode.or_else(|| facts.field(&["sslmode"]).map(str::to_owned));
    let mode = mode.map_or(Ok(TlsMode::Prefer), |mode| {
        TlsMode::parse(&mode).ok_or_else(|| unusable("its `sslmode` is none of disable, prefer, require, verify-full"))
    })?;
    config.ssl_mode(match mode {
        TlsMode::Disable => SslMode::Disable,
        TlsMode::Prefer => SslMode::Prefer,
        TlsMode::Require | TlsMode::Verify => SslMode::Require,
    });
    if config.get_application_name().is_none() {
        config.application_name("windlass");
    }
    Ok((config, PgTls::new(mode).map_err(|_| unusable("TLS cannot be set up"))?))
}

fn from_fields(facts: &Credential) -> Result<Config, ErrorInfo> {
    let unusable = |what: &str| unusable(facts, what);
    let mut config = Config::new();
    config.host(facts.field(&["host", "hostname", "server"]).ok_or_else(|| unusable("it has no `host`"))?);
    let port = facts.field(&["port"]).map(|port| port.trim().parse::<u16>());
    config.port(port.transpose().map_err(|_| unusable("its `port` is not a number"))?.unwrap_or(5432));
    config.user(facts.field(&["user", "username"]).ok_or_else(|| unusable("it has no `user`"))?);
    if let Some(password) = facts.field(&["password"]) {
        config.password(password);
    }
    if let Some(database) = facts.field(&["database", "dbname", "name", "db"]) {
        config.dbname(database);
    }
    Ok(config)
}

fn unusable(facts: &Credential, what: &str) -> ErrorInfo {
    let message = format!("{} is not a Postgres connection: {what}", facts.display_name());
    ErrorInfo::new("BadCredential", "auth", message).hint(HINT)
}

/// Describes the server for messages: `db.example:5432 (the credential `pg`)`.
pub(super) fn describe_server(config: &Config, facts: &Credential) -> String {
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(host) => host.clone(),
        Host::Unix(path) => path.display().to_string(),
    });
    let places: Vec<String> = hosts.enumerate().map(|(at, host)| format!("{host}:{}", port(config, at))).collect();
    format!("{} ({})", places.join(", "), facts.display_name())
}

/// Returns the port of the host at this index.
fn port(config: &Config, at: usize) -> u16 {
    let ports = config.get_ports();
    ports.get(at).or(ports.first()).copied().unwrap_or(5432)
}

/// Returns the policy for a credential. Hosts of a credential that the operator configured are trusted, because no
/// definition chose them.
pub(super) fn outbound_policy(base: &Outbound, config: &Config, facts: &Credential) -> Outbound {
    if base.is_open() || !facts.is_configured() {
        return base.clone();
    }
    let named = config.get_hosts().iter().enumerate().filter_map(|(at, host)| match host {
        Host::Tcp(host) => Some((host.clone(), port(config, at))),
        Host::Unix(_) => None,
    });
    let fixed = config.get_hostaddrs().iter().enumerate().map(|(at, host)| (host.to_string(), port(config, at)));
    let all_files = config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_)));
    if all_files && config.get_hostaddrs().is_empty() {
        return Outbound::open();
    }
    named.chain(fixed).fold(base.clone(), |outbound, (host, port)| outbound.with_trusted_host(&host, port))
}

/// Returns the configuration with a checked address for each host, so that the client resolves nothing itself.
pub(super) async fn resolve_hosts(config: &Config, outbound: &Outbound, server: &str) -> Result<Config, PgFailure> {
    let mut config = config.clone();
    if outbound.is_open() {
        return Ok(config);
    }
    let refused = |refused: &OutboundRefusal| PgFailure::from(refused.error(&format!("Postgres at {server}")));
    let addresses = async |host: &str, port: u16| {
        let found = outbound.addresses(host, port).await;
        found.map_err(|error| match OutboundRefusal::from_io_error(&error) {
            Some(reason) => refused(reason),
            None => PgFailure::unreachable(server, &error.to_string()),
        })
    };
    let fixed: Vec<_> = config.get_hostaddrs().to_vec();
    for (at, address) in fixed.iter().enumerate() {
        addresses(&address.to_string(), port(&config, at)).await?;
    }
    if !fixed.is_empty() {
        return Ok(config);
    }
    for (at, host) in config.get_hosts().to_vec().into_iter().enumerate() {
        match host {
            Host::Tcp(host) => {
                let found = addresses(&host, port(&config, at)).await?;
                if let Some(first) = found.first() {
                    config.hostaddr(first.ip());
                }
            }
            Host::Unix(path) => {
                let reason = outbound.check_file(&path.display().to_string());
                return reason.map_or(Ok(config), |reason| Err(refused(&reason)));
            }
        }
    }
    Ok(config)
}

enum TlsMode {
    Disable,
    Prefer,
    Require,
    Verify,
}

impl TlsMode {
    fn parse(name: &str) -> Option<TlsMode> {
        match name.trim() {
            "disable" => Some(TlsMode::Disable),
            "allow" | "prefer" => Some(TlsMode::Prefer),
            "require" => Some(TlsMode::Require),
            "verify-ca" | "verify-full" => Some(TlsMode::Verify),
            _ => None,
        }
    }
}

/// Splits off `sslmode`, because the parser of the client does not support all modes.
fn split_sslmode(url: &str) -> (String, Option<String>) {
    let Some((address, query)) = url.split_once('?') else { return (url.to_owned(), None) };
    let (modes, rest): (Vec<&str>, Vec<&str>) = query.split('&').partition(|pair| pair.starts_with("sslmode="));
    let mode = modes.last().and_then(|pair| pair.split_once('=')).map(|(_, mode)| mode.to_owned());
    let rest = rest.join("&");
    (if rest.is_empty() { address.to_owned() } else { format!("{address}?{rest}") }, mode)
}

/// Makes TLS connections. As in other Postgres clients, `require` means encryption, and `verify-full` also verifies
/// the server.
#[derive(Clone)]
pub(super) struct PgTls(Arc<rustls::ClientConfig>);

impl PgTls {
    fn new(mode: TlsMode) -> Result<PgTls, rustls::Error> {
        let config = match mode {
            TlsMode::Verify => tls::verified_config(tls::root_certificates()),
            TlsMode::Disable | TlsMode::Prefer | TlsMode::Require => tls::unverified_config(),
        };
        config.map(|config| PgTls(Arc::new(config)))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for PgTls {
    type Stream = PgTlsStream<S>;
    type TlsConnect = PgTlsHandshake;
    type Error = rustls::pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, host: &str) -> Result<PgTlsHandshake, Self::Error> {
        Ok(PgTlsHandshake { config: self.0.clone(), host: ServerName::try_from(host)?.to_owned() })
    }
}

pub(super) struct PgTlsHandshake {
    config: Arc<rustls::ClientConfig>,
    host: ServerName<'static>,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for PgTlsHandshake {
    type Stream = PgTlsStream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<PgTlsStream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let stream = tokio_rustls::TlsConnector::from(self.config).connect(self.host, stream).await?;
            Ok(PgTlsStream(stream))
        })
    }
}

pub(super) struct PgTlsStream<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for PgTlsStream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for PgTlsStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, to)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for PgTlsStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
