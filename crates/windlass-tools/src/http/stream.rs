//! Streamed replies, for tools that understand streams.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Response;
use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::header::{self, HeaderName};
use windlass_core::ErrorInfo;
use windlass_runtime::ToolCall;

use super::read::read_body;
use super::request::{ConfiguredRequest, HttpRequest};
use super::{HttpTool, failure, reply};

const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");

/// A reply whose head has arrived.
pub struct StreamedReply {
    request: HttpRequest,
    response: Response<Incoming>,
    max_bytes: usize,
    bytes: usize,
}

impl HttpTool {
    /// Sends a request to a configured address and waits for the head of its reply. The caller handles timeout,
    /// cancellation and redaction.
    pub async fn open_stream(
        &self,
        call: &ToolCall,
        configured: &ConfiguredRequest<'_>,
    ) -> Result<StreamedReply, ErrorInfo> {
        let request = HttpRequest::from_configured(call, configured, &self.0.defaults)?;
        let (request, response) = self.0.follow(request).await?;
        Ok(StreamedReply { request, response, max_bytes: self.0.max_reply_bytes, bytes: 0 })
    }

    /// Returns the maximum number of decoded bytes of one reply.
    pub fn max_reply_bytes(&self) -> usize {
        self.0.max_reply_bytes
    }
}

impl StreamedReply {
    /// Returns the status of the reply.
    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// Returns the media type in lower case, without parameters.
    pub fn media_type(&self) -> String {
        let full = self.header(&header::CONTENT_TYPE).unwrap_or_default();
        full.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// Returns true if the body has no content encoding and can be read as it arrives.
    pub fn is_unencoded(&self) -> bool {
        let encoding = self.header(&header::CONTENT_ENCODING).unwrap_or_default();
        encoding.is_empty() || encoding.eq_ignore_ascii_case("identity")
    }

    /// Returns the delay that the service requests before the next attempt, in milliseconds.
    pub fn retry_after_ms(&self) -> Option<i64> {
        let exact = self.header(&RETRY_AFTER_MS).and_then(|text| text.trim().parse::<u32>().ok()).map(i64::from);
        exact.or_else(|| reply::retry_after(self.response.headers()))
    }

    fn header(&self, name: &HeaderName) -> Option<&str> {
        self.response.headers().get(name).and_then(|value| value.to_str().ok())
    }

    /// Returns the next chunk, or `None` at the end. The sum of all chunks is bounded by the limit.
    pub async fn next_chunk(&mut self) -> Result<Option<Bytes>, ErrorInfo> {
        while let Some(frame) = self.response.body_mut().frame().await {
            let frame = frame.map_err(|error| self.connection_error(&error))?;
            let Ok(bytes) = frame.into_data() else { continue };
            self.bytes = self.bytes.saturating_add(bytes.len());
            if self.bytes > self.max_bytes {
                return Err(failure::too_large(&self.request, self.max_bytes));
            }
            return Ok(Some(bytes));
        }
        Ok(None)
    }

    /// Reads and decodes the rest of the body.
    pub async fn read_to_end(self) -> Result<Vec<u8>, ErrorInfo> {
        let (head, body) = self.response.into_parts();
        Ok(read_body(&self.request, &head.headers, body, self.max_bytes).await?.bytes)
    }

    fn connection_error(&self, error: &hyper::Error) -> ErrorInfo {
        failure::connection(&self.request.method, &self.request.uri, error)
    }
}
