//! One reader of a run's events.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use windlass_store::RunRow;

use super::Source;
use super::frame::{MAX_BATCH_BYTES, Batch};
use super::hub::{Ahead, Hub, Over};
use super::shelf;
use crate::api::models::row_of;
use crate::{App, Problem};

/// What a reader is given at once when it was in the middle of something that is no longer kept: so it is not read for
/// every batch.
const AGAIN_BYTES: usize = 256 * 1024;

/// How events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Sse,
    Lines,
}

/// Gives every event after a number once, then what comes, until the run has ended.
pub(crate) struct Tail {
    app: App,
    run: Arc<str>,
    /// No other run has ever had it.
    number: i64,
    after: u64,
    form: Form,
    /// None: it stops at the newest.
    hub: Option<Arc<Hub>>,
    /// The last event of what was read from the store before.
    read_to: u64,
    done: bool,
}

impl Tail {
    pub(crate) async fn open(app: App, run: RunRow, after: u64, form: Form, follow: bool) -> Result<Tail, Problem> {
        let hub = match follow {
            true => Some(app.views.hubs.join(&app, &run.run).await?),
            false => None,
        };
        let RunRow { run, number, .. } = run;
        Ok(Tail { app, run, number, after, form, hub, read_to: 0, done: false })
    }

    async fn read_store(&mut self) -> Result<Option<Bytes>, Problem> {
        let (run, number, after) = (self.run.clone(), self.number, self.after);
        if let Some((batch, last)) = self.app.views.shelf.after(number, after) {
            self.read_to = last;
            return Ok(Some(self.take(&batch)));
        }
        let bytes = if after < self.read_to { AGAIN_BYTES } else { MAX_BATCH_BYTES };
        let batches = shelf::read(&self.app, (run, number), after, bytes).await?;
        Ok(match batches.as_slice() {
            [] => None,
            [batch] => Some(self.take(batch)),
            several => {
                let taken: Vec<Bytes> = several.iter().map(|batch| self.take(batch)).collect();
                Some(Bytes::from(taken.concat()))
            }
        })
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
