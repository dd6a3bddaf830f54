//! Log lines of tasks: bounded per attempt, and apart from the journal. Those of a running task are written to the store
//! in batches. The rest are committed with the run's next batch, so that a result is never stored without the lines
//! that its task has written before.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use windlass_core::ProcessLimits;
use windlass_store::{LogBatch, LogStream, NewLogLine, Store};

use crate::clock::real_now;

/// The maximum time that a line waits for its batch, so that readers see it soon.
const MAX_PENDING_TIME: Duration = Duration::from_millis(200);

/// The maximum number of lines that wait for their batch. Further lines are lost, and counted.
const MAX_PENDING_LINES: usize = 10_000;

/// Limits of the log lines of tasks.
#[derive(Clone, Copy, Debug)]
pub struct TaskLogLimits {
    /// Bytes of all lines of one attempt.
    pub max_attempt_bytes: usize,
    /// Bytes of one line; a longer line is truncated.
    pub max_line_bytes: usize,
    /// Bytes of all lines of one run.
    pub max_run_bytes: u64,
}

impl Default for TaskLogLimits {
    fn default() -> TaskLogLimits {
        TaskLogLimits::from_limits(&ProcessLimits::default())
    }
}

impl TaskLogLimits {
    /// Reads the limits from those of the process.
    pub fn from_limits(limits: &ProcessLimits) -> TaskLogLimits {
        TaskLogLimits {
            max_attempt_bytes: limits.max_log_attempt_bytes,
            max_line_bytes: limits.max_log_line_bytes,
            max_run_bytes: limits.max_log_run_bytes,
        }
    }
}

/// A receiver of log lines.
pub trait LogSink: Send + Sync {
    /// Takes a line. It must not block.
    fn push(&self, line: NewLogLine);
}

/// The log of one attempt of a task. Clones write to the same log.
#[derive(Clone)]
pub struct TaskLog {
    attempt: Option<Arc<AttemptLog>>,
    /// Transforms each line before it is stored: redacts secrets.
    transform: Option<Arc<LineTransform>>,
}

type LineTransform = dyn Fn(String) -> String + Send + Sync;

struct AttemptLog {
    sink: Arc<dyn LogSink>,
    run: Arc<str>,
    path: Arc<str>,
    attempt: u32,
    limits: TaskLogLimits,
    usage: Mutex<AttemptUsage>,
}

#[derive(Default)]
struct AttemptUsage {
    bytes: usize,
    lost: u64,
}

impl TaskLog {
    /// Creates the log of an attempt.
    pub fn new(
        sink: Arc<dyn LogSink>,
        (run, path, attempt): (Arc<str>, Arc<str>, u32),
        limits: TaskLogLimits,
    ) -> TaskLog {
        let attempt = AttemptLog { sink, run, path, attempt, limits, usage: Mutex::default() };
        TaskLog { attempt: Some(Arc::new(attempt)), transform: None }
    }

    /// Returns a log whose lines are discarded.
    pub fn disconnected() -> TaskLog {
        TaskLog { attempt: None, transform: None }
    }

    /// Returns a log that applies a transformation to all lines first.
    #[must_use]
    pub fn with_transform(self, transform: impl Fn(String) -> String + Send + Sync + 'static) -> TaskLog {
        let before = self.transform.clone();
        let both = move |line| before.iter().fold(transform(line), |line, before| before(line));
        TaskLog { transform: Some(Arc::new(both)), ..self }
    }

    /// Writes the lines of a text. Lines beyond the limit of the attempt are lost, and counted.
    pub fn write(&self, stream: LogStream, text: &str) {
        let Some(attempt) = &self.attempt else { return };
        for line in text.lines() {
            let line = self.transform.iter().fold(line.to_owned(), |line, transform| transform(line));
            attempt.push(stream, truncate_line(line, attempt.limits.max_line_bytes));
        }
    }

    /// Counts lines that were lost before they reached this log.
    pub fn count_lost(&self, lines: u64) {
        if let Some(attempt) = &self.attempt {
            attempt.usage().lost += lines;
        }
    }
}

/// Cuts a line that is too long, at a character.
fn truncate_line(mut line: String, max_bytes: usize) -> String {
    if line.len() > max_bytes {
        let end = (0..=max_bytes).rev().find(|end| line.is_char_boundary(*end)).unwrap_or(0);
        line.truncate(end);
        line.push('…');
    }
    line
}

impl AttemptLog {
    fn usage(&self) -> MutexGuard<'_, AttemptUsage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, stream: LogStream, text: String) {
        let mut usage = self.usage();
        // An empty line takes room, too.
        let bytes = text.len() + 1;
        if usage.bytes + bytes > self.limits.max_attempt_bytes {
            usage.lost += 1;
            return;
        }
        usage.bytes += bytes;
        drop(usage);
        self.sink.push(self.line(stream, text));
    }

    fn line(&self, stream: LogStream, text: String) -> NewLogLine {
        let (run, path, attempt) = (self.run.clone(), self.path.clone(), self.attempt);
        NewLogLine { run, path, attempt, stream, at: real_now(), text }
    }
}

