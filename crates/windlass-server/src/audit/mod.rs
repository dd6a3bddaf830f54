//! Who did what: one line for every changing call, on the disk before the call is answered.
//!
//! One thread writes. What arrives while it syncs is the next group, so that many calls share one sync. Each line has the
//! hash of itself and the line before: a line that was changed, taken out or put in later breaks the chain.

mod log;
mod pages;
mod verify;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use serde::Serialize;
use serde_json::Map;
use tokio::sync::oneshot;
use tracing::error;
use windlass_runtime::real_now;
use windlass_value::Timestamp;

pub use log::AuditError;
pub use pages::{AuditPage, read_page};
pub use verify::{AuditVerification, verify};

use log::AuditFile;

/// What one group writes at most before it syncs.
const MAX_GROUP_LINES: usize = 4_096;

/// The file that is written to; those before it are called `audit.NUMBER.log`, by their first line.
pub(crate) const FILE: &str = "audit.log";

/// What a line says, besides its number and its hash.
#[derive(Clone, Debug, Serialize)]
pub struct AuditEntry {
    #[serde(serialize_with = "timestamp_as_text")]
    pub at: Timestamp,
    /// None: whoever it was has not said so.
    pub actor: Option<AuditActor>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The proxy that says where it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    pub method: String,
    /// As the document has it.
    pub route: String,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub path: Map<String, serde_json::Value>,
    /// None: the line was written while the call was being done. It has succeeded unless an [`Outcome`] follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<BodyFacts>,
}

/// How a call has ended that was noted before, and did not succeed.
#[derive(Clone, Debug, Serialize)]
struct AuditOutcome {
    #[serde(serialize_with = "timestamp_as_text")]
    at: Timestamp,
    /// The number of its line.
    line: u64,
    status: u16,
}

/// A line on its way to the disk.
pub(crate) struct PendingEntry(Option<oneshot::Receiver<Option<u64>>>);

impl PendingEntry {
    /// The line's number when it is on the disk; None if it cannot be written.
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

/// What was sent, without saying it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BodyFacts {
    pub bytes: u64,
    /// The first 16 bytes of its BLAKE3.
    pub hash: String,
}

fn timestamp_as_text<S: serde::Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}

/// Something that the server did by itself.
#[derive(Serialize)]
struct AuditEvent<'a> {
    at: String,
    event: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    cut_bytes: u64,
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// Written before such a call is answered. The default keeps nothing: for trials.
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
}

struct QueuedLine {
    /// The line without its number and its hash.
    text: String,
    written: Option<oneshot::Sender<Option<u64>>>,
}

/// Figures of the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct AuditStats {
    pub queued: usize,
    pub lines: usize,
    pub syncs: usize,
}

impl AuditLog {
    /// The log beside a store. A line that was cut short by a crash is taken away; the chain goes on.
    pub fn open(directory: &Path) -> Result<AuditLog, AuditError> {
        AuditLog::open_with(directory, windlass_core::ServerLimits::default().max_audit_file_bytes)
    }

    /// The same; a file that has grown to so many bytes is put aside.
    pub fn open_with(directory: &Path, max_file_bytes: u64) -> Result<AuditLog, AuditError> {
        let (mut log, cut_bytes) = AuditFile::open(directory, max_file_bytes)?;
        log.add(&object_body(&AuditEvent { at: real_now().to_string(), event: "start", cut_bytes }));
        if !log.commit()? {
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
            .map_err(|error| AuditError::new(directory, "could not start the thread that writes it", &error))?;
        let writer = AuditWriter {
            directory: directory.to_owned(),
            queue: Some(queue),
            state,
            thread: Mutex::new(Some(thread)),
        };
        Ok(AuditLog { writer: Some(writer) })
    }

    /// Whether nothing can be noted any more: then nothing may be changed either.
    pub(crate) fn is_broken(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.state.broken.load(Ordering::Relaxed))
    }

    /// Begins to note a call: the disk is at work meanwhile.
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

    /// Notes a call. True when the line is on the disk.
    pub async fn write(&self, line: &AuditEntry) -> bool {
        self.begin_write(line).number().await.is_some()
    }

    /// Notes that a call which has a line did not succeed. True when that is on the disk.
    pub(crate) async fn write_outcome(&self, line: u64, status: u16) -> bool {
        self.begin_record(&AuditOutcome { at: real_now(), line, status }).number().await.is_some()
    }

    /// The same for what was refused: nobody has to wait for it.
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

    /// Where the log is, if it is kept.
    pub(crate) fn directory(&self) -> Option<&Path> {
        self.writer.as_ref().map(|writer| &*writer.directory)
    }
}

impl AuditWriter {
    fn send(&self, text: String, written: Option<oneshot::Sender<Option<u64>>>) {
        self.state.queued.fetch_add(1, Ordering::Relaxed);
        let line = QueuedLine { text, written };
        // A thread that has gone answers by letting go of the reply.
        if self.queue.as_ref().is_none_or(|queue| queue.send(line).is_err()) {
            self.state.broken.store(true, Ordering::Relaxed);
        }
    }
}

/// What was noted is still written.
impl Drop for AuditWriter {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
}

/// Takes all that waits, writes it, syncs once, answers everybody.
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
        // After a failed sync nobody knows what the disk has: whatever follows would be a guess.
        let written = if state.broken.load(Ordering::Relaxed) { None } else { log.commit().ok() };
        if written.is_none() && !state.broken.swap(true, Ordering::Relaxed) {
            error!(lines = replies.len(), "audit log cannot be written");
        }
        let good = written == Some(true);
        state.queued.fetch_sub(replies.len(), Ordering::Relaxed);
        state.lines.fetch_add(replies.len(), Ordering::Relaxed);
        state.syncs.fetch_add(1, Ordering::Relaxed);
        for (number, reply) in replies.drain(..) {
            if let Some(reply) = reply {
                // Whoever asked may have gone.
                let _ = reply.send(good.then_some(number));
            }
        }
    }
}

/// The inside of an object: `"at":…,"who":…`.
fn object_body(line: &impl Serialize) -> String {
    let mut text = serde_json::to_string(line).unwrap_or_default();
    text.pop();
    text.drain(..usize::from(!text.is_empty()));
    text
}
