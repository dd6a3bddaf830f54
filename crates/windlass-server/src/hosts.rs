//! Host and origin checks. A page of another site can make a browser call this machine under that site's host name
//! (DNS rebinding); the `Host` header reveals this. A page may only change state here if it has the same origin.

use std::net::{IpAddr, SocketAddr};

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};

use crate::problem::codes;
use crate::{ApiProblem, ServerOptions};

/// The host names of this server.
#[derive(Clone, Debug)]
pub(crate) struct AllowedHosts {
    bind: IpAddr,
    names: Vec<String>,
}

impl AllowedHosts {
    pub(crate) fn from_options(options: &ServerOptions) -> AllowedHosts {
        let names = options.hosts.iter().map(|name| strip_port(name).to_ascii_lowercase()).collect();
        AllowedHosts { bind: options.bind.ip(), names }
    }

    /// Rejects requests for another host name, and changing requests from another origin.
    pub(crate) fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), ApiProblem> {
        let mut given = headers.get_all(header::HOST).iter();
        let host = given.next();
        if given.next().is_some() {
            return Err(ApiProblem::bad_request("the request has more than one `Host` header"));
        }
        let host = host
            .map(|host| host.to_str().map_err(|_| ApiProblem::bad_request("`Host` is not a valid host name")))
            .transpose()?;
        // A request without a host name is accepted: browsers, the only clients that can be deceived, always send one.
        for name in host.into_iter().chain(uri.authority().map(Authority::as_str)) {
            if !self.is_ours(name) {
                return Err(misdirected(name));
            }
        }
        match method.is_safe() {
            true => Ok(()),
            false if is_cross_site(headers) => Err(cross_site_problem()),
            false => check_origin(headers, host),
        }
    }

    fn is_ours(&self, host: &str) -> bool {
        let name = strip_port(host).to_ascii_lowercase();
        if self.names.contains(&name) {
            return true;
        }
        match name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            // No foreign host name can resolve to a literal address.
            Ok(address) => match self.bind.is_unspecified() {
                true => true,
                false if self.bind.is_loopback() => address.is_loopback(),
                false => address == self.bind,
            },
            Err(_) => name == "localhost" && (self.bind.is_loopback() || self.bind.is_unspecified()),
        }
    }
}

/// Removes the port.
fn strip_port(host: &str) -> &str {
    match host.rfind(':') {
        Some(colon) if host[colon + 1..].bytes().all(|byte| byte.is_ascii_digit()) && !is_bare_v6(host) => {
            &host[..colon]
        }
        _ => host,
    }
}

fn is_bare_v6(host: &str) -> bool {
    !host.starts_with('[') && host.matches(':').count() > 1
}

fn misdirected(name: &str) -> ApiProblem {
    let shown: String = name.chars().filter(|letter| !letter.is_control()).take(100).collect();
    let detail = format!("`{shown}` is not a host name of this server");
    ApiProblem::new(StatusCode::MISDIRECTED_REQUEST, codes::HOST, detail)
        .hint("to add it, start the server with `windlass serve --host NAME`")
}

/// Rejects changing requests of other origins. Since no `Access-Control-Allow-…` header is ever sent, they cannot
/// read either.
fn check_origin(headers: &HeaderMap, host: Option<&str>) -> Result<(), ApiProblem> {
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().unwrap_or_default();
    let there = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    let same = there
        .zip(host)
        .is_some_and(|(there, host)| strip_default_port(there).eq_ignore_ascii_case(strip_default_port(host)));
    match same {
        true => Ok(()),
        false => {
            let detail = "cross-origin request rejected: pages of other sites cannot change anything";
            Err(ApiProblem::new(StatusCode::FORBIDDEN, codes::HOST, detail)
                .hint("programs must not send `Origin`; pages of other sites cannot use this API"))
        }
    }
}

/// Returns whether a page of another origin caused the request, according to the browser. A page on another port of
/// this host is of another origin.
pub(crate) fn is_cross_site(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none")
}

