//! The state shared by all handlers.

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{RwLock, watch};
use windlass_core::Limits;
use windlass_runtime::{RuntimeEngine, real_now};
use windlass_store::{RecordChange, Store};

use crate::audit::AuditLog;
use crate::auth::TokenIndex;
use crate::catalog::Definitions;
use crate::credentials::ServerCredentials;
use crate::hosts::AllowedHosts;
use crate::metrics::Metrics;
use crate::rate::{RateBucket, RateLimits, SharedBuckets};
use crate::triggers::queue::AdmissionQueues;
use crate::views::ReaderViews;
use crate::workers::Dispatcher;
use crate::{DefinitionCompiler, ServerOptions};

/// A handle to the shared server state. It is cheap to clone; every handler has one.
#[derive(Clone)]
pub struct App(Arc<Shared>);

struct Shared {
    app_parts: AppParts,
    controls: RequestControls,
}

pub struct AppParts {
    pub engine: RuntimeEngine,
    pub store: Arc<dyn Store>,
    pub limits: Limits,
    pub options: ServerOptions,
    pub compiler: Arc<dyn DefinitionCompiler>,
    pub definitions: Definitions,
    pub keys: TokenIndex,
    pub audit: AuditLog,
    pub credentials: ServerCredentials,
    /// Created before the engine, because the engine's remote tools queue their jobs in it.
    pub dispatcher: Arc<Dispatcher>,
    pub metrics: Metrics,
    pub views: ReaderViews,
}

/// Request controls created from the options: host checks, rate limits, trigger queues and the drain flag.
pub(crate) struct RequestControls {
    pub hosts: AllowedHosts,
    /// Rate limits of webhooks, keyed by the names of definition and trigger.
    pub deliveries: SharedBuckets,
    /// Rate limits of unauthenticated webhook callers, keyed by address.
    pub unauthenticated_deliveries: SharedBuckets,
    pub refusal_log_bucket: RateBucket,
    pub rates: RateLimits,
    /// Runs waiting for admission.
    pub queues: AdmissionQueues,
    draining: watch::Sender<bool>,
    /// Outcome of the newest write probe of the store.
    write_probe: watch::Sender<WriteProbe>,
    /// Held for reading while the runs of a delivery are created; a writer therefore knows that none are being created.
    pub delivery_lock: Arc<RwLock<()>>,
}

/// An attempt to write to the store.
#[derive(Clone, Default)]
struct WriteProbe {
    /// Start of the attempt that is still running.
    since: Option<Instant>,
    /// End of the newest completed attempt, and its error if the write failed.
    outcome: Option<(Instant, Result<(), String>)>,
}

/// Minimum interval between write probes: callers without a token cannot trigger writes more often than this.
const WRITE_PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// Time a caller waits for a write probe; the probe continues after that.
const WRITE_PROBE_TIMEOUT: Duration = Duration::from_millis(900);

impl App {
    pub fn new(mut app_parts: AppParts) -> App {
        // The server reads the events of any number of runs by sequence number, so the live channel is not needed.
        app_parts.engine = app_parts.engine.without_live_events();
        app_parts.audit.use_reserve(app_parts.store.clone());
        let controls = RequestControls {
            hosts: AllowedHosts::from_options(&app_parts.options),
            deliveries: SharedBuckets::default(),
            unauthenticated_deliveries: SharedBuckets::default(),
            refusal_log_bucket: RateBucket::default(),
            rates: RateLimits::from_limits(&app_parts.options.limits),
            queues: AdmissionQueues::default(),
            draining: watch::channel(false).0,
            write_probe: watch::Sender::new(WriteProbe::default()),
            delivery_lock: Arc::default(),
        };
        App(Arc::new(Shared { app_parts, controls }))
    }

    pub(crate) fn controls(&self) -> &RequestControls {
        &self.0.controls
    }

    /// Checks whether the store accepts writes; the result may be up to one second old.
    ///
    /// A slow probe is neither waited for beyond its timeout nor repeated meanwhile: the store then counts as not
    /// writable.
    pub(crate) async fn check_writable(&self) -> Result<(), String> {
        let mut probes = self.0.controls.write_probe.subscribe();
        let known = probes.borrow_and_update().outcome.clone().filter(|(at, _)| at.elapsed() < WRITE_PROBE_INTERVAL);
        if let Some((_, outcome)) = known {
            return outcome;
        }
        let probe_started = self.start_write_probe();
        let ended = probes.wait_for(|tried| tried.outcome.as_ref().is_some_and(|(at, _)| *at >= probe_started));
        match tokio::time::timeout(WRITE_PROBE_TIMEOUT, ended).await {
            Ok(Ok(tried)) => tried.outcome.as_ref().map_or(Ok(()), |(_, outcome)| outcome.clone()),
            Ok(Err(_)) => Err("the server is shutting down".to_owned()),
            Err(_) => {
                let seconds = probe_started.elapsed().as_secs_f32();
                Err(format!("retried for {seconds:.1} s; another process holds its lock, or the disk is slow"))
            }
        }
    }

    /// Starts a write probe unless one is running, and returns the start time of the running probe.
    fn start_write_probe(&self) -> Instant {
        let mut since = Instant::now();
        let begins = self.0.controls.write_probe.send_if_modified(|tried| {
            let begins = tried.since.is_none();
            since = *tried.since.get_or_insert(since);
            begins
        });
        if begins {
            let app = self.clone();
            tokio::spawn(async move {
                let store = app.store.clone();
                let write = move || {
                    let change = RecordChange::put("health", "written", b"{}".to_vec(), real_now());
                    store.change_records(vec![change]).map(drop).map_err(|error| error.message)
                };
                let outcome = tokio::task::spawn_blocking(write).await.unwrap_or_else(|error| Err(error.to_string()));
                let tried = WriteProbe { since: None, outcome: Some((Instant::now(), outcome)) };
                app.0.controls.write_probe.send_replace(tried);
            });
        }
        since
    }

    /// Stops accepting long work and ends the streams. Their readers reconnect to another server, or later.
    pub fn drain(&self) {
        self.0.controls.draining.send_replace(true);
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.0.controls.draining.borrow()
    }

    /// Returns a channel that becomes true when the server starts to shut down, for tasks that wait for long.
    pub fn draining(&self) -> watch::Receiver<bool> {
        self.0.controls.draining.subscribe()
    }
}

impl Deref for App {
    type Target = AppParts;

    fn deref(&self) -> &AppParts {
        &self.0.app_parts
    }
}
