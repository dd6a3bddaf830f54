//! Log lines of tasks: output that people read, and that is no part of a run's history.

use std::sync::Arc;

use windlass_value::Timestamp;

use crate::StoreError;

/// Storage of log lines. They are not part of the journal and of no replay.
pub trait StoreLogs: Send + Sync {
    /// Appends lines in the given order, of any number of runs. Lines of unknown runs are dropped.
    ///
    /// Nothing is synced: the lines survive the death of the process, though a power failure may lose the newest. Of
    /// each run the store keeps about `max_run_bytes`; it removes the oldest lines first, and counts them.
    fn append_logs(&self, lines: &[NewLogLine], max_run_bytes: u64) -> Result<(), StoreError>;

    /// Returns the lines of a run in order, at most `limit`. `after` is the position of the last one seen, 0 for the
    /// first page.
    fn logs(&self, run: &str, filter: LogFilter<'_>, after: i64, limit: u32) -> Result<LogPage, StoreError>;
}

/// Filter of log lines.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct LogFilter<'f> {
    /// The path of a task, or of a node around it.
    pub path: Option<&'f str>,
}

impl LogFilter<'_> {
    /// Returns whether a line of this path matches.
    pub fn matches(&self, path: &str) -> bool {
        let Some(outer) = self.path else { return true };
        path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    }
}

/// The source of a log line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogStream {
    /// Standard output of a program, or printed by code.
    Stdout = 0,
    /// Standard error of a program.
    Stderr = 1,
    /// Written by a worker for people.
    Log = 2,
    /// Not a line: the text is the number of lines of the attempt that were lost, because they exceeded a limit or
    /// arrived faster than they could be stored.
    Lost = 3,
}

impl LogStream {
    /// All streams, in the order of their numbers.
    pub const ALL: [LogStream; 4] = [LogStream::Stdout, LogStream::Stderr, LogStream::Log, LogStream::Lost];

    /// The name used in listings.
    pub fn as_str(self) -> &'static str {
        match self {
            LogStream::Stdout => "stdout",
            LogStream::Stderr => "stderr",
            LogStream::Log => "log",
            LogStream::Lost => "lost",
        }
    }

    /// Returns the stream of this name; the inverse of [`LogStream::as_str`].
    pub fn parse(word: &str) -> Option<LogStream> {
        LogStream::ALL.into_iter().find(|stream| stream.as_str() == word)
    }

    /// Returns the stream with this number; the inverse of a cast.
    pub fn from_number(number: u8) -> Option<LogStream> {
        LogStream::ALL.into_iter().find(|stream| *stream as u8 == number)
    }
}

/// A line to store.
#[derive(Clone, PartialEq, Debug)]
pub struct NewLogLine {
    /// The id of the run.
    pub run: Arc<str>,
    /// Path of the task in the run.
    pub path: Arc<str>,
    /// The attempt of the task, counted from 1.
    pub attempt: u32,
    /// The source of the line.
    pub stream: LogStream,
    /// The time at which the line was written.
    pub at: Timestamp,
    /// The text, without a line break at its end.
    pub text: String,
}

/// Lines of one run that are committed with its journal.
#[derive(Clone, PartialEq, Debug)]
pub struct LogBatch {
    /// The lines, in order.
    pub lines: Vec<NewLogLine>,
    /// The bytes that the store keeps of the run; see [`StoreLogs::append_logs`].
    pub max_run_bytes: u64,
}

/// A stored line.
#[derive(Clone, PartialEq, Debug)]
pub struct LogRow {
    /// Order of arrival; also the page cursor.
    pub position: i64,
    /// Path of the task in the run.
    pub path: Arc<str>,
    /// The attempt of the task, counted from 1.
    pub attempt: u32,
    /// The source of the line.
    pub stream: LogStream,
    /// The time at which the line was written.
    pub at: Timestamp,
    /// The text, without a line break at its end.
    pub text: String,
}

/// Lines of a run.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct LogPage {
    /// The lines, in order of arrival.
    pub lines: Vec<LogRow>,
    /// The number of oldest lines of the run that were removed, because it has written more than the store keeps.
    pub removed: u64,
}
