//! Admission of trigger runs: a concurrency limit per trigger, with a queue in order of arrival.
//!
//! A waiting run is an ordinary run: it is in the store, held before its start, and can be inspected and cancelled.
//! This module keeps an index of these runs. It is read from the store on first use, so a crash loses nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast::error::RecvError;
use windlass_core::plan::Trigger;
use windlass_runtime::{RequestOutcome, RunHandle, RunRequest, RuntimeError};
use windlass_store::{RunFilter, RunRow, RunStatus, Store, StoreError, StoreErrorKind};
use windlass_value::{Timestamp, Value};

use super::delivery_prefix;
use crate::App;

const ROW_PAGE_SIZE: u32 = 500;

/// Length of [`delivery_prefix`].
const PREFIX_CHARS: usize = 14;

/// Id of the request that starts a waiting run; repeating it is idempotent.
const ADMISSION_REQUEST: &str = "admission";

/// The concurrency limits of a trigger, from its definition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TriggerConcurrency {
    pub max_concurrency: usize,
    pub max_waiting: usize,
}

impl TriggerConcurrency {
    /// Reads the limits. None: unlimited. If the definition has no limit of waiting runs, it is `default_waiting` plus
    /// the concurrency limit.
    pub(crate) fn from_trigger(trigger: &Trigger, default_waiting: usize) -> Option<TriggerConcurrency> {
        if trigger.settings.get("singleInstance").and_then(Value::as_bool) == Some(true) {
            return Some(TriggerConcurrency { max_concurrency: 1, max_waiting: 0 });
        }
        let number = |name: &str| {
            trigger.settings.get(name).and_then(Value::as_int).and_then(|number| usize::try_from(number).ok())
        };
        let max_concurrency = number("runs")?;
        Some(TriggerConcurrency {
            max_concurrency,
            max_waiting: number("maximumWaitingRuns").unwrap_or(max_concurrency + default_waiting),
        })
    }

    pub(crate) fn limit_reached_message(self) -> String {
        let TriggerConcurrency { max_concurrency, max_waiting } = self;
        match max_waiting {
            0 => format!("concurrency limit of this trigger reached: {max_concurrency} in flight, and no run may wait"),
            _ => {
                format!("concurrency limit of this trigger reached: {max_concurrency} in flight, {max_waiting} waiting")
            }
        }
    }
}

/// The unfinished runs of one trigger.
struct AdmissionQueue {
    definition: Arc<str>,
    prefix: String,
    in_flight: BTreeSet<Arc<str>>,
    waiting: BTreeMap<QueueOrder, Arc<str>>,
    /// Positions of the waiting runs by run id.
    order_by_run: BTreeMap<Arc<str>, QueueOrder>,
    /// Admitted deliveries whose runs are not all created yet, each with the number of calls creating them.
    pending_deliveries: BTreeMap<Arc<str>, usize>,
    /// An update failed: the queue must be read from the store before another run is admitted.
    is_stale: bool,
}

/// The time of a delivery, its name, and the index of the item. The runs of a delivery are created concurrently and
/// published in any order; they are admitted in this order.
pub(super) type QueueOrder = (Timestamp, Arc<str>, usize);

pub(super) fn queue_order(row: &RunRow) -> QueueOrder {
    let (delivery, item) = row.run.rsplit_once('-').unwrap_or((&row.run, ""));
    (row.created_at, delivery.into(), item.parse().unwrap_or_default())
}

type SharedQueue = Arc<Mutex<AdmissionQueue>>;

/// The admission queues of all triggers, by delivery prefix.
#[derive(Default)]
pub(crate) struct AdmissionQueues {
    all: Mutex<BTreeMap<String, SharedQueue>>,
    /// Whether all waiting runs of the store have been searched since the process started.
    scanned: Mutex<bool>,
}

/// The number of unfinished runs of a trigger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TriggerLoad {
    pub in_flight: usize,
    pub waiting: usize,
}

