//! One reader of a run's events.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use windlass_store::RunRow;

use super::ByteSource;
use super::fan_out::{EventFanOut, NextEvents, StreamEnd};
use super::frame::{EventBatch, MAX_BATCH_BYTES};
use super::page_cache;
use crate::api::models::find_run;
use crate::{ApiProblem, App};

/// Chunk size for a reader whose page was evicted from the cache in the middle, so that the page is not read again
/// for every batch.
const RESUME_BYTES: usize = 256 * 1024;

/// The encoding of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamFormat {
    Sse,
    Lines,
}

/// Yields every event after a sequence number once, then new ones, until the run has ended.
pub(crate) struct EventTail {
    app: App,
    run: Arc<str>,
    /// Unique among all runs ever created in the store.
    number: i64,
    after: u64,
    format: StreamFormat,
    /// None: the stream ends at the newest event.
    fan_out: Option<Arc<EventFanOut>>,
    /// The last event of the page read from the store before.
    read_to: u64,
    done: bool,
}

impl EventTail {
    pub(crate) async fn open(
        app: App,
        run: RunRow,
        after: u64,
        format: StreamFormat,
        follow: bool,
    ) -> Result<EventTail, ApiProblem> {
        let fan_out = match follow {
            true => Some(app.views.fan_outs.join(&app, &run.run).await?),
            false => None,
        };
        let RunRow { run, number, .. } = run;
        Ok(EventTail { app, run, number, after, format, fan_out, read_to: 0, done: false })
    }

    async fn read_store(&mut self) -> Result<Option<Bytes>, ApiProblem> {
        let (run, number, after) = (self.run.clone(), self.number, self.after);
        if let Some((batch, last)) = self.app.views.page_cache.after(number, after) {
            self.read_to = last;
            return Ok(Some(self.take(&batch)));
        }
        let bytes = if after < self.read_to { RESUME_BYTES } else { MAX_BATCH_BYTES };
        let batches = page_cache::read_after(&self.app, (run, number), after, bytes).await?;
        Ok(match batches.as_slice() {
            [] => None,
            [batch] => Some(self.take(batch)),
            several => {
                let chunks: Vec<Bytes> = several.iter().map(|batch| self.take(batch)).collect();
                Some(Bytes::from(chunks.concat()))
            }
        })
    }

    fn take(&mut self, batch: &EventBatch) -> Bytes {
        let bytes = match self.format {
            StreamFormat::Sse => batch.sse_after(self.after),
            StreamFormat::Lines => batch.lines_after(self.after),
        };
        self.after = self.after.max(batch.last);
        bytes
    }

    fn heartbeat(&self) -> Bytes {
        Bytes::from_static(match self.format {
            StreamFormat::Sse => b": heartbeat\n\n",
            StreamFormat::Lines => b"{\"type\":\"heartbeat\"}\n",
        })
    }

    /// Returns the end message with the run's status. A stream that stops at the newest event of an unfinished run has
    /// none.
    async fn end(&mut self) -> Option<Bytes> {
        self.done = true;
        let run = self.run.clone();
        let row = self.app.read_store(move |app| Ok(find_run(app, &run)?)).await.ok()?;
        if self.fan_out.is_none() && !row.status.is_final() {
            return None;
        }
        let end_message = serde_json::json!({ "type": "end", "run": &*self.run, "status": row.status.as_str() });
        Some(Bytes::from(match self.format {
            StreamFormat::Sse => format!("event: end\ndata: {end_message}\n\n"),
            StreamFormat::Lines => format!("{end_message}\n"),
        }))
    }
}

impl ByteSource for EventTail {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.done {
                return None;
            }
            let Some(fan_out) = self.fan_out.clone() else {
                match self.read_store().await {
                    Ok(Some(bytes)) => return Some(bytes),
                    Ok(None) => return self.end().await,
                    Err(_) => return None,
                }
            };
            let mut changed = pin!(fan_out.changed());
            changed.as_mut().enable();
            match fan_out.after(self.after) {
                NextEvents::Batch(batch) => return Some(self.take(&batch)),
                NextEvents::InStore => match self.read_store().await {
                    Ok(Some(bytes)) => return Some(bytes),
                    // The reader reconnects from its position.
                    Ok(None) | Err(_) => return None,
                },
                NextEvents::Ended(StreamEnd::Ended) => return self.end().await,
                // Stays pending: at shutdown the outer layer sends the closing notice and ends this stream with all
                // others.
                NextEvents::Ended(StreamEnd::Lost) if self.app.is_draining() => std::future::pending().await,
                NextEvents::Ended(StreamEnd::Lost) => return None,
                NextEvents::Nothing => {
                    if tokio::time::timeout(self.app.options.heartbeat, changed).await.is_err() {
                        return Some(self.heartbeat());
                    }
                }
            }
        }
    }
}
