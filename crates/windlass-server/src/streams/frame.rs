//! Events as bytes, in both forms at once: a line of NDJSON is a part of the same event for SSE.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use windlass_runtime::show::{Piece, event_value};
use windlass_value::Value;

/// Some events one after the other, encoded once.
#[derive(Clone, Debug)]
pub struct Batch {
    pub last: u64,
    bytes: Bytes,
    /// Shared: every reader has a clone of the batch.
    marks: Arc<[Mark]>,
}

/// Where an event is in the bytes.
#[derive(Clone, Copy, Debug)]
struct Mark {
    seq: u64,
    start: usize,
    /// Its JSON with the line break after it.
    json: (usize, usize),
}

impl Batch {
    /// Events in order. None if there are none.
    pub fn of(run: &str, pieces: &[Piece]) -> Option<Batch> {
        let last = pieces.last()?.seq();
        let mut bytes = BytesMut::with_capacity(pieces.len() * 256);
        let marks = pieces.iter().map(|piece| write(run, piece, &mut bytes)).collect();
        Some(Batch { last, bytes: bytes.freeze(), marks })
    }

    /// Bytes of it.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The events after a number, for `text/event-stream`. Nothing is copied.
    pub fn sse_after(&self, after: u64) -> Bytes {
        let first = self.marks.partition_point(|mark| mark.seq <= after);
        self.marks.get(first).map_or_else(Bytes::new, |mark| self.bytes.slice(mark.start..))
    }

    /// The events after a number, one a line.
    pub fn lines_after(&self, after: u64) -> Bytes {
        let first = self.marks.partition_point(|mark| mark.seq <= after);
        let mut lines = BytesMut::with_capacity(self.bytes.len());
        for mark in &self.marks[first..] {
            lines.put_slice(&self.bytes[mark.json.0..mark.json.1]);
        }
        lines.freeze()
    }
}

fn write(run: &str, piece: &Piece, bytes: &mut BytesMut) -> Mark {
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
    Mark { seq, start, json: (json, bytes.len() - 1) }
}
