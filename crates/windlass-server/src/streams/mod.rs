//! Streams: events of a run, and changes of runs, for many readers at once.
//!
//! - `frame` an event, encoded once for everybody · `hub` the newest events of one run, shared by its readers · `shelf` older ones
//!   that somebody has read lately · `tail` one reader · `changes` which runs have changed.
//!
//! A reader pulls: what a slow one has not taken is read from the store again later, and nobody waits for it.

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

/// Whatever gives bytes one piece after the other. It is asked for the next only when the last has been taken.
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

/// An answer that goes on for as long as its source does.
pub(crate) fn stream_response<S: ByteSource>(kind: &'static str, source: S) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        // A proxy that gathers before it passes on would hold events back.
        (header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, Body::from_stream(PullStream::new(source))).into_response()
}
