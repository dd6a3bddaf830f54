//! Metrics in the OpenMetrics format. Label sets are bounded: no client can make them grow.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use windlass_runtime::EngineStats;

use crate::App;
use crate::workers::{WorkerList, WorkerState};

pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper bounds in seconds.
const SECONDS: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: String,
    method: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: String,
    method: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DeliveryLabels {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FiringLabels {
    kind: &'static str,
    outcome: &'static str,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Metrics(Arc<MetricFamilies>);

struct MetricFamilies {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    seconds: Family<RouteLabels, Histogram>,
    streams: Gauge,
    connections: Gauge,
    refused_connections: Counter,
    scrubs: Counter,
    findings: Gauge,
    deliveries: Family<DeliveryLabels, Counter>,
    firings: Family<FiringLabels, Counter>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let mut registry = Registry::default();
        let requests = Family::<RequestLabels, Counter>::default();
        let seconds = Family::<RouteLabels, Histogram>::new_with_constructor(|| Histogram::new(SECONDS));
        let (streams, connections) = (Gauge::default(), Gauge::default());
        let refused_connections = Counter::default();
        let (deliveries, firings) =
            (Family::<DeliveryLabels, Counter>::default(), Family::<FiringLabels, Counter>::default());
        registry.register("windlass_http_requests", "Answered requests", requests.clone());
        registry.register("windlass_http_request_seconds", "Time until the response began", seconds.clone());
        registry.register("windlass_streams", "Open event streams", streams.clone());
        registry.register("windlass_connections", "Open connections", connections.clone());
        let help = "Connections rejected at the limit";
        registry.register("windlass_connections_refused", help, refused_connections.clone());
        let (scrubs, findings) = (Counter::default(), Gauge::default());
        registry.register("windlass_store_scrubs", "Completed searches for damage in the store", scrubs.clone());
        let help = "Findings of the last search for damage in the store";
        registry.register("windlass_store_damage", help, findings.clone());
        registry.register("windlass_webhook_deliveries", "Webhook deliveries", deliveries.clone());
        registry.register("windlass_trigger_firings", "Firings of scheduled and polling triggers", firings.clone());
        Metrics(Arc::new(MetricFamilies {
            registry,
            requests,
            seconds,
            streams,
            connections,
            refused_connections,
            scrubs,
            findings,
            deliveries,
            firings,
        }))
    }
}

impl Metrics {
    /// Records a response. `route` is the route pattern of the OpenAPI document, or empty.
    pub(crate) fn record_request(&self, route: &str, method: &Method, status: StatusCode, took: Duration) {
        let route = if route.is_empty() { "none" } else { route }.to_owned();
        let method = method_label(method);
        let labels = RequestLabels { route: route.clone(), method, status: status.as_u16() };
        self.0.requests.get_or_create(&labels).inc();
        self.0.seconds.get_or_create(&RouteLabels { route, method }).observe(took.as_secs_f64());
    }

    pub(crate) fn stream_opened(&self) {
        self.0.streams.inc();
    }

    pub(crate) fn stream_closed(&self) {
        self.0.streams.dec();
    }

    pub(crate) fn connection_opened(&self) {
        self.0.connections.inc();
    }

    pub(crate) fn connection_closed(&self) {
        self.0.connections.dec();
    }

    pub(crate) fn connection_refused(&self) {
        self.0.refused_connections.inc();
    }

    /// Records a completed search for damage.
    pub(crate) fn record_scrub(&self, findings: usize) {
        self.0.scrubs.inc();
        self.0.findings.set(i64::try_from(findings).unwrap_or(i64::MAX));
    }

    /// Records a webhook delivery: `started`, `repeated`, `refused` or `failed`.
    pub(crate) fn record_delivery(&self, outcome: &'static str) {
        self.0.deliveries.get_or_create(&DeliveryLabels { outcome }).inc();
    }

    /// Records a firing of a scheduled or polling trigger of this kind: `started`, `skipped` or `failed`.
    pub(crate) fn record_firing(&self, kind: &'static str, outcome: &'static str) {
        self.0.firings.get_or_create(&FiringLabels { kind, outcome }).inc();
    }

    /// Renders all metrics, including those of the engine.
    pub fn render(&self, app: &App) -> Result<String, fmt::Error> {
        let mut text = String::with_capacity(16 * 1024);
        encode_registry(&mut text, &self.0.registry)?;
        let mut snapshot = Registry::default();
        snapshot.register_collector(Box::new(MetricsSnapshot::collect(app)));
        encode_registry(&mut text, &snapshot)?;
        encode_eof(&mut text)?;
        Ok(text)
    }
}

/// Returns the method label. Clients choose methods freely, so only these are distinguished.
fn method_label(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

/// Values collected from other components at the time of the scrape.
#[derive(Debug)]
struct MetricsSnapshot {
    engine: EngineStats,
    audit: crate::audit::AuditStats,
    workers: WorkerList,
    expired: BTreeMap<Arc<str>, u64>,
}

/// Maximum number of distinct tool labels. Definitions name tools, so their number is unbounded.
const MAX_TOOLS: usize = 200;

impl MetricsSnapshot {
    fn collect(app: &App) -> MetricsSnapshot {
        MetricsSnapshot {
            engine: app.engine.stats(),
            audit: app.audit.stats(),
            workers: app.dispatcher.list(),
            expired: app.dispatcher.expired(),
        }
    }
}

/// Sums by tool; tools beyond the limit are summed up together.
fn by_tool(counted: impl Iterator<Item = (Arc<str>, u64)>) -> BTreeMap<Arc<str>, u64> {
    let mut sums: BTreeMap<Arc<str>, u64> = BTreeMap::new();
    for (tool, count) in counted {
        let within_limit = sums.len() < MAX_TOOLS || sums.contains_key(&tool);
        *sums.entry(if within_limit { tool } else { "other".into() }).or_default() += count;
    }
    sums
}

impl Collector for MetricsSnapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let engine = &self.engine;
        let gauges = [
            ("windlass_runs_open", "Unfinished runs owned by this engine", engine.open),
            ("windlass_runs_resident", "Runs in memory", engine.resident),
            ("windlass_runs_waiting", "Unfinished runs that are not resident", engine.open - engine.resident),
            ("windlass_jobs_running", "Tasks executing in this process", engine.jobs),
            ("windlass_audit_waiting", "Lines queued for the audit log", self.audit.queued as u64),
        ];
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        let counters = [
            ("windlass_commits", "Transactions of the journal", engine.commits),
            ("windlass_batches", "Batches in those transactions", engine.batches),
            ("windlass_ticks", "Reduced ticks", engine.ticks),
            ("windlass_iterations", "Loop iterations that have ended", engine.iterations),
            ("windlass_audit_lines", "Lines written to the audit log", self.audit.lines as u64),
            ("windlass_audit_syncs", "Syncs of the audit log", self.audit.syncs as u64),
        ];
        for (name, help, value) in counters {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
        }
        self.encode_runs(&mut encoder)?;
        self.encode_workers(&mut encoder)?;
        self.encode_commits(&mut encoder)
    }
}

