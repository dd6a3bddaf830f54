//! Events encoded once for both formats: the NDJSON line of an event is a part of its SSE message.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use windlass_runtime::inspect::{StoredEvent, event_value};
use windlass_value::Value;

/// Maximum size of a batch, unless a single event is larger. A reader that does not read holds its last batch, so
/// this is its memory cost.
pub(crate) const MAX_BATCH_BYTES: usize = 32 * 1024;

/// A sequence of events, encoded once. Clones share the bytes.
#[derive(Clone, Debug)]
pub(crate) struct EventBatch {
    pub last: u64,
    bytes: Bytes,
    /// Shared, since every reader has a clone of the batch.
    spans: Arc<[EventSpan]>,
}

/// The position of an event in the bytes.
#[derive(Clone, Copy, Debug)]
struct EventSpan {
    seq: u64,
    start: usize,
    /// Range of its JSON with the line break after it.
    json: (usize, usize),
}

impl EventBatch {
    /// Encodes as many of these events as fit into one batch, and returns the rest. None if there are no events.
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
        // Releases unused capacity: a batch may be kept for long.
        let bytes = Bytes::from(bytes.into_boxed_slice());
        let left = &pieces[spans.len()..];
        Some((EventBatch { last: last?, bytes, spans: spans.into() }, left))
    }

    /// Encodes all of these events, in order.
    pub(crate) fn encode_all(run: &str, mut pieces: &[StoredEvent]) -> Vec<EventBatch> {
        let mut batches = Vec::new();
        while let Some((batch, left)) = EventBatch::encode_first(run, pieces) {
            batches.push(batch);
            pieces = left;
        }
        batches
    }

    /// Returns the number of bytes.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the events after a sequence number for `text/event-stream`, without copying.
    pub(crate) fn sse_after(&self, after: u64) -> Bytes {
        let first = self.spans.partition_point(|mark| mark.seq <= after);
        self.spans.get(first).map_or_else(Bytes::new, |mark| self.bytes.slice(mark.start..))
    }

    /// Returns the events after a sequence number, one per line.
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
    // A step may publish any type name, but must not be able to begin another line.
    let kind: String = kind.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    bytes.put_slice(format!("id: {seq}\nevent: {kind}\ndata: ").as_bytes());
    let json = bytes.len();
    // JSON has no line breaks outside of escapes.
    bytes.put_slice(windlass_value::to_json(&value).as_bytes());
    bytes.put_slice(b"\n\n");
    EventSpan { seq, start, json: (json, bytes.len() - 1) }
}