pub(crate) fn cross_site_problem() -> ApiProblem {
    let detail = "cross-origin request rejected: a page of another site has caused it";
    ApiProblem::new(StatusCode::FORBIDDEN, codes::HOST, detail).hint("pages of other sites cannot use this API")
}

/// Removes a default port.
fn strip_default_port(host: &str) -> &str {
    host.strip_suffix(":80").or_else(|| host.strip_suffix(":443")).unwrap_or(host)
}

/// Checks whether a server may start with these options.
pub(crate) fn check_bind(options: &ServerOptions) -> Result<(), BindError> {
    if !options.bind.ip().is_loopback() && options.no_auth {
        return Err(BindError::OpenToAll(options.bind));
    }
    let is_encrypted = options.tls.is_some() || options.behind_proxy || !options.proxies.is_empty();
    if !options.bind.ip().is_loopback() && !is_encrypted {
        return Err(BindError::Unencrypted(options.bind));
    }
    match options.hosts.iter().find(|name| !is_name(name)) {
        Some(name) => Err(BindError::Name(name.clone())),
        None => Ok(()),
    }
}

fn is_name(host: &str) -> bool {
    !host.is_empty() && host.parse::<Authority>().is_ok_and(|authority| !authority.as_str().contains('@'))
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    #[error("{0} is reachable from other machines, and --no-auth would accept every request without a token")]
    OpenToAll(SocketAddr),
    #[error("{0} is reachable from other machines, and tokens would be sent to it unencrypted")]
    Unencrypted(SocketAddr),
    #[error("`{0}` is not a valid host name")]
    Name(String),
}

impl BindError {
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            BindError::OpenToAll(_) => "omit --no-auth, or bind to 127.0.0.1",
            BindError::Unencrypted(_) => {
                "give it a certificate with --tls-cert and --tls-key, say with --behind-proxy that a proxy with TLS \
                 is in front of it, or bind to 127.0.0.1"
            }
            BindError::Name(_) => "write it as in a URL: `windlass.example.org`",
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::options::TlsFiles;

    fn hosts(bind: &str, names: &[&str]) -> AllowedHosts {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        AllowedHosts::from_options(&ServerOptions {
            bind: bind.parse().unwrap(),
            hosts: names,
            ..ServerOptions::default()
        })
    }

    #[test]
    fn host_names_are_matched_against_address_and_options() {
        let cases: &[(&str, &[&str], &str, bool)] = &[
            ("127.0.0.1:7117", &[], "localhost:7117", true),
            ("127.0.0.1:7117", &[], "LOCALHOST", true),
            ("127.0.0.1:7117", &[], "127.0.0.1:9", true),
            ("127.0.0.1:7117", &[], "[::1]:7117", true),
            ("127.0.0.1:7117", &[], "::1", true),
            ("127.0.0.1:7117", &[], "evil.example", false),
            ("127.0.0.1:7117", &[], "evil.example:7117", false),
            ("127.0.0.1:7117", &[], "localhost.evil.example", false),
            ("127.0.0.1:7117", &[], "127.0.0.1.evil.example", false),
            ("127.0.0.1:7117", &[], "localhost@evil.example", false),
            ("127.0.0.1:7117", &[], "evil.example#localhost", false),
            ("127.0.0.1:7117", &[], "10.0.0.1", false),
            ("127.0.0.1:7117", &[], "", false),
            ("127.0.0.1:7117", &["flows.example"], "flows.example:443", true),
            ("10.0.0.1:80", &[], "10.0.0.1", true),
            ("10.0.0.1:80", &[], "10.0.0.2", false),
            ("10.0.0.1:80", &[], "localhost", false),
            ("10.0.0.1:80", &["Flows.example"], "flows.EXAMPLE", true),
            ("0.0.0.0:80", &[], "10.0.0.2:80", true),
            ("0.0.0.0:80", &[], "localhost", true),
            ("0.0.0.0:80", &[], "flows.example", false),
            ("[::]:80", &[], "[2001:db8::1]:80", true),
            ("[2001:db8::1]:80", &[], "[2001:db8::1]", true),
        ];
        for (bind, names, host, expected) in cases {
            assert_eq!(hosts(bind, names).is_ours(host), *expected, "{bind} {names:?} {host}");
        }
    }

