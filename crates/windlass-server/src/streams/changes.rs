//! The feed of created runs and status changes, for lists of runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use windlass_runtime::RunChange;
use windlass_store::{RunFilter, RunRow, RunStatus};

use super::ByteSource;
use crate::api::models::RunSummary;
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
pub(crate) struct RunChangeFeed(Mutex<Option<broadcast::Sender<Bytes>>>);

impl RunChangeFeed {
    /// Adds a reader. The watcher starts with the first reader and stops with the last.
    pub(crate) fn subscribe(&self, app: &App) -> RunChangeReader {
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
        RunChangeReader { updates, heartbeat: app.options.heartbeat }
    }
}

impl RunChangeFeed {
    /// Publishes the removal of a run.
    pub(crate) fn publish_removal(&self, run: &str) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = sender.as_ref() {
            let data = serde_json::json!({ "run": run });
            // Readers may have disconnected.
            let _ = sender.send(Bytes::from(format!("event: removed\ndata: {data}\n\n")));
        }
    }
}

pub(crate) struct RunChangeReader {
    updates: broadcast::Receiver<Bytes>,
    heartbeat: Duration,
}

impl ByteSource for RunChangeReader {
    async fn next(&mut self) -> Option<Bytes> {
        match tokio::time::timeout(self.heartbeat, self.updates.recv()).await {
            Err(_) => Some(Bytes::from_static(b": heartbeat\n\n")),
            Ok(Ok(bytes)) => Some(bytes),
            Ok(Err(RecvError::Lagged(_))) => Some(Bytes::from_static(RESYNC)),
            Ok(Err(RecvError::Closed)) => None,
        }
    }
}

/// Last known statuses of runs, to detect changes.
type KnownStatuses = BTreeMap<Arc<str>, RunStatus>;

async fn watch(app: App, mut changes: broadcast::Receiver<RunChange>, sender: broadcast::Sender<Bytes>) {
    let mut known = poll_store(&app, None).await.map(|(rows, mark)| (statuses_of(&rows), mark)).unwrap_or_default();
    while sender.receiver_count() > 0 {
        let gathered = collect_changes(&mut changes).await;
        let updates = match gathered {
            ChangeSet::TooMany => vec![Bytes::from_static(RESYNC)],
            // After a read error the change would never be published, so readers must reload.
            ChangeSet::Runs(runs) => {
                updates_for(&app, runs, &mut known.0).await.unwrap_or_else(|_| vec![Bytes::from_static(RESYNC)])
            }
            ChangeSet::Nothing => match poll_store(&app, Some(known.1)).await {
                Ok((rows, mark)) => {
                    known.1 = mark;
                    let updates = differences(&app, &rows, &known.0);
                    if !rows.is_empty() {
                        known.0 = statuses_of(&rows);
                    }
                    updates
                }
                Err(_) => Vec::new(),
            },
            ChangeSet::Closed => return,
        };
        // Readers may have disconnected.
        updates.into_iter().for_each(|bytes| drop(sender.send(bytes)));
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

async fn updates_for(app: &App, runs: BTreeSet<Arc<str>>, known: &mut KnownStatuses) -> Result<Vec<Bytes>, ApiProblem> {
    let rows = app
        .read_store(move |app| {
            let mut rows = Vec::with_capacity(runs.len());
            for run in runs {
                rows.extend(app.store.run(&run)?);
            }
            rows.sort_by_key(|row| row.number);
            Ok(rows)
        })
        .await?;
    for row in &rows {
        if let Some(status) = known.get_mut(&row.run) {
            *status = row.status;
        }
    }
    Ok(rows.iter().map(|row| encode(app, row)).collect())
}

fn encode(app: &App, row: &RunRow) -> Bytes {
    let summary = serde_json::to_string(&RunSummary::from_row(app, row)).unwrap_or_default();
    Bytes::from(format!("event: run\ndata: {summary}\n\n"))
}

/// Returns the newest runs if the store may have changed since the mark, and the current mark.
async fn poll_store(app: &App, change_mark: Option<u64>) -> Result<(Vec<RunRow>, u64), ApiProblem> {
    app.read_store(move |app| {
        let now = app.store.change_mark()?;
        match change_mark == Some(now) {
            true => Ok((Vec::new(), now)),
            false => Ok((app.store.runs(&RunFilter::default(), None, POLLED_RUNS)?, now)),
        }
    })
    .await
}

fn statuses_of(rows: &[RunRow]) -> KnownStatuses {
    rows.iter().map(|row| (row.run.clone(), row.status)).collect()
}

fn differences(app: &App, rows: &[RunRow], known: &KnownStatuses) -> Vec<Bytes> {
    let changed = rows.iter().rev().filter(|row| known.get(&row.run) != Some(&row.status));
    changed.map(|row| encode(app, row)).collect()
}