/// An admitted delivery that may create runs now.
pub(crate) struct AdmissionTicket {
    app: App,
    queue: Option<SharedQueue>,
    delivery: Arc<str>,
    /// Its runs are known, so no more are pending.
    is_finished: bool,
}

impl AdmissionTicket {
    /// Returns whether its runs must be created held.
    pub(crate) fn is_limited(&self) -> bool {
        self.queue.is_some()
    }

    /// Enqueues the created runs and admits those within the limit. Returns how many wait.
    pub(crate) async fn finish(self, runs: &[RunHandle]) -> Result<usize, RuntimeError> {
        let made: Vec<(Arc<str>, bool)> = runs.iter().map(|run| (run.run.clone(), run.created)).collect();
        self.finish_with(move |queue, app| {
            // Includes runs created earlier: the process that created them may have stopped before this point.
            made.iter().try_for_each(|(run, _)| queue.enqueue(app, run))?;
            queue.admit_waiting(app)?;
            Ok(made.iter().filter(|(run, created)| *created && queue.order_by_run.contains_key(run)).count())
        })
        .await
    }

    /// Ends the delivery when it is unknown which of its runs were created.
    pub(crate) async fn finish_unknown(self) -> Result<(), RuntimeError> {
        self.finish_with(|queue, app| {
            queue.read(app)?;
            queue.admit_waiting(app)
        })
        .await
    }

    async fn finish_with<T: Default + Send + 'static>(
        mut self,
        call: impl FnOnce(&mut AdmissionQueue, &App) -> Result<T, RuntimeError> + Send + 'static,
    ) -> Result<T, RuntimeError> {
        let Some(shared) = self.queue.clone() else { return Ok(T::default()) };
        blocking(move || {
            let mut queue = lock_queue(&shared);
            self.is_finished = true;
            queue.delivery_finished(&self.delivery);
            queue.update(|queue| call(queue, &self.app))
        })
        .await
    }
}

impl Drop for AdmissionTicket {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.as_ref().filter(|_| !self.is_finished) {
            // Runs that were created are admitted at the next check.
            lock_queue(queue).delivery_finished(&self.delivery);
        }
    }
}

/// Admits a delivery. Err: the limits of running and waiting runs are reached. A repeated delivery creates nothing
/// new.
pub(crate) async fn admit(
    app: &App,
    definition: &Arc<str>,
    trigger: &Trigger,
    delivery: &str,
) -> Result<Result<AdmissionTicket, TriggerConcurrency>, RuntimeError> {
    let Some(limits) = TriggerConcurrency::from_trigger(trigger, app.limits.default_trigger_queued_runs) else {
        return Ok(Ok(AdmissionTicket { app: app.clone(), queue: None, delivery: "".into(), is_finished: true }));
    };
    let (definition, prefix) = (definition.clone(), delivery_prefix(definition, &trigger.name));
    let (app, delivery, first) = (app.clone(), Arc::from(delivery), format!("{delivery}-0"));
    blocking(move || {
        let shared = app.controls().queues.get_or_load(&app, &definition, &prefix)?;
        let mut queue = lock_queue(&shared);
        let is_full = |queue: &AdmissionQueue| {
            let expected: usize = queue.pending_deliveries.values().sum();
            queue.in_flight.len() + queue.waiting.len() + expected >= limits.max_concurrency + limits.max_waiting
        };
        if is_full(&queue) {
            queue.remove_ended(&app)?;
        }
        if is_full(&queue) && app.store.run(&first)?.is_none() {
            return Ok(Err(limits));
        }
        *queue.pending_deliveries.entry(Arc::clone(&delivery)).or_default() += 1;
        drop(queue);
        Ok(Ok(AdmissionTicket { app, queue: Some(shared), delivery, is_finished: false }))
    })
    .await
}

