//! OpenTelemetry traces of runs ([`RunTraces`]) and of the engine itself ([`EngineSpans`]).
//!
//! Traces of runs are computed from published events: a run that has ended is read once, in the background. Nothing
//! waits for a collector; what it does not accept is dropped.

mod engine;
mod spans;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry_http::hyper::HyperClient;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinHandle;
use windlass_runtime::RuntimeError;

use crate::App;
pub use engine::{EngineSpans, EngineTraces};
use spans::RunSpans;

/// Maximum number of ended runs waiting to be read.
const MAX_QUEUED_RUNS: usize = 1_024;

/// Spans sent together.
const MAX_SPANS_PER_EXPORT: usize = 512;

/// Maximum time for an export.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
#[error("traces cannot be sent to `{endpoint}`: {why}")]
pub struct TraceError {
    pub endpoint: String,
    pub why: String,
}

impl TraceError {
    pub fn hint(&self) -> &'static str {
        "set OTEL_EXPORTER_OTLP_ENDPOINT to an address such as http://127.0.0.1:4318"
    }
}

/// Exports runs that end from now on.
pub struct RunTraces {
    counts: Arc<TraceCounts>,
    listen_task: JoinHandle<()>,
    send_task: JoinHandle<()>,
}

#[derive(Default)]
struct TraceCounts {
    sent: AtomicU64,
    lost: AtomicU64,
}

impl RunTraces {
    /// Starts the export. Must be called inside a tokio runtime. The endpoint is the collector's address without the
    /// traces path.
    pub fn start(app: &App, endpoint: &str) -> Result<RunTraces, TraceError> {
        let exporter = exporter(endpoint)?;
        let counts = Arc::new(TraceCounts::default());
        let (queue, ended) = mpsc::channel(MAX_QUEUED_RUNS);
        let listen_task = tokio::spawn(listen(app.engine.changes(), queue, counts.clone()));
        let send_task = tokio::spawn(send(app.clone(), ended, exporter, counts.clone()));
        Ok(RunTraces { counts, listen_task, send_task })
    }

    /// Returns the numbers of exported and of lost runs.
    pub fn counts(&self) -> (u64, u64) {
        (self.counts.sent.load(Ordering::Relaxed), self.counts.lost.load(Ordering::Relaxed))
    }

    /// Sends the queued runs within the timeout.
    pub async fn stop(mut self, timeout: Duration) {
        self.listen_task.abort();
        // Without the listener the queue is closed, so the task ends after the runs that are queued now.
        let _ = tokio::time::timeout(timeout, &mut self.send_task).await;
        self.send_task.abort();
    }
}

fn exporter(endpoint: &str) -> Result<SpanExporter, TraceError> {
    let trace_error = |why: String| TraceError { endpoint: endpoint.to_owned(), why };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_provider_and_native_roots(Arc::unwrap_or_clone(provider))
        .map_err(|error| trace_error(error.to_string()))?
        .https_or_http()
        .enable_http1()
        .build();
    let endpoint = format!("{}/v1/traces", endpoint.trim_end_matches('/'));
    let mut exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpJson)
        .with_http_client(HyperClient::new(connector, EXPORT_TIMEOUT, None))
        .with_endpoint(endpoint)
        .with_timeout(EXPORT_TIMEOUT)
        .build()
        .map_err(|error| trace_error(error.to_string()))?;
    exporter.set_resource(&Resource::builder().with_service_name("windlass").build());
    Ok(exporter)
}

async fn listen(
    mut changes: broadcast::Receiver<windlass_runtime::RunChange>,
    queue: mpsc::Sender<Arc<str>>,
    counts: Arc<TraceCounts>,
) {
    loop {
        match changes.recv().await {
            Ok(change) if change.status.is_final() => {
                if queue.try_send(change.run).is_err() {
                    counts.lost.fetch_add(1, Ordering::Relaxed);
                }
            }
            Ok(_) => {}
            Err(broadcast::error::RecvError::Lagged(missed)) => {
                counts.lost.fetch_add(missed, Ordering::Relaxed);
            }
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

async fn send(app: App, mut ended: mpsc::Receiver<Arc<str>>, exporter: SpanExporter, counts: Arc<TraceCounts>) {
    while let Some(run) = ended.recv().await {
        let counted = match export_run(&app, &run, &exporter).await {
            Ok(true) => &counts.sent,
            // A removed run or an unreachable collector only counts as lost.
            Ok(false) | Err(_) => &counts.lost,
        };
        counted.fetch_add(1, Ordering::Relaxed);
    }
}

/// Exports a run; returns whether the collector accepted all of it.
async fn export_run(app: &App, run: &str, exporter: &SpanExporter) -> Result<bool, RuntimeError> {
    let row = app.store.run(run)?.ok_or_else(|| RuntimeError::NoSuchRun(run.to_owned()))?;
    let mut spans = RunSpans::new(&row, app.options.limits.max_trace_spans);
    let mut events = app.engine.events(run, 0)?;
    while let Some(event) = events.next().await? {
        spans.add(&event);
        if spans.done() >= MAX_SPANS_PER_EXPORT && !export(exporter, spans.take()).await {
            return Ok(false);
        }
    }
    Ok(export(exporter, spans.end(&row)).await)
}

async fn export(exporter: &SpanExporter, spans: Vec<SpanData>) -> bool {
    exporter.export(spans).await.is_ok()
}
