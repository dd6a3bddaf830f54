//! The requests of error pages.

use std::io::{Read, Write};
use std::net::TcpStream;

/// A server and the token for it.
#[derive(Clone)]
pub(super) struct ServerAccess {
    /// Host and port.
    pub address: String,
    pub token: String,
}

impl ServerAccess {
    /// Sends the request of an `http` block and returns the status and the response.
    ///
    /// The block has a method and a path, headers, an empty line and a body. Headers that every request needs are added
    /// if the block does not have them.
    pub(super) fn send(&self, block: &str) -> (u16, String) {
        let (head, body) = block.trim_end().split_once("\n\n").unwrap_or((block.trim_end(), ""));
        let mut lines = head.lines();
        let mut request = format!("{} HTTP/1.1\r\n", lines.next().expect("a method and a path"));
        let headers: Vec<(&str, &str)> = lines.map(|line| line.split_once(": ").expect("a header")).collect();
        let added = [
            ("Host", self.address.clone()),
            ("Authorization", format!("Bearer {}", self.token)),
            ("Content-Length", body.len().to_string()),
            ("Connection", "close".to_owned()),
        ];
        let has = |name: &str| headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        let added = added.iter().filter(|(name, _)| !has(name)).map(|(name, value)| (*name, value.as_str()));
        for (name, value) in headers.iter().copied().chain(added) {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        let mut stream = TcpStream::connect(&self.address).expect("the server listens");
        stream.write_all(format!("{request}\r\n{body}").as_bytes()).expect("sent");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("a response");
        (response.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status"), response)
    }
}
