//! What all handlers share.

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
use crate::hosts::AllowedHosts;
use crate::metrics::Metrics;
use crate::rate::{RateBucket, RateLimits, SharedBuckets};
use crate::triggers::queue::AdmissionQueues;
use crate::views::ReaderViews;
use crate::workers::Dispatcher;
use crate::{DefinitionCompiler, ServerOptions};

/// Cheap to clone: every handler has one.
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
    /// Made before the engine: the engine's remote tools wait in it.
    pub dispatcher: Arc<Dispatcher>,
    pub metrics: Metrics,
    pub views: ReaderViews,
}

/// What watches over requests, made from the options.
pub(crate) struct RequestControls {
    pub hosts: AllowedHosts,
    /// Webhooks, by the names of definition and trigger.
    pub deliveries: SharedBuckets,
    /// Whoever calls them and proves nothing, by address.
    pub unauthenticated_deliveries: SharedBuckets,
    pub refusal_log_bucket: RateBucket,
    pub rates: RateLimits,
    /// Runs that wait for their turn.
    pub queues: AdmissionQueues,
    draining: watch::Sender<bool>,
    /// What came of the newest try to write the store.
    write_probe: watch::Sender<WriteProbe>,
    /// Whoever makes the runs of a delivery has a part of it; who has all of it knows that none are being made.
    pub delivery_lock: Arc<RwLock<()>>,
}

/// A try to write the store.
#[derive(Clone, Default)]
struct WriteProbe {
    /// When it was begun, if it goes on.
    since: Option<Instant>,
    /// When the newest that came to an end did, and why it could not write.
    outcome: Option<(Instant, Result<(), String>)>,
}

/// Whoever may ask without a token makes the store be written no more often than this.
const WRITE_PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// How long whoever asks waits for a try; it goes on all the same.
const WRITE_PROBE_TIMEOUT: Duration = Duration::from_millis(900);

impl App {
    pub fn new(mut app_parts: AppParts) -> App {
        // Events are read by their numbers here, of any number of runs.
        app_parts.engine = app_parts.engine.without_live_events();
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

    /// Whether the store takes what is written to it, as it was within the last second. A try that takes long is waited for by
    /// nobody and is not repeated meanwhile: the answer is that it cannot be written.
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
            Ok(Err(_)) => Err("the server is stopping".to_owned()),
            Err(_) => {
                let seconds = probe_started.elapsed().as_secs_f32();
                Err(format!("it has been tried for {seconds:.1} s; another process has its lock, or the disk is slow"))
            }
        }
    }

    /// Since when it is tried: by this call, or by one before it.
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

    /// From now on nothing long is begun, and streams end: whoever reads them asks again elsewhere, or later.
    pub fn drain(&self) {
        self.0.controls.draining.send_replace(true);
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.0.controls.draining.borrow()
    }

    /// For whatever waits for long: it becomes true when the server wants to stop.
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
