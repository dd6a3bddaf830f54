//! URLs that models name, normalized to one spelling each, so that permission rules match what they name.

use std::fmt::Write;

use crate::text::{escape_invisible, truncate_chars};

/// A normalized URL: lower-case scheme and host, no default port, no `.` and `..` segments.
#[derive(Debug, PartialEq)]
pub(crate) struct Address {
    pub(crate) scheme: String,
    /// The host, and the port if it is not the scheme's default.
    pub(crate) authority: String,
    /// The path with the query.
    pub(crate) path: String,
    /// The path was written without `.` and `..`, so every server reads it the same way.
    pub(crate) has_no_dot_segments: bool,
}

impl Address {
    /// Parses and normalizes a URL. The error is a sentence for the model.
    pub(crate) fn parse(text: &str) -> Result<Address, String> {
        let problem = |why: &str| {
            Err(format!("`{}` is not a usable address: {why}", truncate_chars(&escape_invisible(text), 200)))
        };
        let text = text.trim();
        if text.contains('\\') || text.chars().any(char::is_control) {
            return problem("it has a backslash or a control character");
        }
        let Some((scheme, rest)) = text.split_once("://") else { return problem("it is not http or https") };
        let scheme = scheme.to_ascii_lowercase();
        if !matches!(scheme.as_str(), "http" | "https") {
            return problem("it is not http or https");
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, tail) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.contains('@') {
            return problem("it has a user before its host; a login goes into a header");
        }
        let authority = normalize_authority(&scheme, authority);
        let usable = |one: char| one.is_ascii_alphanumeric() || "-._:[]".contains(one);
        if authority.is_empty() || !authority.chars().all(usable) {
            return problem("its host is not valid");
        }
        let (path, query) = tail.split_at(tail.find('?').unwrap_or(tail.len()));
        let decoded = decode_unreserved(path);
        let is_plain = !decoded.split('/').any(|part| matches!(part, "." | ".."));
        Ok(Address {
            scheme,
            authority,
            path: format!("{}{query}", remove_dot_segments(&decoded)),
            has_no_dot_segments: is_plain,
        })
    }

    pub(crate) fn to_url(&self) -> String {
        format!("{}://{}{}", self.scheme, self.authority, self.path)
    }
}

/// Normalizes host and port. Also used for patterns, in which `*` may stand anywhere.
pub(crate) fn normalize_authority(scheme: &str, authority: &str) -> String {
    let authority = authority.to_ascii_lowercase();
    let usual = if scheme == "https" { ":443" } else { ":80" };
    let host = authority.strip_suffix(usual).or_else(|| authority.strip_suffix(':')).unwrap_or(&authority);
    match host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit())) {
        Some((host, port)) => format!("{}:{port}", host.strip_suffix('.').unwrap_or(host)),
        None => host.strip_suffix('.').unwrap_or(host).to_owned(),
    }
}

/// Decodes escaped characters that need no escape and puts all other escapes in upper case.
fn decode_unreserved(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        text.push_str(&rest[..at]);
        let byte = rest.get(at + 1..at + 3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte {
            Some(byte) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => text.push(char::from(byte)),
            Some(byte) => {
                // Writing to a `String` cannot fail.
                let _ = write!(text, "%{byte:02X}");
            }
            None => text.push('%'),
        }
        rest = &rest[at + if byte.is_some() { 3 } else { 1 }..];
    }
    text + rest
}

fn remove_dot_segments(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let given: Vec<&str> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
    for (at, part) in given.iter().enumerate() {
        let is_last = at + 1 == given.len();
        match *part {
            "." | ".." => {
                if *part == ".." {
                    parts.pop();
                }
                if is_last {
                    parts.push("");
                }
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_normalized() {
        for (given, usual, is_plain) in [
            ("https://example.com", "https://example.com/", true),
            (" HTTPS://Example.COM:443/A?B#c ", "https://example.com/A?B", true),
            ("http://example.com.:80", "http://example.com/", true),
            ("http://example.com.:81/%7Ea%2fb", "http://example.com:81/~a%2Fb", true),
            ("http://[::1]:80/", "http://[::1]/", true),
            ("http://x/a/../%70rivate/%2e", "http://x/private/", false),
            ("http://x/../../a", "http://x/a", false),
            ("http://x/%zz%é", "http://x/%zz%é", true),
        ] {
            let found = Address::parse(given).unwrap();
            assert_eq!((found.to_url().as_str(), found.has_no_dot_segments), (usual, is_plain), "{given}");
        }
        for wrong in [
            "https://example.com@evil.test/",
            "https://a:b@example.com/",
            "https://example.com\\@evil.test/",
            "https://evil.test\\.example.com/",
            "https://exa mple.com/",
            "https://example.com%2eevil.test/",
            "ftp://example.com/",
            "//example.com/",
            "https:///x",
        ] {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
    }
}
