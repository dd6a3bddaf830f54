//! Bodies of replies: complete ones, streams, and truncated ones.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

pub(crate) struct ChunkedBody {
    pieces: VecDeque<Bytes>,
    /// The number of bytes that the head announces.
    announced: Option<u64>,
    breaks: bool,
}

impl ChunkedBody {
    pub(super) fn from_bytes(bytes: Bytes) -> ChunkedBody {
        ChunkedBody { announced: Some(bytes.len() as u64), pieces: VecDeque::from([bytes]), breaks: false }
    }

    pub(super) fn from_events(events: Vec<String>) -> ChunkedBody {
        ChunkedBody { pieces: events.into_iter().map(Bytes::from).collect(), announced: None, breaks: false }
    }

    /// Closes the connection after these chunks.
    pub(super) fn then_abort(self) -> ChunkedBody {
        ChunkedBody { announced: None, breaks: true, ..self }
    }
}

impl Body for ChunkedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.pieces.pop_front() {
            Some(piece) => Poll::Ready(Some(Ok(Frame::data(piece)))),
            None if self.breaks => {
                self.breaks = false;
                Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into())))
            }
            None => Poll::Ready(None),
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.announced.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
