//! Streams of run events and run changes for many concurrent readers.
//!
//! - `frame`: events, encoded once for all readers
//! - `fan_out`: the newest events of one run, shared by its readers
//! - `page_cache`: older events that were read recently
//! - `tail`: one reader
//! - `changes`: the feed of changed runs
//!
//! Readers pull: events that a slow reader has not taken are read from the store again later, and nothing waits for
//! it.

pub(crate) mod changes;
mod fan_out;
mod frame;
mod page_cache;
mod tail;

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_core::Stream;

pub(crate) use fan_out::EventFanOuts;
pub(crate) use page_cache::EventPageCache;
pub(crate) use tail::{EventTail, StreamFormat};

/// A source of byte chunks. The next chunk is requested only when the previous one was taken.
pub(crate) trait ByteSource: Send + 'static {
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

type PullFuture<S> = Pin<Box<dyn Future<Output = Option<(Bytes, S)>> + Send>>;

struct PullStream<S>(Option<PullFuture<S>>);

impl<S: ByteSource> PullStream<S> {
    fn new(source: S) -> PullStream<S> {
        PullStream(Some(Box::pin(pull(source))))
    }
}

async fn pull<S: ByteSource>(mut source: S) -> Option<(Bytes, S)> {
    let bytes = source.next().await?;
    Some((bytes, source))
}

impl<S: ByteSource> Stream for PullStream<S> {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Infallible>>> {
        let Some(pulling) = self.0.as_mut() else { return Poll::Ready(None) };
        let Poll::Ready(pulled) = pulling.as_mut().poll(context) else { return Poll::Pending };
        self.0 = None;
        let Some((bytes, source)) = pulled else { return Poll::Ready(None) };
        self.0 = Some(Box::pin(pull(source)));
        Poll::Ready(Some(Ok(bytes)))
    }
}

/// Builds a response that streams the source to its end.
pub(crate) fn stream_response<S: ByteSource>(kind: &'static str, source: S) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        // A buffering proxy would hold events back.
        (header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, Body::from_stream(PullStream::new(source))).into_response()
}
