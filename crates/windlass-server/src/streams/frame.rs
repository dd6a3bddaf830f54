//! Events as bytes, in both forms at once: a line of NDJSON is a part of the same event for SSE.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use windlass_runtime::inspect::{StoredEvent, event_value};
use windlass_value::Value;

/// Bytes of one batch, unless a single event has more. A reader who does not read keeps what it was given last, so this is
/// what it costs.
pub(crate) const MAX_BATCH_BYTES: usize = 32 * 1024;

/// Some events one after the other, encoded once. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct EventBatch {
    pub last: u64,
    bytes: Bytes,
    /// Shared: every reader has a clone of the batch.
    spans: Arc<[EventSpan]>,
}

/// Where an event is in the bytes.
#[derive(Clone, Copy, Debug)]
struct EventSpan {
    seq: u64,
    start: usize,
    /// Its JSON with the line break after it.
    json: (usize, usize),
}

impl EventBatch {
    /// As many of these events as go into one, and what is left. None if there are no events.
    pub(crate) fn encode_first<'p>(run: &str, pieces: &'p [StoredEvent]) -> Option<(EventBatch, &'p [StoredEvent])> {
        let (mut bytes, mut spans, mut last) = (Vec::new(), Vec::new(), None);
        for piece in pieces {
            let before = bytes.len();
            let span = encode_event(run, piece, &mut bytes);
            if bytes.len() > MAX_BATCH_BYTES && before > 0 {
                bytes.truncate(before);
                break;
            }
            spans.push(span);
            last = Some(piece.seq());
        }
        // What was reserved and not needed is given back: a batch may stay for long.
        let bytes = Bytes::from(bytes.into_boxed_slice());
        let left = &pieces[spans.len()..];
        Some((EventBatch { last: last?, bytes, spans: spans.into() }, left))
    }

    /// All of these events, in order.
    pub(crate) fn encode_all(run: &str, mut pieces: &[StoredEvent]) -> Vec<EventBatch> {
        let mut batches = Vec::new();
        while let Some((batch, left)) = EventBatch::encode_first(run, pieces) {
            batches.push(batch);
            pieces = left;
        }
        batches
    }

    /// Bytes of it.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The events after a number, for `text/event-stream`. Nothing is copied.
    pub(crate) fn sse_after(&self, after: u64) -> Bytes {
        let first = self.spans.partition_point(|mark| mark.seq <= after);
        self.spans.get(first).map_or_else(Bytes::new, |mark| self.bytes.slice(mark.start..))
    }

    /// The events after a number, one a line.
    pub(crate) fn lines_after(&self, after: u64) -> Bytes {
        let first = self.spans.partition_point(|mark| mark.seq <= after);
        let mut lines = BytesMut::with_capacity(self.bytes.len());
        for mark in &self.spans[first..] {
            lines.put_slice(&self.bytes[mark.json.0..mark.json.1]);
        }
        lines.freeze()
    }
}

fn encode_event(run: &str, piece: &StoredEvent, bytes: &mut Vec<u8>) -> EventSpan {
    let (seq, start) = (piece.seq(), bytes.len());
    let value = event_value(run, piece);
    let kind = value.get("type").and_then(Value::as_str).unwrap_or_default();
    // A step may publish whatever it likes, but not begin another line.
    let kind: String = kind.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    bytes.put_slice(format!("id: {seq}\nevent: {kind}\ndata: ").as_bytes());
    let json = bytes.len();
    // JSON has no line breaks outside of escapes.
    bytes.put_slice(windlass_value::to_json(&value).as_bytes());
    bytes.put_slice(b"\n\n");
    EventSpan { seq, start, json: (json, bytes.len() - 1) }
}