/// The attempt has ended: the number of its lost lines is known.
impl Drop for AttemptLog {
    fn drop(&mut self) {
        let lost = self.usage().lost;
        if lost > 0 {
            self.sink.push(self.line(LogStream::Lost, lost.to_string()));
        }
    }
}

/// Lines of tasks are on their way to the store.
#[derive(Debug)]
pub(crate) struct LogsInFlight;

/// Writes log lines to the store, in batches. Dropping it writes the remaining lines.
pub struct LogWriter {
    shared: Arc<LogBuffer>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct LogBuffer {
    store: Arc<dyn Store>,
    max_run_bytes: u64,
    pending: Mutex<PendingLines>,
    changed: Condvar,
    /// Held during a write, so that batches keep their order.
    writing: Mutex<()>,
}

#[derive(Default)]
struct PendingLines {
    /// The lines by run, each in order.
    lines: BTreeMap<Arc<str>, Vec<NewLogLine>>,
    /// The number of all these lines.
    count: usize,
    /// Lines that were taken from here are being written.
    is_writing: bool,
    /// The number of lines that found no room, by run, path and attempt.
    lost: BTreeMap<(Arc<str>, Arc<str>, u32), u64>,
    closed: bool,
}

impl LogWriter {
    /// Creates a writer. Its thread starts with the first line.
    pub fn new(store: Arc<dyn Store>, limits: TaskLogLimits) -> LogWriter {
        let shared = LogBuffer {
            store,
            max_run_bytes: limits.max_run_bytes,
            pending: Mutex::default(),
            changed: Condvar::new(),
            writing: Mutex::default(),
        };
        LogWriter { shared: Arc::new(shared), thread: Mutex::default() }
    }

    /// Takes the lines of a run, for its next commit. On an error, earlier lines are being written or counted as lost:
    /// the caller must flush instead.
    pub(crate) fn take(&self, run: &str) -> Result<Option<LogBatch>, LogsInFlight> {
        let mut pending = self.shared.pending();
        if pending.is_writing || !pending.lost.is_empty() {
            return Err(LogsInFlight);
        }
        let Some(lines) = pending.lines.remove(run) else { return Ok(None) };
        pending.count -= lines.len();
        Ok(Some(LogBatch { lines, max_run_bytes: self.shared.max_run_bytes }))
    }

    /// Writes all lines that were pushed before this call.
    pub fn flush(&self) {
        self.shared.write_pending();
    }

    fn start_thread(&self) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let shared = self.shared.clone();
            let started = std::thread::Builder::new().name("windlass-logs".to_owned());
            // Without a thread the lines are written when the writer is flushed or dropped.
            *thread = started.spawn(move || shared.write_until_closed()).ok();
        }
    }
}

impl LogSink for LogWriter {
    fn push(&self, line: NewLogLine) {
        let mut pending = self.shared.pending();
        let was_empty = pending.lines.is_empty();
        if pending.count < MAX_PENDING_LINES {
            pending.count += 1;
            pending.lines.entry(line.run.clone()).or_default().push(line);
        } else {
            *pending.lost.entry((line.run, line.path, line.attempt)).or_default() += 1;
        }
        drop(pending);
        if was_empty {
            self.start_thread();
            self.shared.changed.notify_one();
        }
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.shared.pending().closed = true;
        self.shared.changed.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic of the thread was reported by the panic hook.
            let _ = thread.join();
        }
        self.shared.write_pending();
    }
}

impl LogBuffer {
    fn pending(&self) -> MutexGuard<'_, PendingLines> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_until_closed(&self) {
        loop {
            let pending = self.pending();
            let waiting = self.changed.wait_while(pending, |pending| pending.lines.is_empty() && !pending.closed);
            let pending = waiting.unwrap_or_else(PoisonError::into_inner);
            // Collects a batch, unless the writer closes meanwhile.
            let collecting = self.changed.wait_timeout_while(pending, MAX_PENDING_TIME, |pending| !pending.closed);
            let (pending, _) = collecting.unwrap_or_else(PoisonError::into_inner);
            let closed = pending.closed;
            drop(pending);
            self.write_pending();
            if closed {
                return;
            }
        }
    }

    fn write_pending(&self) {
        let _order = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = {
            let mut pending = self.pending();
            let lost = std::mem::take(&mut pending.lost);
            // Lines of one run are written together, in their order.
            let mut lines: Vec<NewLogLine> = std::mem::take(&mut pending.lines).into_values().flatten().collect();
            pending.count = 0;
            pending.is_writing = !(lines.is_empty() && lost.is_empty());
            lines.extend(lost.into_iter().map(|((run, path, attempt), count)| NewLogLine {
                run,
                path,
                attempt,
                stream: LogStream::Lost,
                at: real_now(),
                text: count.to_string(),
            }));
            lines
        };
        if lines.is_empty() {
            return;
        }
        lines.sort_by(|one, other| one.run.cmp(&other.run));
        if let Err(error) = self.store.append_logs(&lines, self.max_run_bytes) {
            tracing::warn!(lines = lines.len(), %error, "log lines of tasks could not be stored");
        }
        self.pending().is_writing = false;
    }
}

