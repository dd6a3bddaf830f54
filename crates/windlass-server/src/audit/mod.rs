//! The audit log: one line for every changing call, synced to disk before the call is answered.
//!
//! One thread writes. Lines that arrive during a sync form the next group, so that many calls share one sync. Each
//! line contains the keyed hash of itself and the previous line: a changed, removed or inserted line breaks the chain. A
//! record of its own holds the end of the chain.

mod end;
mod key;
mod log;
mod pages;
mod verify;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread::JoinHandle;

use serde::Serialize;
use serde_json::Map;
use tokio::sync::oneshot;
use tracing::error;
use windlass_runtime::real_now;
use windlass_store::Store;
use windlass_value::Timestamp;

pub use end::END_FILE;
pub use key::KEY_FILE;
pub use log::AuditError;
pub use pages::{AuditPage, read_page};
pub use verify::{AuditVerification, verify};

use log::{AuditFile, OpenedEnd};

/// Maximum number of lines per sync.
const MAX_GROUP_LINES: usize = 4_096;

/// The current file; older files are named `audit.NUMBER.log` after their first line.
pub(crate) const FILE: &str = "audit.log";

/// The content of a line, besides its number and hash.
#[derive(Clone, Debug, Serialize)]
pub struct AuditEntry {
    #[serde(serialize_with = "timestamp_as_text")]
    pub at: Timestamp,
    /// None: the caller is unknown.
    pub actor: Option<AuditActor>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The proxy that reported `from`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    pub method: String,
    /// The route pattern of the OpenAPI document.
    pub route: String,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub path: Map<String, serde_json::Value>,
    /// None: the line was written while the call was running. The call succeeded unless an [`AuditOutcome`] follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<BodyFacts>,
}

/// The outcome of a call whose line was written before it failed.
#[derive(Clone, Debug, Serialize)]
struct AuditOutcome {
    #[serde(serialize_with = "timestamp_as_text")]
    at: Timestamp,
    /// The number of the call's line.
    line: u64,
    status: u16,
}

/// A line that is being written.
pub(crate) struct PendingEntry(Option<oneshot::Receiver<Option<u64>>>);

impl PendingEntry {
    /// Waits until the line is on disk and returns its number; None if it cannot be written.
    pub(crate) async fn number(self) -> Option<u64> {
        match self.0 {
            Some(written) => written.await.ok().flatten(),
            None => Some(0),
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct AuditActor {
    pub id: String,
    pub name: String,
}

/// Size and hash of a request body, without its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BodyFacts {
    pub bytes: u64,
    /// The first 16 bytes of its BLAKE3 hash.
    pub hash: String,
}

fn timestamp_as_text<S: serde::Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}

/// An action of the server itself.
#[derive(Serialize)]
struct AuditEvent<'a> {
    at: String,
    event: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    cut_bytes: u64,
    #[serde(skip_serializing_if = "is_zero")]
    removed_lines: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    end_unknown: bool,
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// The audit log, written before a changing call is answered. The default writes nothing, for servers that keep
/// nothing on disk and for tests.
#[derive(Default)]
pub struct AuditLog {
    writer: Option<AuditWriter>,
}

struct AuditWriter {
    directory: PathBuf,
    queue: Option<mpsc::Sender<QueuedLine>>,
    state: Arc<WriterState>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct WriterState {
    queued: AtomicUsize,
    broken: AtomicBool,
    lines: AtomicUsize,
    syncs: AtomicUsize,
    /// The store whose reserved space a full disk may take for a line.
    reserve: OnceLock<Arc<dyn Store>>,
}

impl WriterState {
    fn make_room(&self) -> bool {
        self.reserve.get().is_some_and(|store| store.release_space())
    }
}

struct QueuedLine {
    /// The line without its number and hash.
    text: String,
    written: Option<oneshot::Sender<Option<u64>>>,
}

/// Statistics of the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct AuditStats {
    pub queued: usize,
    pub lines: usize,
    pub syncs: usize,
}

impl AuditLog {
    /// Opens the log beside a store. A line torn by a crash is truncated; the chain continues.
    pub fn open(directory: &Path) -> Result<AuditLog, AuditError> {
        AuditLog::open_with(directory, windlass_core::ServerLimits::default().max_audit_file_bytes)
    }

