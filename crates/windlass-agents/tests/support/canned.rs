//! Services that answer with fixed bytes, valid or not.

#![allow(clippy::unwrap_used, dead_code)]

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The behaviour after the last byte.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum AfterReply {
    Close,
    /// The connection stays open, and nothing follows.
    Silence,
    /// The last piece is repeated forever.
    Endless,
}

pub(crate) struct CannedService {
    pub url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl CannedService {
    /// Sends the same pieces to every request.
    pub(crate) async fn start(pieces: Vec<Vec<u8>>, then: AfterReply) -> CannedService {
        CannedService::start_sequence(vec![pieces], then).await
    }

    /// Sends one reply after the other, each as its pieces, and then the last one to every request.
    async fn start_sequence(replies: Vec<Vec<Vec<u8>>>, then: AfterReply) -> CannedService {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, replies.clone(), then, seen.clone()));
            }
        });
        CannedService { url, requests }
    }

    pub(crate) async fn reply(status: u16, headers: &str, body: &[u8]) -> CannedService {
        CannedService::start(vec![reply_bytes(status, headers, body)], AfterReply::Close).await
    }

    /// Sends one reply after the other, and then the last one to every request.
    pub(crate) async fn json_sequence(replies: &[(u16, &str)]) -> CannedService {
        let bytes = |(status, body): &(u16, &str)| vec![reply_bytes(*status, JSON_TYPE, body.as_bytes())];
        CannedService::start_sequence(replies.iter().map(bytes).collect(), AfterReply::Close).await
    }

    pub(crate) async fn json(status: u16, body: &str) -> CannedService {
        CannedService::reply(status, JSON_TYPE, body.as_bytes()).await
    }

    /// Sends the events of a stream, which ends with its connection.
    pub(crate) async fn events(events: &[&str], then: AfterReply) -> CannedService {
        CannedService::stream("text/event-stream", events.iter().map(|event| format!("{event}\n\n").into_bytes()), then)
            .await
    }

    pub(crate) async fn stream(
        media: &str,
        pieces: impl IntoIterator<Item = Vec<u8>>,
        then: AfterReply,
    ) -> CannedService {
        let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: {media}\r\n\r\n").into_bytes();
        CannedService::start([head].into_iter().chain(pieces).collect(), then).await
    }

    /// Returns heads and bodies.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// Returns the body of the last request.
    pub(crate) fn body(&self) -> String {
        self.requests().last().unwrap().split_once("\r\n\r\n").unwrap().1.to_owned()
    }
}

const JSON_TYPE: &str = "content-type: application/json\r\n";

fn reply_bytes(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

async fn serve(mut stream: TcpStream, replies: Vec<Vec<Vec<u8>>>, then: AfterReply, seen: Arc<Mutex<Vec<String>>>) {
    let mut text = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let Ok(read @ 1..) = stream.read(&mut piece).await else { return };
        text.extend_from_slice(&piece[..read]);
        let whole = String::from_utf8_lossy(&text);
        let Some((head, body)) = whole.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
            break;
        }
    }
    let number = {
        let mut seen = seen.lock().unwrap();
        seen.push(String::from_utf8(text).unwrap());
        seen.len()
    };
    let pieces = &replies[number.min(replies.len()) - 1];
    for piece in pieces {
        if stream.write_all(piece).await.is_err() {
            return;
        }
        let _ = stream.flush().await;
        tokio::task::yield_now().await;
    }
    let last = pieces.last().cloned().unwrap_or_default();
    match then {
        AfterReply::Close => {}
        AfterReply::Silence => std::future::pending().await,
        AfterReply::Endless => while stream.write_all(&last).await.is_ok() {},
    }
}