/// Returns whether a delivery would be admitted now.
pub(crate) async fn has_room(
    app: &App,
    definition: &Arc<str>,
    trigger: &Trigger,
) -> Result<Result<(), TriggerConcurrency>, RuntimeError> {
    // No delivery has this name.
    Ok(admit(app, definition, trigger, "").await?.map(drop))
}

/// Returns the load of a trigger that has limits.
pub(crate) fn load(app: &App, definition: &Arc<str>, trigger: &Trigger) -> Result<Option<TriggerLoad>, StoreError> {
    if TriggerConcurrency::from_trigger(trigger, app.limits.default_trigger_queued_runs).is_none() {
        return Ok(None);
    }
    let prefix = delivery_prefix(definition, &trigger.name);
    let shared = app.controls().queues.get_or_load(app, definition, &prefix)?;
    let load_of =
        |queue: &AdmissionQueue| TriggerLoad { in_flight: queue.in_flight.len(), waiting: queue.waiting.len() };
    // The holder of the lock may be waiting for the write lock of the store; the store has the same information.
    let Ok(mut queue) = shared.try_lock() else {
        let mut stored = AdmissionQueue::new(definition, &prefix);
        stored.read(app)?;
        return Ok(Some(load_of(&stored)));
    };
    queue.remove_ended(app)?;
    Ok(Some(load_of(&queue)))
}

/// Admits all runs that may start: after a server start, and where the end of a run went unnoticed.
pub(crate) async fn admit_all(app: &App) -> Result<(), RuntimeError> {
    let app = app.clone();
    blocking(move || {
        let queues = &app.controls().queues;
        queues.find_waiting_runs(&app)?;
        let all: Vec<SharedQueue> = lock_mutex(&queues.all).values().cloned().collect();
        // The error of one queue keeps no other from admitting.
        let admitted: Vec<Result<(), RuntimeError>> =
            all.iter().map(|queue| lock_queue(queue).admit_waiting(&app)).collect();
        admitted.into_iter().collect()
    })
    .await
}

/// Admits the next run whenever a run ends, until the server stops.
pub async fn watch_run_changes(app: App) {
    let mut draining = app.draining();
    let mut changes = app.engine.changes();
    loop {
        let change = tokio::select! {
            _ = draining.wait_for(|draining| *draining) => return,
            change = changes.recv() => change,
        };
        // Errors are retried at the next check.
        let _ = match change {
            Ok(change) => handle_change(&app, change.run, change.status).await,
            Err(RecvError::Lagged(_)) => {
                // Resubscribe: the store has the missed changes, and reading the backlog would only fall further
                // behind.
                changes = changes.resubscribe();
                reload_all(&app).await
            }
            Err(RecvError::Closed) => return,
        };
    }
}

async fn handle_change(app: &App, run: Arc<str>, status: RunStatus) -> Result<(), RuntimeError> {
    let known = run.get(..PREFIX_CHARS).and_then(|prefix| lock_mutex(&app.controls().queues.all).get(prefix).cloned());
    let Some(queue) = known else { return Ok(()) };
    let app = app.clone();
    blocking(move || {
        lock_queue(&queue).update(|queue| {
            match status {
                // The creator may have stopped before it could enqueue the run.
                RunStatus::Pending => queue.enqueue(&app, &run)?,
                _ => {
                    // The run may have been resumed or cancelled before its admission.
                    queue.dequeue(&run);
                    match occupies_slot(status) {
                        true => queue.in_flight.insert(run),
                        false => queue.in_flight.remove(&run),
                    };
                }
            }
            queue.admit_waiting(&app)
        })
    })
    .await
}

/// Reloads all queues from the store after changes were missed.
async fn reload_all(app: &App) -> Result<(), RuntimeError> {
    let shared = app.clone();
    let all: Vec<SharedQueue> = lock_mutex(&app.controls().queues.all).values().cloned().collect();
    blocking(move || {
        // Mark all of them first, in case admission fails for one.
        all.iter().for_each(|queue| lock_queue(queue).is_stale = true);
        all.iter().try_for_each(|queue| lock_queue(queue).admit_waiting(&shared))
    })
    .await
}

