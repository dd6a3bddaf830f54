//! Spans of the engine itself, sent as they end: requests, resident runs, jobs, commits.
//!
//! The program's subscriber gets a tracer; its spans wait in a bounded queue until they are sent. They are not sent
//! by the batch processor of the SDK, because that has its own thread outside the runtime that the HTTP client needs.
//! Spans that the collector does not accept in time are dropped; nothing waits for it.

use std::time::Duration;

use opentelemetry::Context;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span, SpanData, SpanExporter as _, SpanProcessor};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::{MAX_SPANS_PER_EXPORT, TraceError, exporter};

/// Maximum number of ended spans waiting to be sent.
const MAX_QUEUED_SPANS: usize = 16_384;

/// Ended spans that are not being sent yet.
pub struct EngineSpans(mpsc::Receiver<SpanData>);

/// Sends the spans of an engine.
pub struct EngineTraces {
    stop: oneshot::Sender<()>,
    send_task: JoinHandle<()>,
}

#[derive(Debug)]
struct SpanQueue(mpsc::Sender<SpanData>);

impl SpanProcessor for SpanQueue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        // Dropped if the queue is full.
        let _ = self.0.try_send(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

impl EngineSpans {
    /// Creates a tracer for the program's subscriber, and the queue of its spans.
    pub fn new() -> (SdkTracer, EngineSpans) {
        let (sender, ended) = mpsc::channel(MAX_QUEUED_SPANS);
        let provider = SdkTracerProvider::builder().with_span_processor(SpanQueue(sender)).build();
        (provider.tracer("windlass"), EngineSpans(ended))
    }

    /// Starts sending the spans to a collector. Must be called inside a tokio runtime.
    pub fn send_to(self, endpoint: &str) -> Result<EngineTraces, TraceError> {
        let exporter = exporter(endpoint)?;
        let (stop, stopped) = oneshot::channel();
        Ok(EngineTraces { stop, send_task: tokio::spawn(send(self.0, exporter, stopped)) })
    }
}

impl EngineTraces {
    /// Sends the queued spans within the timeout.
    pub async fn stop(self, timeout: Duration) {
        let EngineTraces { stop, mut send_task } = self;
        let _ = stop.send(());
        let _ = tokio::time::timeout(timeout, &mut send_task).await;
        send_task.abort();
    }
}

async fn send(mut ended: mpsc::Receiver<SpanData>, exporter: SpanExporter, mut stopped: oneshot::Receiver<()>) {
    let mut spans = Vec::new();
    loop {
        tokio::select! {
            _ = ended.recv_many(&mut spans, MAX_SPANS_PER_EXPORT) => {}
            _ = &mut stopped, if !ended.is_closed() => {
                ended.close();
                continue;
            }
        }
        if spans.is_empty() {
            return;
        }
        // Spans are lost while the collector is unreachable.
        let _ = exporter.export(std::mem::take(&mut spans)).await;
    }
}
