//! The feed of created runs and status changes, for lists of runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use windlass_runtime::RunChange;
use windlass_runtime::inspect::{ListedStatus, OwnerProbe};
use windlass_store::{RunFilter, RunRow, RunStatus, StoreError};

use super::ByteSource;
use crate::api::models::RunSummary;
use crate::auth::TokenIdentity;
use crate::{ApiProblem, App};

/// Time for which changes are collected, so that a run which changes often is published once.
const COALESCE_TIME: Duration = Duration::from_millis(100);

/// Maximum number of runs per update. When more have changed, readers must reload their list.
const MAX_RUNS_PER_UPDATE: usize = 200;

/// Interval for detecting changes by other processes, and number of newest runs compared.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
const POLLED_RUNS: u32 = 200;

/// Maximum number of updates a reader may lag behind.
const MAX_LAG: usize = 256;

const RESYNC: &[u8] = b"event: resync\ndata: {}\n\n";

/// The change feed. All readers share one watcher task.
#[derive(Default)]
pub(crate) struct RunChangeFeed(Mutex<Option<broadcast::Sender<RunUpdate>>>);

/// A message to the readers.
#[derive(Clone)]
struct RunUpdate {
    /// The definition of the run that it is about, if it is about one.
    definition: Option<Arc<str>>,
    bytes: Bytes,
}

impl RunUpdate {
    fn resync() -> RunUpdate {
        RunUpdate { definition: None, bytes: Bytes::from_static(RESYNC) }
    }
}

impl RunChangeFeed {
    /// Adds a reader. The watcher starts with the first reader and stops with the last.
    pub(crate) fn subscribe(&self, app: &App, identity: Arc<TokenIdentity>) -> RunChangeReader {
        let mut shared_sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let running = shared_sender.as_ref().filter(|sender| sender.receiver_count() > 0);
        let updates = match running {
            Some(sender) => sender.subscribe(),
            None => {
                let (sender, updates) = broadcast::channel(MAX_LAG);
                // Subscribed here, so that changes before the task runs are not missed.
                tokio::spawn(watch(app.clone(), app.engine.changes(), sender.clone()));
                *shared_sender = Some(sender);
                updates
            }
        };
        RunChangeReader { updates, identity, heartbeat: app.options.heartbeat }
    }
}

impl RunChangeFeed {
    /// Publishes the removal of a run. If its definition is unknown, only readers that see all runs are informed.
    pub(crate) fn publish_removal(&self, run: &str, definition: Option<&str>) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = sender.as_ref() {
            let data = serde_json::json!({ "run": run });
            // Readers may have disconnected.
            let bytes = Bytes::from(format!("event: removed\ndata: {data}\n\n"));
            let _ = sender.send(RunUpdate { definition: Some(definition.unwrap_or_default().into()), bytes });
        }
    }
}

pub(crate) struct RunChangeReader {
    updates: broadcast::Receiver<RunUpdate>,
    /// The reader, who sees only runs of the definitions that the token is for.
    identity: Arc<TokenIdentity>,
    heartbeat: Duration,
}

impl ByteSource for RunChangeReader {
    async fn next(&mut self) -> Option<Bytes> {
        let visible = async {
            loop {
                match self.updates.recv().await {
                    Ok(RunUpdate { definition: Some(name), .. }) if !self.identity.is_for(&name) => {}
                    Ok(update) => return Some(update.bytes),
                    Err(RecvError::Lagged(_)) => return Some(Bytes::from_static(RESYNC)),
                    Err(RecvError::Closed) => return None,
                }
            }
        };
        let updated = tokio::time::timeout(self.heartbeat, visible).await;
        updated.unwrap_or_else(|_| Some(Bytes::from_static(b": heartbeat\n\n")))
    }
}

/// A run with the status under which it is listed.
type ListedRun = (RunRow, ListedStatus);

/// The newest runs as the feed has published them.
#[derive(Default)]
struct PublishedRuns {
    statuses: BTreeMap<Arc<str>, ListedStatus>,
    /// The owners of running runs: the death of one changes the status of its runs, and nothing in the store.
    owners: BTreeSet<String>,
    change_mark: Option<u64>,
}

impl PublishedRuns {
    fn new(rows: &[ListedRun], change_mark: u64) -> PublishedRuns {
        let running = rows.iter().filter(|(_, status)| *status == ListedStatus::Stored(RunStatus::Running));
        PublishedRuns {
            statuses: rows.iter().map(|(row, status)| (row.run.clone(), *status)).collect(),
            owners: running.filter_map(|(row, _)| row.owner.clone()).collect(),
            change_mark: Some(change_mark),
        }
    }

    fn add(&mut self, (row, status): &ListedRun) {
        if let Some(published) = self.statuses.get_mut(&row.run) {
            *published = *status;
        }
        if *status == ListedStatus::Stored(RunStatus::Running) {
            self.owners.extend(row.owner.clone());
        }
    }
}