    #[test]
    fn only_same_origin_pages_may_change_state() {
        let cases: &[(&str, Option<&str>, bool)] = &[
            ("localhost:7117", None, true),
            ("localhost:7117", Some("http://localhost:7117"), true),
            ("localhost:7117", Some("http://localhost:7118"), false),
            ("localhost:7117", Some("http://127.0.0.1:7117"), false),
            ("localhost:7117", Some("http://evil.example"), false),
            ("localhost:7117", Some("null"), false),
            ("localhost:7117", Some("file://"), false),
            ("localhost:7117", Some("http://localhost:7117.evil.example"), false),
            ("localhost", Some("https://localhost"), true),
            ("localhost:443", Some("https://localhost"), true),
        ];
        for (host, origin, fine) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, origin.parse().unwrap());
            }
            let checked = hosts("127.0.0.1:7117", &[]).check(&Method::POST, &Uri::from_static("/x"), &headers);
            assert_eq!(checked.is_ok(), *fine, "{host} {origin:?}");
            let read = hosts("127.0.0.1:7117", &[]).check(&Method::GET, &Uri::from_static("/x"), &headers);
            assert!(read.is_ok(), "the browser prevents other sites from reading");
        }
    }

    #[test]
    fn an_unauthenticated_server_binds_only_to_loopback() {
        let options = |bind: &str, no_auth: bool, hosts: &[&str]| {
            let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
            let bind = bind.parse().unwrap();
            check_bind(&ServerOptions { bind, no_auth, hosts, behind_proxy: true, ..ServerOptions::default() })
        };
        assert!(matches!(options("0.0.0.0:1", true, &[]), Err(BindError::OpenToAll(_))));
        assert!(matches!(options("10.1.2.3:1", true, &[]), Err(BindError::OpenToAll(_))));
        assert!(matches!(options("[::]:1", true, &[]), Err(BindError::OpenToAll(_))));
        assert_eq!(options("127.0.0.1:1", true, &[]), Ok(()));
        assert_eq!(options("[::1]:1", true, &[]), Ok(()));
        assert_eq!(options("0.0.0.0:1", false, &["a.example:80"]), Ok(()));
        assert!(matches!(options("0.0.0.0:1", false, &["a b"]), Err(BindError::Name(_))));
    }

    #[test]
    fn an_unencrypted_server_binds_only_to_loopback_or_behind_a_proxy() {
        let tls = Some(TlsFiles { certificate: "cert.pem".into(), key: "key.pem".into() });
        let check = |bind: &str, change: &dyn Fn(&mut ServerOptions)| {
            let mut options = ServerOptions { bind: bind.parse().unwrap(), ..ServerOptions::default() };
            change(&mut options);
            check_bind(&options)
        };
        for bind in ["0.0.0.0:1", "10.1.2.3:1", "[::]:1", "[2001:db8::1]:1"] {
            assert!(matches!(check(bind, &|_| ()), Err(BindError::Unencrypted(_))), "{bind}");
            assert_eq!(check(bind, &|options| options.tls.clone_from(&tls)), Ok(()));
            assert_eq!(check(bind, &|options| options.behind_proxy = true), Ok(()));
            assert_eq!(check(bind, &|options| options.proxies = vec!["10.0.0.4".parse().unwrap()]), Ok(()));
        }
        for bind in ["127.0.0.1:1", "127.8.0.1:1", "[::1]:1"] {
            assert_eq!(check(bind, &|_| ()), Ok(()), "{bind}");
        }
    }
}
