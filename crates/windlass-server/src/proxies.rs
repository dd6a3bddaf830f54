//! The client address behind proxies. Only proxies named by the operator are trusted, each for the one address that
//! it has seen itself: the list is read from its end, as far as trusted proxies wrote it.

use std::net::{IpAddr, SocketAddr};

use axum::http::HeaderMap;
use windlass_tools::outbound::AddressRange;

const X_FORWARDED_FOR: &str = "x-forwarded-for";
const FORWARDED: &str = "forwarded";
const X_FORWARDED_PROTO: &str = "x-forwarded-proto";

/// Whether the client sent the request over TLS: to this server, or to a trusted proxy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OverTls(pub bool);

impl OverTls {
    /// Reads the scheme of the client's request that a trusted proxy names, the first of the list. A client that forges
    /// it only gets a cookie that its browser does not send. Otherwise the connection counts.
    pub(crate) fn from_request(
        proxies: &[AddressRange],
        peer: IpAddr,
        headers: &HeaderMap,
        connection: OverTls,
    ) -> OverTls {
        let is_https = |scheme: &str| scheme.trim().trim_matches('"').eq_ignore_ascii_case("https");
        let by_list = joined_header(headers, X_FORWARDED_PROTO).and_then(|text| text.split(',').next().map(is_https));
        let by_element = || {
            let text = joined_header(headers, FORWARDED)?;
            element_value(split_elements(&text).first()?, "proto").map(is_https)
        };
        let by_proxy = if includes(proxies, peer) { by_list.or_else(by_element) } else { None };
        OverTls(by_proxy.unwrap_or(connection.0))
    }
}

/// Returns whether the peer is a trusted proxy.
pub(crate) fn includes(proxies: &[AddressRange], peer: IpAddr) -> bool {
    let peer = peer.to_canonical();
    proxies.iter().any(|proxy| proxy.contains(peer))
}

/// Returns the client of a trusted proxy. None: the peer is no trusted proxy, or names no client.
pub(crate) fn client(proxies: &[AddressRange], peer: IpAddr, headers: &HeaderMap) -> Option<SocketAddr> {
    if !includes(proxies, peer) {
        return None;
    }
    let list = joined_header(headers, X_FORWARDED_FOR)
        .map(|text| text.split(',').map(|one| parse_address(one.trim())).collect::<Vec<_>>());
    let forwarded = joined_header(headers, FORWARDED)
        .map(|text| split_elements(&text).iter().map(|one| parse_element(one)).collect());
    match (list, forwarded) {
        (None, None) => None,
        (Some(seen), None) | (None, Some(seen)) => nearest_client(proxies, &seen),
        (Some(one), Some(other)) => {
            // A proxy writes only one of the two headers. If they disagree, the client has forged the other.
            let (one, other) = (nearest_client(proxies, &one), nearest_client(proxies, &other));
            one.filter(|one| other.is_some_and(|other| one.ip() == other.ip()))
        }
    }
}

fn joined_header(headers: &HeaderMap, name: &str) -> Option<String> {
    let lines: Vec<_> = headers.get_all(name).iter().map(|line| String::from_utf8_lossy(line.as_bytes())).collect();
    (!lines.is_empty()).then(|| lines.join(","))
}

/// Searches from the end for the first address that is no trusted proxy. Entries before it may be forged.
fn nearest_client(proxies: &[AddressRange], seen: &[Option<SocketAddr>]) -> Option<SocketAddr> {
    let mut nearest = None;
    for one in seen.iter().rev() {
        // `unknown`, a name, or nonsense: nothing is known beyond the proxy that wrote it.
        let Some(address) = one else { break };
        nearest = Some(*address);
        if !includes(proxies, address.ip()) {
            break;
        }
    }
    nearest
}

/// `192.0.2.1`, `192.0.2.1:4711`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:4711`.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let bare = |text: &str| text.parse::<IpAddr>().ok().map(|address| SocketAddr::new(address, 0));
    let found = bare(text).or_else(|| text.parse().ok());
    let found = found.or_else(|| bare(text.strip_prefix('[')?.strip_suffix(']')?));
    found.map(|found| SocketAddr::new(found.ip().to_canonical(), found.port()))
}

/// Splits the elements of `Forwarded`; commas inside quotes do not separate.
fn split_elements(text: &str) -> Vec<&str> {
    split_outside_quotes(text, ',')
}

fn split_outside_quotes(text: &str, separator: char) -> Vec<&str> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(move |letter: char| {
        if escaped {
            escaped = false;
            return false;
        }
        match letter {
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ => {}
        }
        letter == separator && !quoted
    })
    .collect()
}

/// `for="[2001:db8::1]:4711";proto=https;by=…`
fn parse_element(element: &str) -> Option<SocketAddr> {
    parse_address(element_value(element, "for")?.trim().trim_matches('"'))
}