async fn watch(app: App, mut changes: broadcast::Receiver<RunChange>, sender: broadcast::Sender<RunUpdate>) {
    let mut published = match poll_store(&app, &PublishedRuns::default()).await {
        Ok(Some((rows, mark))) => PublishedRuns::new(&rows, mark),
        Ok(None) | Err(_) => PublishedRuns::default(),
    };
    while sender.receiver_count() > 0 {
        let gathered = collect_changes(&mut changes).await;
        let updates = match gathered {
            ChangeSet::TooMany => vec![RunUpdate::resync()],
            // After a read error the change would never be published, so readers must reload.
            ChangeSet::Runs(runs) => {
                updates_for(&app, runs, &mut published).await.unwrap_or_else(|_| vec![RunUpdate::resync()])
            }
            ChangeSet::Nothing => match poll_store(&app, &published).await {
                Ok(Some((rows, mark))) => {
                    let updates = differences(&app, &rows, &published);
                    published = PublishedRuns::new(&rows, mark);
                    updates
                }
                Ok(None) | Err(_) => Vec::new(),
            },
            ChangeSet::Closed => return,
        };
        // Readers may have disconnected.
        updates.into_iter().for_each(|update| drop(sender.send(update)));
    }
}

enum ChangeSet {
    Runs(BTreeSet<Arc<str>>),
    TooMany,
    Nothing,
    Closed,
}

/// Waits for the first change and collects further ones for a short time.
async fn collect_changes(changes: &mut broadcast::Receiver<RunChange>) -> ChangeSet {
    let mut runs = BTreeSet::new();
    match tokio::time::timeout(POLL_INTERVAL, changes.recv()).await {
        Err(_) => return ChangeSet::Nothing,
        Ok(Err(RecvError::Closed)) => return ChangeSet::Closed,
        Ok(Err(RecvError::Lagged(_))) => return ChangeSet::TooMany,
        Ok(Ok(change)) => runs.insert(change.run),
    };
    tokio::time::sleep(COALESCE_TIME).await;
    loop {
        match changes.try_recv() {
            Ok(change) => runs.insert(change.run),
            Err(TryRecvError::Lagged(_)) => return ChangeSet::TooMany,
            Err(TryRecvError::Empty | TryRecvError::Closed) => break,
        };
    }
    if runs.len() > MAX_RUNS_PER_UPDATE { ChangeSet::TooMany } else { ChangeSet::Runs(runs) }
}

async fn updates_for(
    app: &App,
    runs: BTreeSet<Arc<str>>,
    published: &mut PublishedRuns,
) -> Result<Vec<RunUpdate>, ApiProblem> {
    let rows = app
        .read_store(move |app| {
            let mut rows = Vec::with_capacity(runs.len());
            for run in runs {
                rows.extend(app.store.run(&run)?);
            }
            rows.sort_by_key(|row| row.number);
            Ok(with_statuses(app, rows)?)
        })
        .await?;
    rows.iter().for_each(|listed| published.add(listed));
    Ok(rows.iter().map(|listed| encode(app, listed)).collect())
}

fn with_statuses(app: &App, rows: Vec<RunRow>) -> Result<Vec<ListedRun>, StoreError> {
    let mut probe = OwnerProbe::new(app.store.as_ref());
    let listed = |row: RunRow| {
        let status = probe.status(&row)?;
        Ok((row, status))
    };
    rows.into_iter().map(listed).collect()
}

fn encode(app: &App, (row, status): &ListedRun) -> RunUpdate {
    let summary = serde_json::to_string(&RunSummary::from_row(app, row, *status)).unwrap_or_default();
    let bytes = Bytes::from(format!("event: run\ndata: {summary}\n\n"));
    RunUpdate { definition: Some(row.definition.as_str().into()), bytes }
}

/// Returns the newest runs and the current mark if the store has changed since the published mark, or if the owner of
/// a published run has died.
async fn poll_store(app: &App, published: &PublishedRuns) -> Result<Option<(Vec<ListedRun>, u64)>, ApiProblem> {
    let (change_mark, owners) = (published.change_mark, published.owners.clone());
    app.read_store(move |app| {
        let now = app.store.change_mark()?;
        let mut changed = change_mark != Some(now);
        for owner in owners {
            changed = changed || !app.store.owner_alive(&owner)?;
        }
        if !changed {
            return Ok(None);
        }
        let rows = app.store.runs(&RunFilter::default(), None, POLLED_RUNS)?;
        Ok(Some((with_statuses(app, rows)?, now)))
    })
    .await
}

fn differences(app: &App, rows: &[ListedRun], published: &PublishedRuns) -> Vec<RunUpdate> {
    let changed = rows.iter().rev().filter(|(row, status)| published.statuses.get(&row.run) != Some(status));
    changed.map(|listed| encode(app, listed)).collect()
}
