//! Log lines of the memory store.

use std::collections::VecDeque;

use super::MemoryStore;
use super::image::DiskImage;
use crate::{LogFilter, LogPage, LogRow, NewLogLine, StoreError, StoreLogs};

/// The log lines of one run.
#[derive(Clone, Default)]
pub(super) struct RunLogs {
    lines: VecDeque<LogRow>,
    bytes: u64,
    removed: u64,
}

impl RunLogs {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn push(&mut self, line: LogRow, max_bytes: u64) {
        self.bytes += line.text.len() as u64;
        self.lines.push_back(line);
        while self.bytes > max_bytes
            && let Some(oldest) = self.lines.pop_front()
        {
            self.bytes -= oldest.text.len() as u64;
            self.removed += 1;
        }
    }
}

impl DiskImage {
    pub(super) fn append_logs(&mut self, lines: &[NewLogLine], max_run_bytes: u64) {
        for line in lines {
            self.last_log_position += 1;
            let position = self.last_log_position;
            let NewLogLine { run, path, attempt, stream, at, text } = line.clone();
            if let Some(run) = self.run_mut(&run) {
                run.logs.push(LogRow { position, path, attempt, stream, at, text }, max_run_bytes);
            }
        }
    }
}

impl StoreLogs for MemoryStore {
    fn append_logs(&self, lines: &[NewLogLine], max_run_bytes: u64) -> Result<(), StoreError> {
        let mut disk = self.disk();
        disk.refuse_if_stopped()?;
        disk.image.append_logs(lines, max_run_bytes);
        Ok(())
    }

    fn logs(&self, run: &str, filter: LogFilter<'_>, after: i64, limit: u32) -> Result<LogPage, StoreError> {
        self.read_image(|image| {
            let Some(run) = image.run(run) else { return LogPage::default() };
            let lines = run.logs.lines.iter().filter(|line| line.position > after && filter.matches(&line.path));
            LogPage { lines: lines.take(limit as usize).cloned().collect(), removed: run.logs.removed }
        })
    }
}
