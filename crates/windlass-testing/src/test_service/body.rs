//! Bodies: complete ones, and long ones that are generated while they are sent.

use std::convert::Infallible;
use std::io::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::{Either, Full};
use hyper::body::{Body, Frame, SizeHint};

pub(super) type ServiceBody = Either<Full<Bytes>, RepeatedBody>;

pub(super) fn full_body(bytes: impl Into<Bytes>) -> ServiceBody {
    Either::Left(Full::new(bytes.into()))
}

/// A body that repeats the same chunk.
pub(super) struct RepeatedBody {
    piece: Bytes,
    left: u64,
    announced: bool,
    sent: Arc<AtomicU64>,
}

impl RepeatedBody {
    pub(super) fn text(mib: u64, announced: bool, sent: Arc<AtomicU64>) -> RepeatedBody {
        RepeatedBody { piece: Bytes::from(vec![b'x'; 64 << 10]), left: mib * 16, announced, sent }
    }

    /// A gzip body with many members, each of which decompresses to one MiB.
    pub(super) fn gzipped(mib: u64, sent: Arc<AtomicU64>) -> RepeatedBody {
        RepeatedBody { piece: gzip(&vec![b'x'; 1 << 20]), left: mib, announced: false, sent }
    }
}

impl Body for RepeatedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        self.sent.fetch_add(self.piece.len() as u64, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(self.piece.clone()))))
    }

    fn size_hint(&self) -> SizeHint {
        if self.announced { SizeHint::with_exact(self.left * self.piece.len() as u64) } else { SizeHint::default() }
    }
}

pub(super) fn gzip(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory does not fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default().into()
}
