//! Body wrappers that measure, time out or close what passes through them.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Sleep;

use crate::audit::BodyFacts;
use crate::auth::TokenActivity;
use crate::metrics::Metrics;

/// Digits of a body's hash in the audit log.
const HASH_DIGITS: usize = 32;

/// Size, hash and timeliness of a request body.
#[derive(Clone, Default)]
pub(crate) struct BodyDigest(Arc<DigestState>);

#[derive(Default)]
struct DigestState {
    late: AtomicBool,
    digest: Mutex<Option<(blake3::Hasher, u64)>>,
}

impl BodyDigest {
    pub(crate) fn was_late(&self) -> bool {
        self.0.late.load(Ordering::Relaxed)
    }

    /// Returns the size and hash, or None for an empty body.
    pub(crate) fn facts(&self) -> Option<BodyFacts> {
        let digest = self.0.digest.lock().unwrap_or_else(PoisonError::into_inner);
        let (hasher, bytes) = digest.as_ref()?;
        let mut hash = hasher.finalize().to_hex().to_string();
        hash.truncate(HASH_DIGITS);
        Some(BodyFacts { bytes: *bytes, hash })
    }

    fn add(&self, data: &Bytes) {
        let mut digest = self.0.digest.lock().unwrap_or_else(PoisonError::into_inner);
        let (hasher, bytes) = digest.get_or_insert_with(|| (blake3::Hasher::new(), 0));
        hasher.update(data);
        *bytes += data.len() as u64;
    }
}

/// Callback with the facts of a request body that has arrived completely.
pub(crate) type OnBodyEnd = Box<dyn FnOnce(Option<BodyFacts>) + Send>;

/// A request body that records its size and hash and must arrive in time.
pub(crate) struct MeasuredBody {
    inner: Body,
    digest: BodyDigest,
    timeout: Duration,
    /// Starts with the first wait: most bodies are available immediately.
    deadline: Option<Pin<Box<Sleep>>>,
    on_end: Option<OnBodyEnd>,
}

impl MeasuredBody {
    pub(crate) fn new(inner: Body, timeout: Duration, on_end: OnBodyEnd) -> (MeasuredBody, BodyDigest) {
        let digest = BodyDigest::default();
        (MeasuredBody { inner, digest: digest.clone(), timeout, deadline: None, on_end: Some(on_end) }, digest)
    }
}

impl HttpBody for MeasuredBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match Pin::new(&mut self.inner).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    self.digest.add(data);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Pending => {
                let timeout = self.timeout;
                let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
                if deadline.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                self.digest.0.late.store(true, Ordering::Relaxed);
                Poll::Ready(Some(Err(axum::Error::new("the request did not arrive in time"))))
            }
            Poll::Ready(None) => {
                if let Some(on_end) = self.on_end.take() {
                    on_end(self.digest.facts());
                }
                Poll::Ready(None)
            }
            failed => failed,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Counts one open stream of a token.
pub(crate) struct StreamSlot {
    usage: Arc<TokenActivity>,
    metrics: Metrics,
}

impl StreamSlot {
    pub(crate) fn new(usage: &Arc<TokenActivity>, max_streams: usize, metrics: &Metrics) -> Option<StreamSlot> {
        if usage.streams.fetch_add(1, Ordering::Relaxed) >= max_streams {
            usage.streams.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        metrics.stream_opened();
        Some(StreamSlot { usage: usage.clone(), metrics: metrics.clone() })
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        self.usage.streams.fetch_sub(1, Ordering::Relaxed);
        self.metrics.stream_closed();
    }
}

/// Completes when a stream must end.
pub(crate) type EndSignal = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// A stream body that ends with a notice when the server closes it.
pub(crate) struct ClosableStreamBody {
    inner: Body,
    end_signal: EndSignal,
    /// None: the notice has been sent.
    notice: Option<Bytes>,
    _slot: StreamSlot,
}

impl ClosableStreamBody {
    pub(crate) fn new(inner: Body, notice: Bytes, end_signal: EndSignal, slot: StreamSlot) -> ClosableStreamBody {
        ClosableStreamBody { inner, end_signal, notice: Some(notice), _slot: slot }
    }
}

impl HttpBody for ClosableStreamBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.notice.is_none() {
            return Poll::Ready(None);
        }
        match Pin::new(&mut self.inner).poll_frame(context) {
            Poll::Pending => {
                let ended = self.end_signal.as_mut().poll(context);
                ended.map(|()| self.notice.take().map(|notice| Ok(Frame::data(notice))))
            }
            ready => ready,
        }
    }
}