fn element_value<'e>(element: &'e str, name: &str) -> Option<&'e str> {
    let mut named = split_outside_quotes(element, ';').into_iter().filter_map(|pair| pair.split_once('='));
    named.find(|(own, _)| own.trim().eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    type Line<'a> = (&'static str, &'a str);

    fn headers(lines: &[Line<'_>]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn the_client_address_comes_from_trusted_proxies_only() {
        let proxies: Vec<AddressRange> = ["10.0.0.0/8", "::1", "127.0.0.1"].map(|text| text.parse().unwrap()).to_vec();
        let (xff, fwd) = ("x-forwarded-for", "forwarded");
        let table: &[(&str, &[Line<'_>], Option<&str>)] = &[
            // Headers of an untrusted peer are ignored.
            ("192.0.2.7", &[(xff, "198.51.100.1")], None),
            ("192.0.2.7", &[(fwd, "for=198.51.100.1")], None),
            ("10.1.1.1", &[], None),
            ("10.1.1.1", &[(xff, "198.51.100.1")], Some("198.51.100.1:0")),
            ("::ffff:10.1.1.1", &[(xff, "198.51.100.1:99")], Some("198.51.100.1:99")),
            ("::1", &[(xff, "2001:db8::1")], Some("[2001:db8::1]:0")),
            ("127.0.0.1", &[(xff, "[2001:db8::1]:99")], Some("[2001:db8::1]:99")),
            // The client may have written the beginning of the list; only its end is from the proxy.
            ("10.1.1.1", &[(xff, "127.0.0.1, 198.51.100.1")], Some("198.51.100.1:0")),
            ("10.1.1.1", &[(xff, "203.0.113.9, 198.51.100.1, 10.2.2.2")], Some("198.51.100.1:0")),
            ("10.1.1.1", &[(xff, "203.0.113.9"), (xff, "198.51.100.1")], Some("198.51.100.1:0")),
            ("10.1.1.1", &[(xff, "10.3.3.3, 10.2.2.2")], Some("10.3.3.3:0")),
            ("10.1.1.1", &[(xff, "203.0.113.9, unknown, 10.2.2.2")], Some("10.2.2.2:0")),
            ("10.1.1.1", &[(xff, "203.0.113.9, unknown")], None),
            ("10.1.1.1", &[(xff, "")], None),
            ("10.1.1.1", &[(fwd, "for=198.51.100.1;proto=https")], Some("198.51.100.1:0")),
            ("10.1.1.1", &[(fwd, "For=\"[2001:db8::1]:47\"; by=_x, for=10.2.2.2")], Some("[2001:db8::1]:47")),
            ("10.1.1.1", &[(fwd, "for=203.0.113.9, for=\"a,b\\\",for=10.9.9.9\"")], None),
            ("10.1.1.1", &[(fwd, "for=_hidden")], None),
            ("10.1.1.1", &[(fwd, "proto=https")], None),
            // A proxy writes only one of the headers; the other comes from the client.
            ("10.1.1.1", &[(xff, "198.51.100.1"), (fwd, "for=203.0.113.9")], None),
            ("10.1.1.1", &[(xff, "198.51.100.1"), (fwd, "for=198.51.100.1")], Some("198.51.100.1:0")),
        ];
        for (peer, lines, expected) in table {
            let found = client(&proxies, peer.parse().unwrap(), &headers(lines));
            assert_eq!(found, expected.map(|wanted| wanted.parse().unwrap()), "{peer} {lines:?}");
        }
    }

    #[test]
    fn tls_is_reported_by_trusted_proxies_only() {
        let proxies: Vec<AddressRange> = vec!["10.0.0.0/8".parse().unwrap()];
        let (proto, fwd) = ("x-forwarded-proto", "forwarded");
        let table: &[(&str, &[Line<'_>], bool)] = &[
            ("192.0.2.7", &[(proto, "https")], false),
            ("10.1.1.1", &[], false),
            ("10.1.1.1", &[(proto, "https")], true),
            ("10.1.1.1", &[(proto, "HTTPS, http")], true),
            ("10.1.1.1", &[(proto, "http")], false),
            ("10.1.1.1", &[(fwd, "for=198.51.100.1; proto=https")], true),
            ("10.1.1.1", &[(fwd, "for=198.51.100.1;proto=\"https\", for=10.2.2.2;proto=http")], true),
            ("10.1.1.1", &[(fwd, "for=198.51.100.1")], false),
            ("10.1.1.1", &[(proto, "http"), (fwd, "proto=https")], false),
        ];
        for (peer, lines, expected) in table {
            let found = |connection| {
                OverTls::from_request(&proxies, peer.parse().unwrap(), &headers(lines), OverTls(connection)).0
            };
            assert_eq!(found(false), *expected, "{peer} {lines:?}");
            // Over TLS to this server, it is the proxy alone that may say that the client used none.
            let says_nothing = *peer == "192.0.2.7" || !lines.iter().any(|(_, value)| value.contains("http"));
            assert_eq!(found(true), *expected || says_nothing, "{peer} {lines:?}");
        }
    }
}