impl MetricsSnapshot {
    fn encode_runs(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let started = Family::<Vec<(&str, String)>, Counter>::default();
        let ended = Family::<Vec<(&str, String)>, Counter>::default();
        for (definition, runs) in &self.engine.definitions {
            let definition = ("definition", definition.to_string());
            started.get_or_create(&vec![definition.clone()]).inc_by(runs.started);
            for (status, count) in &runs.ended {
                let status = ("status", status.to_string());
                ended.get_or_create(&vec![definition.clone(), status]).inc_by(*count);
            }
        }
        let help = "Started runs";
        started.encode(encoder.encode_descriptor("windlass_runs_started", help, None, started.metric_type())?)?;
        let help = "Ended runs";
        ended.encode(encoder.encode_descriptor("windlass_runs_ended", help, None, ended.metric_type())?)
    }

    fn encode_workers(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let queued = by_tool(self.workers.queued.iter().map(|queue| (queue.tool.clone(), queue.jobs as u64)));
        let leases = self.workers.items.iter().flat_map(|worker| &worker.leases);
        let leased = by_tool(leases.map(|lease| (lease.tool.clone(), 1)));
        let expired = by_tool(self.expired.iter().map(|(tool, count)| (tool.clone(), *count)));
        let gauges = [
            ("windlass_jobs_queued", "Tasks queued for remote workers", queued),
            ("windlass_jobs_leased", "Tasks leased to remote workers", leased),
        ];
        for (name, help, tools) in gauges {
            let family = Family::<Vec<(&str, String)>, Gauge>::default();
            for (tool, count) in tools {
                family.get_or_create(&vec![("tool", tool.to_string())]).set(count as i64);
            }
            family.encode(encoder.encode_descriptor(name, help, None, family.metric_type())?)?;
        }
        let family = Family::<Vec<(&str, String)>, Counter>::default();
        for (tool, count) in expired {
            family.get_or_create(&vec![("tool", tool.to_string())]).inc_by(count);
        }
        let help = "Leases that expired without a heartbeat";
        family.encode(encoder.encode_descriptor("windlass_leases_expired", help, None, family.metric_type())?)?;
        let family = Family::<Vec<(&str, String)>, Gauge>::default();
        for state in [WorkerState::Active, WorkerState::Draining, WorkerState::Lost] {
            let count = self.workers.items.iter().filter(|worker| worker.state == state).count();
            family.get_or_create(&vec![("state", format!("{state:?}").to_lowercase())]).set(count as i64);
        }
        let help = "Remote workers";
        family.encode(encoder.encode_descriptor("windlass_workers", help, None, family.metric_type())?)
    }

    fn encode_commits(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let latency = &self.engine.commit_latency;
        let kind = prometheus_client::metrics::MetricType::Histogram;
        let name = "windlass_commit_seconds";
        let mut metric = encoder.encode_descriptor(name, "Duration of a transaction", None, kind)?;
        metric.encode_histogram::<NoLabelSet>(latency.sum_seconds, latency.count, &latency.buckets, None)
    }
}
