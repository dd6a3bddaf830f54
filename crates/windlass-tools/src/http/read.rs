//! Reading of a body. It is read in chunks and counted while it is decoded, so neither a long reply nor a small one
//! that decompresses to a huge one uses more memory than the limit allows. A body that is not small waits for its share
//! of the memory of all replies before it is read on.

use std::io::{self, Write};

use flate2::write::{MultiGzDecoder, ZlibDecoder};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderMap};
use windlass_core::ErrorInfo;
use windlass_runtime::{FREE_REPLY_BYTES, ReplyPermit};

use super::failure;
use super::reply::header_text;
use super::request::HttpRequest;

/// A complete body, with the memory that was reserved for it.
#[derive(Debug)]
pub(super) struct ReadBody {
    pub(super) bytes: Vec<u8>,
    pub(super) permit: Option<ReplyPermit>,
}

pub(super) async fn read_body(
    request: &HttpRequest,
    headers: &HeaderMap,
    mut body: Incoming,
    max: usize,
) -> Result<ReadBody, ErrorInfo> {
    let mut sink = BodySink::new(header_text(headers, header::CONTENT_ENCODING).as_deref(), max);
    let announced = body.size_hint();
    if matches!(sink, BodySink::Plain(_)) && announced.lower() > max as u64 {
        return Err(failure::too_large(request, max));
    }
    // Without an announced size, and for a compressed body, only the limit is known.
    let exact = announced.exact().filter(|_| matches!(sink, BodySink::Plain(_)));
    let needs = exact.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(max).min(max);
    let mut permit = None;
    let (mut is_empty, mut wire_bytes) = (true, 0usize);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| failure::connection(&request.method, &request.uri, &error))?;
        let Some(mut bytes) = frame.data_ref().filter(|bytes| !bytes.is_empty()).map(|bytes| &bytes[..]) else {
            continue;
        };
        is_empty = false;
        // An endless stream of compressed bytes may decompress to nothing, so the received bytes are limited too.
        wire_bytes = wire_bytes.saturating_add(bytes.len());
        if wire_bytes > max {
            return Err(failure::too_large(request, max));
        }
        while !bytes.is_empty() {
            match sink.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) => permit = resume(request, &mut sink, needs, error).await?,
            }
        }
    }
    // Without a body (HEAD, 304) there is nothing to decompress.
    if is_empty {
        return Ok(ReadBody { bytes: Vec::new(), permit: None });
    }
    while let Err(error) = sink.try_finish() {
        permit = resume(request, &mut sink, needs, error).await?;
    }
    let bytes = sink.finish().map_err(|error| refused(request, max, &error))?;
    Ok(ReadBody { bytes, permit })
}

/// Reserves the memory that a sink lacks. Any other error ends the body.
async fn resume(
    request: &HttpRequest,
    sink: &mut BodySink,
    needs: usize,
    error: io::Error,
) -> Result<Option<ReplyPermit>, ErrorInfo> {
    let max = sink.buffer().max;
    if error.kind() != io::ErrorKind::WouldBlock {
        return Err(refused(request, max, &error));
    }
    let permit = request.memory.reserve_body(needs).await;
    sink.buffer().granted = max;
    Ok(permit)
}

fn refused(request: &HttpRequest, max: usize, error: &io::Error) -> ErrorInfo {
    match error.kind() {
        io::ErrorKind::FileTooLarge => failure::too_large(request, max),
        _ => failure::bad_encoding(request, &error.to_string()),
    }
}

/// The decoder of a body.
enum BodySink {
    Plain(BoundedBuffer),
    Gzip(Box<MultiGzDecoder<BoundedBuffer>>),
    Zlib(Box<ZlibDecoder<BoundedBuffer>>),
    Unknown(String, BoundedBuffer),
}

impl BodySink {
    fn new(encoding: Option<&str>, max: usize) -> BodySink {
        let room = BoundedBuffer { bytes: Vec::new(), granted: max.min(FREE_REPLY_BYTES), max };
        match encoding.unwrap_or_default().trim().to_ascii_lowercase().as_str() {
            "" | "identity" => BodySink::Plain(room),
            "gzip" | "x-gzip" => BodySink::Gzip(Box::new(MultiGzDecoder::new(room))),
            "deflate" => BodySink::Zlib(Box::new(ZlibDecoder::new(room))),
            other => BodySink::Unknown(other.chars().take(40).collect(), room),
        }
    }

    fn buffer(&mut self) -> &mut BoundedBuffer {
        match self {
            BodySink::Plain(room) | BodySink::Unknown(_, room) => room,
            BodySink::Gzip(decoder) => decoder.get_mut(),
            BodySink::Zlib(decoder) => decoder.get_mut(),
        }
    }

    /// Writes a part of the bytes. After an error of the kind `WouldBlock` none of them was written.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match self {
            BodySink::Plain(room) => room.write(bytes),
            BodySink::Gzip(decoder) => decoder.write(bytes),
            BodySink::Zlib(decoder) => decoder.write(bytes),
            BodySink::Unknown(name, _) => Err(io::Error::other(format!("its encoding is `{name}`"))),
        };
        match written {
            Ok(0) => Err(io::Error::other("bytes follow its end")),
            other => other,
        }
    }

    /// Decodes what is left in the decoder.
    fn try_finish(&mut self) -> io::Result<()> {
        match self {
            BodySink::Plain(_) | BodySink::Unknown(..) => Ok(()),
            BodySink::Gzip(decoder) => decoder.try_finish(),
            BodySink::Zlib(decoder) => decoder.try_finish(),
        }
    }

    fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            BodySink::Plain(room) => Ok(room.bytes),
            BodySink::Gzip(decoder) => Ok(decoder.finish()?.bytes),
            BodySink::Zlib(decoder) => Ok(decoder.finish()?.bytes),
            BodySink::Unknown(..) => Ok(Vec::new()),
        }
    }
}

/// A buffer that takes as many bytes as were granted, and rejects bytes beyond its limit.
#[derive(Debug)]
struct BoundedBuffer {
    bytes: Vec<u8>,
    granted: usize,
    max: usize,
}

impl Write for BoundedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.granted - self.bytes.len();
        if room == 0 && !bytes.is_empty() {
            let is_full = self.bytes.len() >= self.max;
            return Err(if is_full { io::ErrorKind::FileTooLarge } else { io::ErrorKind::WouldBlock }.into());
        }
        let accepted = bytes.len().min(room);
        self.bytes.extend_from_slice(&bytes[..accepted]);
        Ok(accepted)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