#[cfg(test)]
mod tests {
    use windlass_store::{LogFilter, MemoryStore, StoreLogs, StoreWrite, conformance::batches};

    use super::*;

    fn store() -> Arc<MemoryStore> {
        let store = MemoryStore::new();
        store.append(vec![batches::creation("r")]).expect("created");
        Arc::new(store)
    }

    fn limits(attempt: usize, line: usize) -> TaskLogLimits {
        TaskLogLimits { max_attempt_bytes: attempt, max_line_bytes: line, ..TaskLogLimits::default() }
    }

    fn lines(store: &MemoryStore) -> Vec<(LogStream, String)> {
        let page = store.logs("r", LogFilter::default(), 0, 99_999).expect("read");
        page.lines.into_iter().map(|line| (line.stream, line.text)).collect()
    }

    #[test]
    fn an_attempt_is_bounded_and_counts_what_it_lost() {
        let store = store();
        let writer = Arc::new(LogWriter::new(store.clone(), TaskLogLimits::default()));
        let log = TaskLog::new(writer.clone(), ("r".into(), "a".into(), 1), limits(20, 8));
        log.write(LogStream::Stdout, "one\ntwo\n");
        log.write(LogStream::Stderr, "ääääääää");
        log.write(LogStream::Log, "no room\nnone either");
        writer.flush();
        let written = [(LogStream::Stdout, "one"), (LogStream::Stdout, "two"), (LogStream::Stderr, "ääää…")];
        let expected: Vec<(LogStream, String)> =
            written.into_iter().map(|(stream, text)| (stream, text.to_owned())).collect();
        assert_eq!(lines(&store), expected);
        drop(log);
        writer.flush();
        assert_eq!(lines(&store).last(), Some(&(LogStream::Lost, "2".to_owned())));
    }

    #[test]
    fn lines_are_transformed_and_written_when_the_writer_is_dropped() {
        let store = store();
        let writer = Arc::new(LogWriter::new(store.clone(), TaskLogLimits::default()));
        let log = TaskLog::new(writer, ("r".into(), "a".into(), 1), limits(1_000, 100));
        let log = log.with_transform(|line| line.replace("secret", "***"));
        log.write(LogStream::Log, "the secret");
        drop(log);
        assert_eq!(lines(&store), [(LogStream::Log, "the ***".to_owned())]);
    }

    #[test]
    fn lines_are_taken_for_the_commit_of_their_run() {
        let writer = Arc::new(LogWriter::new(store(), TaskLogLimits::default()));
        // Keeps the thread from writing.
        let order = writer.shared.writing.lock().expect("free");
        let log = |run: &str| TaskLog::new(writer.clone(), (run.into(), "a".into(), 1), limits(1_000, 100));
        log("r").write(LogStream::Log, "one\ntwo");
        log("s").write(LogStream::Log, "three");
        let count = |run: &str| writer.take(run).expect("nothing is written").map(|batch| batch.lines.len());
        assert_eq!((count("r"), count("r"), count("s")), (Some(2), None, Some(1)));
        writer.shared.pending().is_writing = true;
        assert!(writer.take("r").is_err(), "earlier lines must be stored first");
        drop(order);
    }

    #[test]
    fn lines_that_find_no_room_are_counted() {
        let store = store();
        let writer = Arc::new(LogWriter::new(store.clone(), TaskLogLimits::default()));
        // Keeps the thread from writing.
        let order = writer.shared.writing.lock().expect("free");
        let log = TaskLog::new(writer.clone(), ("r".into(), "a".into(), 1), limits(usize::MAX, 100));
        (0..MAX_PENDING_LINES + 5).for_each(|number| log.write(LogStream::Log, &number.to_string()));
        let pending = writer.shared.pending();
        let lost: u64 = pending.lost.values().sum();
        assert_eq!(pending.count as u64 + lost, MAX_PENDING_LINES as u64 + 5);
        drop((pending, order));
        writer.flush();
        let stored = lines(&store);
        let counted: u64 = stored
            .iter()
            .filter(|(stream, _)| *stream == LogStream::Lost)
            .map(|(_, text)| text.parse().unwrap_or(0))
            .sum();
        let kept = stored.iter().filter(|(stream, _)| *stream == LogStream::Log).count() as u64;
        assert_eq!(kept + counted, MAX_PENDING_LINES as u64 + 5, "every line is stored or counted");
    }
}