    /// Opens the log with a maximum file size; a larger file is rotated.
    pub fn open_with(directory: &Path, max_file_bytes: u64) -> Result<AuditLog, AuditError> {
        let (mut log, OpenedEnd { cut_bytes, removed_lines, end_unknown }) =
            AuditFile::open(directory, max_file_bytes)?;
        let at = real_now().to_string();
        log.add(&object_body(&AuditEvent { at, event: "start", cut_bytes, removed_lines, end_unknown }));
        if !log.commit(&|| false)? {
            return Err(AuditError::new(
                &directory.join("audit.log"),
                "could not write the audit log",
                &"no space is left",
            ));
        }
        let state = Arc::new(WriterState::default());
        let (queue, arrived) = mpsc::channel();
        let shared = state.clone();
        let thread = std::thread::Builder::new()
            .name("windlass-audit".to_owned())
            .spawn(move || run_writer(log, &arrived, &shared))
            .map_err(|error| AuditError::new(directory, "could not start the audit log's writer thread", &error))?;
        let writer = AuditWriter {
            directory: directory.to_owned(),
            queue: Some(queue),
            state,
            thread: Mutex::new(Some(thread)),
        };
        Ok(AuditLog { writer: Some(writer) })
    }

    /// Lets lines use the reserved space of the store when the disk is full.
    pub(crate) fn use_reserve(&self, store: Arc<dyn Store>) {
        if let Some(writer) = &self.writer {
            // A log belongs to one store.
            let _ = writer.state.reserve.set(store);
        }
    }

    /// Whether the log cannot be written any more: no call may change anything then.
    pub(crate) fn is_broken(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.state.broken.load(Ordering::Relaxed))
    }

    /// Begins to write a line; the caller can continue meanwhile.
    pub(crate) fn begin_write(&self, line: &AuditEntry) -> PendingEntry {
        self.begin_record(line)
    }

    fn begin_record(&self, line: &impl Serialize) -> PendingEntry {
        PendingEntry(self.writer.as_ref().map(|writer| {
            let (sender, written) = oneshot::channel();
            writer.send(object_body(line), Some(sender));
            written
        }))
    }

    /// Writes a line. Returns true when it is on disk.
    pub async fn write(&self, line: &AuditEntry) -> bool {
        self.begin_write(line).number().await.is_some()
    }

    /// Writes that a call which already has a line has failed. Returns true when this is on disk.
    pub(crate) async fn write_outcome(&self, line: u64, status: u16) -> bool {
        self.begin_record(&AuditOutcome { at: real_now(), line, status }).number().await.is_some()
    }

    /// Writes the line of a rejected call without waiting for the disk.
    pub(crate) fn write_refusal(&self, line: &AuditEntry) {
        if let Some(writer) = &self.writer {
            writer.send(object_body(line), None);
        }
    }

    pub fn stats(&self) -> AuditStats {
        let Some(writer) = &self.writer else { return AuditStats::default() };
        let load = |number: &AtomicUsize| number.load(Ordering::Relaxed);
        let state = &writer.state;
        AuditStats { queued: load(&state.queued), lines: load(&state.lines), syncs: load(&state.syncs) }
    }

    /// Returns the directory of the log, if it is written.
    pub(crate) fn directory(&self) -> Option<&Path> {
        self.writer.as_ref().map(|writer| &*writer.directory)
    }
}

impl AuditWriter {
    fn send(&self, text: String, written: Option<oneshot::Sender<Option<u64>>>) {
        self.state.queued.fetch_add(1, Ordering::Relaxed);
        let line = QueuedLine { text, written };
        // A terminated thread answers by dropping the reply channel.
        if self.queue.as_ref().is_none_or(|queue| queue.send(line).is_err()) {
            self.state.broken.store(true, Ordering::Relaxed);
        }
    }
}

/// Entries that are already queued are still written.
impl Drop for AuditWriter {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
}

/// Writes all queued lines, syncs once and answers all callers.
fn run_writer(mut log: AuditFile, arrived: &mpsc::Receiver<QueuedLine>, state: &WriterState) {
    let mut replies = Vec::new();
    while let Ok(first) = arrived.recv() {
        let mut next = Some(first);
        while let Some(line) = next.take() {
            let number = log.add(&line.text);
            replies.push((number, line.written));
            if replies.len() < MAX_GROUP_LINES {
                next = arrived.try_recv().ok();
            }
        }
        // After a failed sync the content of the disk is unknown, so nothing more is written.
        let written = if state.broken.load(Ordering::Relaxed) { None } else { log.commit(&|| state.make_room()).ok() };
        if written.is_none() && !state.broken.swap(true, Ordering::Relaxed) {
            error!(lines = replies.len(), "audit log cannot be written");
        }
        let good = written == Some(true);
        state.queued.fetch_sub(replies.len(), Ordering::Relaxed);
        state.lines.fetch_add(replies.len(), Ordering::Relaxed);
        state.syncs.fetch_add(1, Ordering::Relaxed);
        for (number, reply) in replies.drain(..) {
            if let Some(reply) = reply {
                // The caller may be gone.
                let _ = reply.send(good.then_some(number));
            }
        }
    }
}

/// Serializes the inside of an object: `"at":…,"actor":…`.
fn object_body(line: &impl Serialize) -> String {
    let mut text = serde_json::to_string(line).unwrap_or_default();
    text.pop();
    text.drain(..usize::from(!text.is_empty()));
    text
}