/// Returns whether a run counts against the limit. A quarantined one does not: it needs an operator first.
pub(super) fn occupies_slot(status: RunStatus) -> bool {
    !status.is_final() && status != RunStatus::Quarantined
}

impl AdmissionQueues {
    fn get_or_load(&self, app: &App, definition: &Arc<str>, prefix: &str) -> Result<SharedQueue, StoreError> {
        if let Some(known) = lock_mutex(&self.all).get(prefix) {
            return Ok(known.clone());
        }
        let mut queue = AdmissionQueue::new(definition, prefix);
        queue.read(app)?;
        Ok(lock_mutex(&self.all).entry(prefix.to_owned()).or_insert_with(|| Arc::new(Mutex::new(queue))).clone())
    }

    /// Finds runs that another process left waiting, including those of removed triggers.
    fn find_waiting_runs(&self, app: &App) -> Result<(), StoreError> {
        let mut scanned = lock_mutex(&self.scanned);
        if *scanned {
            return Ok(());
        }
        let filter = RunFilter { status: Some(RunStatus::Pending), ..RunFilter::default() };
        each_run(&*app.store, &filter, |row| match row.run.get(..PREFIX_CHARS) {
            Some(prefix) if is_prefix(prefix) => {
                self.get_or_load(app, &row.definition.as_str().into(), prefix).map(drop)
            }
            _ => Ok(()),
        })?;
        *scanned = true;
        Ok(())
    }
}

impl AdmissionQueue {
    fn new(definition: &Arc<str>, prefix: &str) -> AdmissionQueue {
        AdmissionQueue {
            definition: definition.clone(),
            prefix: prefix.to_owned(),
            in_flight: BTreeSet::new(),
            waiting: BTreeMap::new(),
            order_by_run: BTreeMap::new(),
            pending_deliveries: BTreeMap::new(),
            is_stale: true,
        }
    }

    /// Loads the queue from the store.
    fn read(&mut self, app: &App) -> Result<(), StoreError> {
        let filter = RunFilter {
            definition: Some(self.definition.to_string()),
            unfinished: true,
            search: Some(self.prefix.clone()),
            ..RunFilter::default()
        };
        let (mut in_flight, mut waiting) = (BTreeSet::new(), BTreeMap::new());
        each_run(&*app.store, &filter, |row| {
            match row.status {
                _ if !row.run.starts_with(&self.prefix) => {}
                RunStatus::Pending => {
                    waiting.insert(queue_order(row), row.run.clone());
                }
                status if occupies_slot(status) => {
                    in_flight.insert(row.run.clone());
                }
                _ => {}
            }
            Ok(())
        })?;
        self.order_by_run = waiting.iter().map(|(order, run)| (run.clone(), order.clone())).collect();
        (self.in_flight, self.waiting) = (in_flight, waiting);
        self.is_stale = false;
        Ok(())
    }

    /// Applies an update; after an error the queue is reloaded from the store.
    fn update<T>(
        &mut self,
        change: impl FnOnce(&mut AdmissionQueue) -> Result<T, RuntimeError>,
    ) -> Result<T, RuntimeError> {
        let updated = change(self);
        self.is_stale |= updated.is_err();
        updated
    }

    fn enqueue(&mut self, app: &App, run: &Arc<str>) -> Result<(), StoreError> {
        if !self.in_flight.contains(run) && !self.order_by_run.contains_key(run) {
            let row = app.store.run(run)?.filter(|row| row.status == RunStatus::Pending);
            if let Some(order) = row.as_ref().map(queue_order) {
                self.order_by_run.insert(run.clone(), order.clone());
                self.waiting.insert(order, run.clone());
            }
        }
        Ok(())
    }

