//! Which runs were made or have changed their status, for whoever shows a list of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use windlass_runtime::RunChange;
use windlass_store::{RunFilter, RunRow, RunStatus};

use super::Source;
use crate::api::models::RunSummary;
use crate::{App, Problem};

/// Changes are gathered for this long, so that a run which changes often is told of once.
const GATHERED: Duration = Duration::from_millis(100);

/// Runs told of at once. When more have changed, readers are told to look for themselves.
const MAX_RUNS_PER_UPDATE: usize = 200;

/// How often other processes are looked for, and how many of the newest runs.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LOOK_RUNS: u32 = 200;

/// What a reader may be behind.
const MAX_LAG: usize = 256;

const RESYNC: &[u8] = b"event: resync\ndata: {}\n\n";

/// All readers of changes share one watch.
#[derive(Default)]
pub(crate) struct Changes(Mutex<Option<broadcast::Sender<Bytes>>>);

impl Changes {
    /// One more reader. The watch begins with the first and stops with the last.
    pub(crate) fn join(&self, app: &App) -> ChangeReader {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let running = told.as_ref().filter(|told| told.receiver_count() > 0);
        let news = match running {
            Some(told) => told.subscribe(),
            None => {
                let (sender, news) = broadcast::channel(MAX_LAG);
                // Listened to from here on: what changes before the task runs is told, too.
                tokio::spawn(watch(app.clone(), app.engine.changes(), sender.clone()));
                *told = Some(sender);
                news
            }
        };
        ChangeReader { news, heartbeat: app.options.heartbeat }
    }
}

impl Changes {
    /// A run is not there any more.
    pub(crate) fn publish_removal(&self, run: &str) {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(told) = told.as_ref() {
            let data = serde_json::json!({ "run": run });
            // Whoever has just gone need not hear it.
            let _ = told.send(Bytes::from(format!("event: removed\ndata: {data}\n\n")));
        }
    }
}

pub(crate) struct ChangeReader {
    news: broadcast::Receiver<Bytes>,
    heartbeat: Duration,
}

impl Source for ChangeReader {
    async fn next(&mut self) -> Option<Bytes> {
        match tokio::time::timeout(self.heartbeat, self.news.recv()).await {
            Err(_) => Some(Bytes::from_static(b": heartbeat\n\n")),
            Ok(Ok(bytes)) => Some(bytes),
            Ok(Err(RecvError::Lagged(_))) => Some(Bytes::from_static(RESYNC)),
            Ok(Err(RecvError::Closed)) => None,
        }
    }
}

/// What was last known of runs, to tell a change by.
type Known = BTreeMap<Arc<str>, RunStatus>;

async fn watch(app: App, mut changes: broadcast::Receiver<RunChange>, told: broadcast::Sender<Bytes>) {
    let mut known = look(&app, None).await.map(|(rows, mark)| (known_of(&rows), mark)).unwrap_or_default();
    while told.receiver_count() > 0 {
        let gathered = gather(&mut changes).await;
        let news = match gathered {
            Gathered::TooMany => vec![Bytes::from_static(RESYNC)],
            // What cannot be read now would never be told: whoever shows a list looks for itself, later.
            Gathered::Runs(runs) => {
                rows_of(&app, runs, &mut known.0).await.unwrap_or_else(|_| vec![Bytes::from_static(RESYNC)])
            }
            Gathered::Nothing => match look(&app, Some(known.1)).await {
                Ok((rows, mark)) => {
                    known.1 = mark;
                    let news = differences(&app, &rows, &known.0);
                    if !rows.is_empty() {
                        known.0 = known_of(&rows);
                    }
                    news
                }
                Err(_) => Vec::new(),
            },
            Gathered::Closed => return,
        };
        // Whoever has just gone need not hear it.
        news.into_iter().for_each(|bytes| drop(told.send(bytes)));
    }
}

enum Gathered {
    Runs(BTreeSet<Arc<str>>),
    TooMany,
    Nothing,
    Closed,
}

/// What changes from now on, for a little while after the first.
async fn gather(changes: &mut broadcast::Receiver<RunChange>) -> Gathered {
    let mut runs = BTreeSet::new();
    match tokio::time::timeout(LOOK_EVERY, changes.recv()).await {
        Err(_) => return Gathered::Nothing,
        Ok(Err(RecvError::Closed)) => return Gathered::Closed,
        Ok(Err(RecvError::Lagged(_))) => return Gathered::TooMany,
        Ok(Ok(change)) => runs.insert(change.run),
    };
    tokio::time::sleep(GATHERED).await;
    loop {
        match changes.try_recv() {
            Ok(change) => runs.insert(change.run),
            Err(TryRecvError::Lagged(_)) => return Gathered::TooMany,
            Err(TryRecvError::Empty | TryRecvError::Closed) => break,
        };
    }
    if runs.len() > MAX_RUNS_PER_UPDATE { Gathered::TooMany } else { Gathered::Runs(runs) }
}

async fn rows_of(app: &App, runs: BTreeSet<Arc<str>>, known: &mut Known) -> Result<Vec<Bytes>, Problem> {
    let rows = app
        .at_store(move |app| {
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
    Ok(rows.iter().map(|row| encoded(app, row)).collect())
}

fn encoded(app: &App, row: &RunRow) -> Bytes {
    let summary = serde_json::to_string(&RunSummary::of(app, row)).unwrap_or_default();
    Bytes::from(format!("event: run\ndata: {summary}\n\n"))
}

/// The newest runs, if somebody may have written since the mark; and the mark now.
async fn look(app: &App, mark: Option<u64>) -> Result<(Vec<RunRow>, u64), Problem> {
    app.at_store(move |app| {
        let now = app.store.change_mark()?;
        match mark == Some(now) {
            true => Ok((Vec::new(), now)),
            false => Ok((app.store.runs(&RunFilter::default(), None, LOOK_RUNS)?, now)),
        }
    })
    .await
}

fn known_of(rows: &[RunRow]) -> Known {
    rows.iter().map(|row| (row.run.clone(), row.status)).collect()
}

fn differences(app: &App, rows: &[RunRow], known: &Known) -> Vec<Bytes> {
    let changed = rows.iter().rev().filter(|row| known.get(&row.run) != Some(&row.status));
    changed.map(|row| encoded(app, row)).collect()
}
