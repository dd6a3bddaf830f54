//! One reader of a run's events.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use windlass_runtime::show::StoredEvents;

use super::Source;
use super::frame::{BATCH_BYTES_MAX, Batch};
use super::hub::{Ahead, Hub, Over};
use crate::api::models::row_of;
use crate::{App, Problem};

/// Journal rows that a reader who is behind takes at once, at most: as many as make about one batch.
const ROWS_AT_ONCE: u32 = 64;

/// How events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Sse,
    Lines,
}

/// Gives every event after a number once, then what comes, until the run has ended.
pub struct Tail {
    app: App,
    run: Arc<str>,
    after: u64,
    form: Form,
    /// None: it stops at the newest.
    hub: Option<Arc<Hub>>,
    /// Journal rows to read the next time.
    rows: u32,
    done: bool,
}

impl Tail {
    pub async fn open(app: App, run: Arc<str>, after: u64, form: Form, follow: bool) -> Result<Tail, Problem> {
        let hub = match follow {
            true => Some(app.views.hubs.join(&app, &run).await?),
            false => None,
        };
        Ok(Tail { app, run, after, form, hub, rows: 1, done: false })
    }

    async fn read_store(&mut self) -> Result<Option<Bytes>, Problem> {
        let (run, after) = (self.run.clone(), self.after);
        if let Some(hub) = self.hub.clone() {
            let read = self.app.at_store(move |app| {
                let pieces = StoredEvents::new(run.clone(), after).read_rows(app.store.as_ref(), ROWS_AT_ONCE)?;
                Ok(Batch::all(&run, &pieces))
            });
            return Ok(hub.behind(after, read).await?.map(|batch| self.take(&batch)));
        }
        let rows = self.rows;
        let read = self.app.at_store(move |app| {
            let pieces = StoredEvents::new(run.clone(), after).read_rows(app.store.as_ref(), rows)?;
            Ok(Batch::first(&run, &pieces).map(|(batch, left)| (batch, !left.is_empty())))
        });
        let Some((batch, cut)) = read.await? else { return Ok(None) };
        self.rows = match cut {
            true => (rows / 2).max(1),
            false if batch.size() < BATCH_BYTES_MAX / 2 => (rows * 2).min(ROWS_AT_ONCE),
            false => rows,
        };
        Ok(Some(self.take(&batch)))
    }

    fn take(&mut self, batch: &Batch) -> Bytes {
        let bytes = match self.form {
            Form::Sse => batch.sse_after(self.after),
            Form::Lines => batch.lines_after(self.after),
        };
        self.after = self.after.max(batch.last);
        bytes
    }

    fn heartbeat(&self) -> Bytes {
        Bytes::from_static(match self.form {
            Form::Sse => b": heartbeat\n\n",
            Form::Lines => b"{\"type\":\"heartbeat\"}\n",
        })
    }

    /// The last thing said of a run that has ended. One that goes on has no end.
    async fn end(&mut self) -> Option<Bytes> {
        self.done = true;
        let run = self.run.clone();
        let row = self.app.at_store(move |app| Ok(row_of(app, &run)?)).await.ok()?;
        if self.hub.is_none() && !row.status.is_final() {
            return None;
        }
        let told = serde_json::json!({ "type": "end", "run": &*self.run, "status": row.status.as_str() });
        Some(Bytes::from(match self.form {
            Form::Sse => format!("event: end\ndata: {told}\n\n"),
            Form::Lines => format!("{told}\n"),
        }))
    }
}

impl Source for Tail {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.done {
                return None;
            }
            let Some(hub) = self.hub.clone() else {
                match self.read_store().await {
                    Ok(Some(bytes)) => return Some(bytes),
                    Ok(None) => return self.end().await,
                    Err(_) => return None,
                }
            };
            let mut moved = pin!(hub.moved());
            moved.as_mut().enable();
            match hub.after(self.after) {
                Ahead::Batch(batch) => return Some(self.take(&batch)),
                Ahead::InStore => match self.read_store().await {
                    Ok(Some(bytes)) => return Some(bytes),
                    // Whoever reads asks again, from where it is.
                    Ok(None) | Err(_) => return None,
                },
                Ahead::Over(Over::Ended) => return self.end().await,
                // Whatever ends all streams says so in this one, too.
                Ahead::Over(Over::Lost) if self.app.is_draining() => std::future::pending().await,
                Ahead::Over(Over::Lost) => return None,
                Ahead::Nothing => {
                    if tokio::time::timeout(self.app.options.heartbeat, moved).await.is_err() {
                        return Some(self.heartbeat());
                    }
                }
            }
        }
    }
}
