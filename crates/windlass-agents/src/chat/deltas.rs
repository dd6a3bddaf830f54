//! Publishes a model's output while it arrives: a few times a second, not per token, since events are stored.

use std::time::Duration;

use tokio::time::Instant;
use windlass_value::Value;

use windlass_tools::Redactor;

/// The minimum time between two events.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

pub(super) type DeltaPublisher<'a> = &'a (dyn Fn(Value) + Sync);

pub(super) struct DeltaBuffer<'a> {
    /// `None`: nothing is published.
    publish: Option<DeltaPublisher<'a>>,
    redaction: &'a Redactor,
    pending: String,
    is_reasoning: bool,
    published_at: Option<Instant>,
    due: Option<Instant>,
}

impl<'a> DeltaBuffer<'a> {
    pub(super) fn new(publish: Option<DeltaPublisher<'a>>, redaction: &'a Redactor) -> DeltaBuffer<'a> {
        DeltaBuffer { publish, redaction, pending: String::new(), is_reasoning: false, published_at: None, due: None }
    }

    pub(super) fn push(&mut self, text: &str, is_reasoning: bool, now: Instant) {
        if self.publish.is_none() || text.is_empty() {
            return;
        }
        if is_reasoning != self.is_reasoning {
            self.flush(true, now);
            self.is_reasoning = is_reasoning;
        }
        self.pending.push_str(text);
        self.due.get_or_insert(self.published_at.map_or(now, |published| (published + MIN_INTERVAL).max(now)));
        if self.due.is_some_and(|due| due <= now) {
            self.flush(false, now);
        }
    }

    /// Returns the time of the next event, if text is pending.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Publishes the pending text. Holds back a possible beginning of a secret, unless it is the end.
    pub(super) fn flush(&mut self, is_end: bool, now: Instant) {
        self.due = None;
        let Some(publish) = self.publish.filter(|_| !self.pending.is_empty()) else { return };
        let held = if is_end { 0 } else { self.redaction.partial_match_len(&self.pending) };
        let rest = self.pending.split_off(self.pending.len() - held);
        let text = std::mem::replace(&mut self.pending, rest);
        if text.is_empty() {
            return;
        }
        self.published_at = Some(now);
        let mut data = vec![("delta", Value::from(self.redaction.redact_text(&text)))];
        if self.is_reasoning {
            data.push(("reasoning", true.into()));
        }
        publish(Value::object(data));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use windlass_value::to_json;

    use super::*;

    #[test]
    fn tokens_are_published_in_batches() {
        let published = Mutex::new(Vec::new());
        let publish = |data: Value| published.lock().unwrap().push(to_json(&data));
        let redaction = Redactor::new(["sk-canary-0123".to_owned()]);
        let mut deltas = DeltaBuffer::new(Some(&publish), &redaction);
        let begin = Instant::now();
        let at = |ms: u64| begin + Duration::from_millis(ms);
        deltas.push("a", false, at(0));
        for (ms, token) in [(10, "b"), (20, "c"), (99, "d")] {
            deltas.push(token, false, at(ms));
            assert_eq!(deltas.due(), Some(at(100)));
        }
        deltas.flush(false, at(100));
        assert_eq!(deltas.due(), None);
        deltas.push("key: sk-can", false, at(300));
        deltas.push("ary-0123 and sk-", false, at(500));
        deltas.push("hm", true, at(501));
        deltas.flush(true, at(502));
        deltas.flush(true, at(503));
        assert_eq!(
            *published.lock().unwrap(),
            [
                r#"{"delta":"a"}"#,
                r#"{"delta":"bcd"}"#,
                r#"{"delta":"key: "}"#,
                r#"{"delta":"*** and "}"#,
                r#"{"delta":"sk-"}"#,
                r#"{"delta":"hm","reasoning":true}"#
            ]
        );
        let mut silent = DeltaBuffer::new(None, &redaction);
        silent.push("x", false, begin);
        assert_eq!(silent.due(), None);
    }
}
