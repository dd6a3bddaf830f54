//! What all handlers share.

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{RwLock, watch};
use windlass_core::Limits;
use windlass_runtime::{Engine, real_now};
use windlass_store::{RecordChange, Store};

use crate::audit::Audit;
use crate::auth::Keys;
use crate::catalog::Definitions;
use crate::hosts::Hosts;
use crate::metrics::Metrics;
use crate::rate::{Bucket, Rates, Strangers};
use crate::triggers::queue::AdmissionQueues;
use crate::views::Views;
use crate::workers::Dispatcher;
use crate::{Compiler, ServerOptions};

/// Cheap to clone: every handler has one.
#[derive(Clone)]
pub struct App(Arc<Shared>);

struct Shared {
    parts: Parts,
    watch: Watch,
}

pub struct Parts {
    pub engine: Engine,
    pub store: Arc<dyn Store>,
    pub limits: Limits,
    pub options: ServerOptions,
    pub compiler: Arc<dyn Compiler>,
    pub definitions: Definitions,
    pub keys: Keys,
    pub audit: Audit,
    /// Made before the engine: the engine's remote tools wait in it.
    pub dispatcher: Arc<Dispatcher>,
    pub metrics: Metrics,
    pub views: Views,
}

/// What watches over requests, made from the options.
pub(crate) struct Watch {
    pub hosts: Hosts,
    /// Webhooks, by the names of definition and trigger.
    pub deliveries: Strangers,
    /// Whoever calls them and proves nothing, by address.
    pub unproven: Strangers,
    pub refusals_noted: Bucket,
    pub rates: Rates,
    /// Runs that wait for their turn.
    pub queues: AdmissionQueues,
    draining: watch::Sender<bool>,
    /// What came of the newest try to write the store.
    written: watch::Sender<Tried>,
    /// Whoever makes the runs of a delivery has a part of it; who has all of it knows that none are being made.
    pub making: Arc<RwLock<()>>,
}

/// A try to write the store.
#[derive(Clone, Default)]
struct Tried {
    /// When it was begun, if it goes on.
    since: Option<Instant>,
    /// When the newest that came to an end did, and why it could not write.
    outcome: Option<(Instant, Result<(), String>)>,
}

/// Whoever may ask without a token makes the store be written no more often than this.
const TRIED_EVERY: Duration = Duration::from_secs(1);

/// How long whoever asks waits for a try; it goes on all the same.
const TRIED_FOR: Duration = Duration::from_millis(900);

impl App {
    pub fn new(mut parts: Parts) -> App {
        // Events are read by their numbers here, of any number of runs.
        parts.engine = parts.engine.without_live_events();
        let watch = Watch {
            hosts: Hosts::of(&parts.options),
            deliveries: Strangers::default(),
            unproven: Strangers::default(),
            refusals_noted: Bucket::default(),
            rates: Rates::of(&parts.options.limits),
            queues: AdmissionQueues::default(),
            draining: watch::channel(false).0,
            written: watch::Sender::new(Tried::default()),
            making: Arc::default(),
        };
        App(Arc::new(Shared { parts, watch }))
    }

    pub(crate) fn watch(&self) -> &Watch {
        &self.0.watch
    }

    /// Whether the store takes what is written to it, as it was within the last second. A try that takes long is waited for by
    /// nobody and is not repeated meanwhile: the answer is that it cannot be written.
    pub(crate) async fn is_writable(&self) -> Result<(), String> {
        let mut seen = self.0.watch.written.subscribe();
        let known = seen.borrow_and_update().outcome.clone().filter(|(at, _)| at.elapsed() < TRIED_EVERY);
        if let Some((_, outcome)) = known {
            return outcome;
        }
        let since = self.try_to_write();
        let ended = seen.wait_for(|tried| tried.outcome.as_ref().is_some_and(|(at, _)| *at >= since));
        match tokio::time::timeout(TRIED_FOR, ended).await {
            Ok(Ok(tried)) => tried.outcome.as_ref().map_or(Ok(()), |(_, outcome)| outcome.clone()),
            Ok(Err(_)) => Err("the server is stopping".to_owned()),
            Err(_) => {
                let seconds = since.elapsed().as_secs_f32();
                Err(format!("it has been tried for {seconds:.1} s; another process has its lock, or the disk is slow"))
            }
        }
    }

    /// Since when it is tried: by this call, or by one before it.
    fn try_to_write(&self) -> Instant {
        let mut since = Instant::now();
        let begins = self.0.watch.written.send_if_modified(|tried| {
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
                let tried = Tried { since: None, outcome: Some((Instant::now(), outcome)) };
                app.0.watch.written.send_replace(tried);
            });
        }
        since
    }

    /// From now on nothing long is begun, and streams end: whoever reads them asks again elsewhere, or later.
    pub fn drain(&self) {
        self.0.watch.draining.send_replace(true);
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.0.watch.draining.borrow()
    }

    /// For whatever waits for long: it becomes true when the server wants to stop.
    pub fn draining(&self) -> watch::Receiver<bool> {
        self.0.watch.draining.subscribe()
    }
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0.parts
    }
}
