//! A minimal HTTP client with next to no overhead: the server is measured, not the client.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) struct HttpConnection {
    stream: TcpStream,
    read: Vec<u8>,
}

pub(crate) struct BenchReply {
    pub status: u16,
    pub body: Vec<u8>,
}

impl HttpConnection {
    pub(crate) async fn open(address: SocketAddr) -> std::io::Result<HttpConnection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(HttpConnection { stream, read: Vec::with_capacity(4096) })
    }

    /// Sends a request and reads the whole response, which has a Content-Length.
    pub(crate) async fn call(&mut self, request: &[u8]) -> std::io::Result<BenchReply> {
        self.stream.write_all(request).await?;
        self.read.clear();
        let head = loop {
            if let Some(end) = find(&self.read, b"\r\n\r\n") {
                break end + 4;
            }
            self.read_more().await?;
        };
        let text = String::from_utf8_lossy(&self.read[..head]).to_ascii_lowercase();
        let status = text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        let length = text.split("content-length:").nth(1).and_then(|rest| rest.split("\r\n").next());
        let length: usize = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
        while self.read.len() < head + length {
            self.read_more().await?;
        }
        Ok(BenchReply { status, body: self.read[head..head + length].to_vec() })
    }

    /// Sends a request with an endless response and passes each chunk to `on_chunk` until that returns true.
    pub(crate) async fn stream(
        mut self,
        request: &[u8],
        mut on_chunk: impl FnMut(&[u8]) -> bool,
    ) -> std::io::Result<()> {
        self.stream.write_all(request).await?;
        loop {
            self.read.clear();
            let read = tokio::time::timeout(Duration::from_secs(120), self.stream.read_buf(&mut self.read)).await;
            match read {
                Ok(Ok(0)) => return Ok(()),
                Ok(Ok(_)) if on_chunk(&self.read) => return Ok(()),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(std::io::ErrorKind::TimedOut.into()),
            }
        }
    }

    async fn read_more(&mut self) -> std::io::Result<()> {
        match self.stream.read_buf(&mut self.read).await? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

pub(crate) fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}
