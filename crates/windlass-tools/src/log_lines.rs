//! Output of programs as log lines, while they run. Secrets are redacted before the text is split into lines, because
//! a secret may span several.

use windlass_runtime::TaskLog;
use windlass_store::LogStream;

use crate::secret::{Redactor, call_redaction};

/// The maximum length of output without a line break; then it becomes a line of its own.
const MAX_OPEN_BYTES: usize = 64 << 10;

/// Splits an output stream of the running call into log lines.
pub(crate) struct LogLines {
    log: TaskLog,
    stream: LogStream,
    redaction: Redactor,
    /// Output that has not become a line yet.
    open: Vec<u8>,
}

impl LogLines {
    pub(crate) fn new(log: TaskLog, stream: LogStream) -> LogLines {
        LogLines { log, stream, redaction: call_redaction(), open: Vec::new() }
    }

    /// Adds output, and writes the lines that are complete. The beginning of a secret waits for its end.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.open.extend_from_slice(bytes);
        if !bytes.contains(&b'\n') && self.open.len() < MAX_OPEN_BYTES {
            return;
        }
        // The last character may be incomplete.
        let whole = match std::str::from_utf8(&self.open) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.open.len(),
        };
        let text = String::from_utf8_lossy(&self.open[..whole]).into_owned();
        let waiting = self.redaction.partial_match_len(&text);
        let (settled, begun) = text.split_at(text.len() - waiting);
        let settled = self.redaction.redact_text(settled);
        let end =
            if settled.len() >= MAX_OPEN_BYTES { settled.len() } else { settled.rfind('\n').map_or(0, |at| at + 1) };
        self.log.write(self.stream, &settled[..end]);
        let rest = [&settled.as_bytes()[end..], begun.as_bytes(), &self.open[whole..]].concat();
        self.open = rest;
    }
}

/// The output has ended, perhaps in the middle of a line.
impl Drop for LogLines {
    fn drop(&mut self) {
        let text = String::from_utf8_lossy(&self.open);
        self.log.write(self.stream, &self.redaction.redact_truncated_end(&text));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use windlass_runtime::{LogSink, TaskLogLimits};
    use windlass_store::NewLogLine;

    use super::*;

    #[derive(Default)]
    struct Lines(Mutex<Vec<String>>);

    impl LogSink for Lines {
        fn push(&self, line: NewLogLine) {
            self.0.lock().expect("lines").push(line.text);
        }
    }

    /// Feeds output in pieces, and returns the lines.
    async fn lines(secret: &str, pieces: &[&[u8]]) -> Vec<String> {
        let sink = Arc::new(Lines::default());
        let log = TaskLog::new(sink.clone(), ("r".into(), "a".into(), 1), TaskLogLimits::default());
        let feed = async {
            let mut lines = LogLines::new(log, LogStream::Stdout);
            pieces.iter().for_each(|piece| lines.feed(piece));
        };
        Redactor::new([secret.to_owned()]).scope(feed).await;
        let lines = sink.0.lock().expect("lines");
        lines.clone()
    }

    #[tokio::test]
    async fn output_is_split_into_lines() {
        let pieces: [&[u8]; 4] =
            [b"one\ntw", b"o\n\n", "ä".as_bytes().split_at(1).0, "ä\nlast".as_bytes().split_at(1).1];
        assert_eq!(lines("none of it", &pieces).await, ["one", "two", "", "ä", "last"]);
        let long = vec![b'x'; MAX_OPEN_BYTES];
        let split = lines("none of it", &[&long, b"y\n"]).await;
        assert_eq!(split.len(), 2, "output without a line break does not grow for ever");
    }

    #[tokio::test]
    async fn a_secret_is_redacted_wherever_it_is_cut() {
        let secret = "first-half\nsecond-half";
        let output = b"before first-half\nsecond-half after\nend\n";
        for cut in 0..output.len() {
            let (one, other) = output.split_at(cut);
            let shown = lines(secret, &[one, other]).await.join("\n");
            assert!(!shown.contains("first-half") && !shown.contains("second-half"), "cut at {cut}: {shown}");
            assert!(shown.starts_with("before ") && shown.ends_with(" after\nend"), "cut at {cut}: {shown}");
        }
        let broken_off = lines(secret, &[b"ok\nfirst-half\nsecond"]).await.join("\n");
        assert!(broken_off.starts_with("ok\n") && !broken_off.contains("first-half"), "{broken_off}");
    }
}