    fn dequeue(&mut self, run: &str) {
        if let Some(order) = self.order_by_run.remove(run) {
            self.waiting.remove(&order);
        }
    }

    fn delivery_finished(&mut self, delivery: &str) {
        if let Some(times) = self.pending_deliveries.get_mut(delivery) {
            *times -= 1;
            if *times == 0 {
                self.pending_deliveries.remove(delivery);
            }
        }
    }

    /// Returns the next run to admit. None while runs of the first delivery are being created: an earlier item may be
    /// missing.
    fn next_admissible(&self) -> Option<Arc<str>> {
        let ((_, delivery, _), run) = self.waiting.first_key_value()?;
        (!self.pending_deliveries.contains_key(delivery)).then(|| run.clone())
    }

    fn remove_ended(&mut self, app: &App) -> Result<(), StoreError> {
        let mut ended = Vec::new();
        for run in &self.in_flight {
            let row = match app.store.run(run) {
                // It needs an operator, like a quarantined one.
                Err(error) if error.kind == StoreErrorKind::Damaged => None,
                row => row?,
            };
            if row.is_none_or(|row| !occupies_slot(row.status)) {
                ended.push(run.clone());
            }
        }
        self.in_flight.retain(|run| !ended.contains(run));
        Ok(())
    }

    fn admit_waiting(&mut self, app: &App) -> Result<(), RuntimeError> {
        if self.is_stale {
            self.read(app)?;
        }
        if self.next_admissible().is_none() {
            return Ok(());
        }
        // A trigger that was removed or has no limits any more keeps no run waiting.
        let limits = self.limits(app)?;
        let is_full =
            |queue: &AdmissionQueue| limits.is_some_and(|bounds| queue.in_flight.len() >= bounds.max_concurrency);
        if is_full(self) {
            self.remove_ended(app)?;
        }
        while !is_full(self)
            && let Some(run) = self.next_admissible()
        {
            let is_started = match app.engine.request(&run, ADMISSION_REQUEST, RunRequest::Resume) {
                Ok(RequestOutcome::Ended) | Err(RuntimeError::NoSuchRun(_)) => false,
                Err(RuntimeError::Store(error)) if error.kind == StoreErrorKind::Damaged => false,
                Ok(RequestOutcome::Delivered | RequestOutcome::Queued | RequestOutcome::Duplicate) => true,
                Err(error) => return Err(error),
            };
            self.dequeue(&run);
            if is_started {
                self.in_flight.insert(run);
            }
        }
        Ok(())
    }

    /// Returns the limits of the newest version.
    fn limits(&self, app: &App) -> Result<Option<TriggerConcurrency>, RuntimeError> {
        let Some(definition) = app.definitions.get(&self.definition) else { return Ok(None) };
        let program = app.engine.program(&definition.current.plan())?;
        let own = program.plan.triggers.iter().find(|own| delivery_prefix(&definition.name, &own.name) == self.prefix);
        Ok(own.and_then(|own| TriggerConcurrency::from_trigger(own, app.limits.default_trigger_queued_runs)))
    }
}

pub(super) fn each_run(
    store: &dyn Store,
    filter: &RunFilter,
    mut visit: impl FnMut(&RunRow) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut before = None;
    loop {
        let rows = store.runs(filter, before, ROW_PAGE_SIZE)?;
        let Some(last) = rows.last() else { return Ok(()) };
        before = Some(last.number);
        rows.iter().try_for_each(&mut visit)?;
    }
}

fn is_prefix(text: &str) -> bool {
    let hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    text.strip_prefix('t').and_then(|text| text.strip_suffix('-')).is_some_and(hex)
}

async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, RuntimeError> + Send + 'static,
) -> Result<T, RuntimeError> {
    tokio::task::spawn_blocking(call).await.unwrap_or(Err(RuntimeError::Closing))
}

fn lock_queue(queue: &SharedQueue) -> MutexGuard<'_, AdmissionQueue> {
    lock_mutex(queue)
}

fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
