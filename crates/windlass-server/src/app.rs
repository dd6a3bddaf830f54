//! What all handlers share.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use windlass_core::Limits;
use windlass_runtime::{Engine, real_now};
use windlass_store::{RecordChange, Store};

use crate::audit::Audit;
use crate::auth::Keys;
use crate::catalog::Definitions;
use crate::hosts::Hosts;
use crate::metrics::Metrics;
use crate::rate::{Bucket, Strangers};
use crate::triggers::Told;
use crate::triggers::queue::Queues;
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

/// Hears what triggers do.
type Listener = Box<dyn Fn(&Told) + Send + Sync>;

/// When something was last tried, and what came of it.
type Tried = (Instant, Result<(), String>);

/// What watches over requests, made from the options.
pub(crate) struct Watch {
    pub hosts: Hosts,
    /// Webhooks, by the names of definition and trigger.
    pub deliveries: Strangers,
    /// Whoever calls them and proves nothing, by address.
    pub unproven: Strangers,
    pub refusals_noted: Bucket,
    /// Runs that wait for their turn.
    pub queues: Queues,
    /// Whoever keeps a log.
    listener: OnceLock<Listener>,
    draining: watch::Sender<bool>,
    /// When the store was last tried, and why it could not be written.
    writable: Arc<tokio::sync::Mutex<Option<Tried>>>,
}

/// Whoever may ask without a token makes the store be written no more often than this.
const TRIED_EVERY: Duration = Duration::from_secs(1);

impl App {
    pub fn new(mut parts: Parts) -> App {
        // Events are read by their numbers here, of any number of runs.
        parts.engine = parts.engine.without_live_events();
        let watch = Watch {
            hosts: Hosts::of(&parts.options),
            deliveries: Strangers::default(),
            unproven: Strangers::default(),
            refusals_noted: Bucket::default(),
            queues: Queues::default(),
            listener: OnceLock::new(),
            draining: watch::channel(false).0,
            writable: Arc::default(),
        };
        App(Arc::new(Shared { parts, watch }))
    }

    /// From now on this one hears what triggers do. There is one listener, the first.
    pub fn listen_to_triggers(&self, listener: impl Fn(&Told) + Send + Sync + 'static) {
        let _ = self.0.watch.listener.set(Box::new(listener));
    }

    pub(crate) fn tell(&self, told: &Told) {
        if let Some(listener) = self.0.watch.listener.get() {
            listener(told);
        }
    }

    pub(crate) fn watch(&self) -> &Watch {
        &self.0.watch
    }

    /// Whether the store takes what is written to it, as it was within the last second.
    pub(crate) async fn is_writable(&self) -> Result<(), String> {
        let mut tried = self.0.watch.writable.clone().lock_owned().await;
        if let Some((at, outcome)) = &*tried
            && at.elapsed() < TRIED_EVERY
        {
            return outcome.clone();
        }
        let store = self.store.clone();
        // Whoever asked may hang up: others wait for this one, and do not try again.
        let write = move || {
            let change = RecordChange::put("health", "written", b"{}".to_vec(), real_now());
            let outcome = store.change_records(vec![change]).map(drop).map_err(|error| error.message);
            *tried = Some((Instant::now(), outcome.clone()));
            outcome
        };
        tokio::task::spawn_blocking(write).await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// From now on nothing long is begun, and streams end: whoever reads them asks again elsewhere, or later.
    pub fn drain(&self) {
        self.0.watch.draining.send_replace(true);
    }

    pub fn is_draining(&self) -> bool {
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
