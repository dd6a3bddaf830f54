//! Line endings of requests. The HTTP parser accepts a bare line feed as the end of a line, a proxy in front of the
//! server may not: both would then see other headers and other requests in the same bytes (request smuggling). This
//! reader follows the framing of the requests and ends the connection at the first line that does not end with CR LF.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes of a line that are kept: the name and the value of a header that determines the framing, or the size of a
/// chunk. Longer lines of these kinds are refused.
const MAX_KEPT_BYTES: usize = 128;

/// Replaces the byte that is refused. The HTTP parser accepts it nowhere and answers with 400.
const INVALID_BYTE: u8 = 0;

/// A stream whose reader ends at a request with an invalid line ending.
pub(super) struct StrictLines<S> {
    stream: S,
    framing: Framing,
}

impl<S> StrictLines<S> {
    pub(super) fn new(stream: S) -> StrictLines<S> {
        StrictLines { stream, framing: Framing::default() }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StrictLines<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.framing.part == Part::Refused {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Poll::Ready(Ok(())) = polled {
            let valid = self.framing.check(&mut buffer.filled_mut()[before..]);
            buffer.set_filled(before + valid);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StrictLines<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, data)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// The part of a request that the next byte belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Part {
    /// The request line, or empty lines before it.
    #[default]
    RequestLine,
    Headers,
    /// A body, or the data of a chunk with its line ending, of which so many bytes are missing.
    Body(u64),
    Chunk(u64),
    ChunkEnd,
    ChunkSize,
    Trailers,
    /// An invalid line was found: nothing more is read.
    Refused,
}

/// The framing of the requests of one connection. What the HTTP parser refuses need not be refused here: it closes the
/// connection.
#[derive(Default)]
struct Framing {
    part: Part,
    /// The beginning of the current line, without its end.
    line: Vec<u8>,
    is_cut: bool,
    after_return: bool,
    is_chunked: bool,
    length: u64,
}

/// A line that must not reach the HTTP parser.
struct InvalidLine;

impl Framing {
    /// Checks the next bytes and returns how many of them may be parsed. If these are not all, the last of them is
    /// invalid and nothing may follow.
    fn check(&mut self, bytes: &mut [u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            let rest = bytes.len() - at;
            match self.part {
                Part::Refused => return at,
                Part::Body(missing) => {
                    let here = usize::try_from(missing).map_or(rest, |missing| missing.min(rest));
                    self.part = after_data(missing, here, Part::Body, Part::RequestLine);
                    at += here;
                }
                Part::Chunk(missing) => {
                    let here = usize::try_from(missing).map_or(rest, |missing| missing.min(rest));
                    self.part = after_data(missing, here, Part::Chunk, Part::ChunkEnd);
                    at += here;
                }
                _ => {
                    if self.take_byte(bytes[at]).is_err() {
                        self.part = Part::Refused;
                        bytes[at] = INVALID_BYTE;
                        return at + 1;
                    }
                    at += 1;
                }
            }
        }
        at
    }

    /// Takes a byte of a line.
    fn take_byte(&mut self, byte: u8) -> Result<(), InvalidLine> {
        let after_return = std::mem::replace(&mut self.after_return, byte == b'\r');
        if byte == b'\n' {
            if !after_return {
                return Err(InvalidLine);
            }
            let line = std::mem::take(&mut self.line);
            let ended = self.end_line(&line);
            // Its memory is used again.
            self.line = line;
            self.line.clear();
            self.is_cut = false;
            return ended;
        }
        if after_return {
            self.keep(b'\r');
        }
        if byte != b'\r' {
            self.keep(byte);
        }
        Ok(())
    }

    fn keep(&mut self, byte: u8) {
        match self.line.len() < MAX_KEPT_BYTES {
            true => self.line.push(byte),
            false => self.is_cut = true,
        }
    }

    fn end_line(&mut self, line: &[u8]) -> Result<(), InvalidLine> {
        self.part = match self.part {
            // The HTTP parser skips empty lines before a request.
            Part::RequestLine if line.is_empty() => Part::RequestLine,
            Part::RequestLine => {
                (self.is_chunked, self.length) = (false, 0);
                Part::Headers
            }
            Part::Headers if line.is_empty() => match (self.is_chunked, self.length) {
                (true, _) => Part::ChunkSize,
                (false, 0) => Part::RequestLine,
                (false, length) => Part::Body(length),
            },
            Part::Headers => {
                self.read_header(line)?;
                Part::Headers
            }
            Part::ChunkSize => match chunk_size(line)? {
                0 => Part::Trailers,
                size => Part::Chunk(size),
            },
            Part::ChunkEnd if line.is_empty() => Part::ChunkSize,
            Part::ChunkEnd => return Err(InvalidLine),
            Part::Trailers if line.is_empty() => Part::RequestLine,
            Part::Trailers => Part::Trailers,
            part @ (Part::Body(_) | Part::Chunk(_) | Part::Refused) => part,
        };
        Ok(())
    }

    /// Reads a header that determines the framing. Chunks count before a length, as in the HTTP parser.
    fn read_header(&mut self, line: &[u8]) -> Result<(), InvalidLine> {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return Ok(()) };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.is_chunked = true;
        } else if name.eq_ignore_ascii_case(b"content-length") {
            let digits = std::str::from_utf8(value).map_err(|_| InvalidLine)?;
            let length = digits.parse().map_err(|_| InvalidLine)?;
            if self.is_cut {
                return Err(InvalidLine);
            }
            self.length = length;
        }
        Ok(())
    }
}

/// Returns the part after so many bytes of data.
fn after_data(missing: u64, here: usize, same: fn(u64) -> Part, next: Part) -> Part {
    match missing - here as u64 {
        0 => next,
        missing => same(missing),
    }
}

/// Parses the size of a chunk, which extensions may follow.
fn chunk_size(line: &[u8]) -> Result<u64, InvalidLine> {
    let digits = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
    // A number with more digits is an overflow, or has zeros in front of it.
    let digits = std::str::from_utf8(&line[..digits]).ok().filter(|digits| digits.len() <= 16);
    digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).ok_or(InvalidLine)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Checks the text in pieces of `size` bytes. Returns what the HTTP parser reads.
    fn parsed(text: &str, size: usize) -> String {
        let (mut framing, mut passed) = (Framing::default(), Vec::new());
        for piece in text.as_bytes().chunks(size) {
            let mut piece = piece.to_vec();
            let valid = framing.check(&mut piece);
            passed.extend_from_slice(&piece[..valid]);
        }
        String::from_utf8(passed).unwrap()
    }

    fn checked(text: &str) -> String {
        let whole = parsed(text, usize::MAX);
        for size in 1..text.len().min(20) {
            assert_eq!(parsed(text, size), whole, "{text:?} in pieces of {size}");
        }
        whole
    }

    const NEXT: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

    #[test]
    fn valid_requests_pass_unchanged() {
        let table = [
            NEXT.repeat(3),
            format!("\r\n{NEXT}\r\n\r\n{NEXT}"),
            format!("POST / HTTP/1.1\r\nContent-Length:  4 \r\n\r\n\n\r\n\n{NEXT}"),
            format!("POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n{NEXT}"),
            format!(
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n\na\n\r\nA;x=\"y\"\r\n\n\n\n\n\n\n\n\n\n\n\r\n0\r\n\r\n{NEXT}"
            ),
            format!(
                "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 1\r\n\r\n1 \r\n\n\r\n0\r\nx: y\r\n\r\n{NEXT}"
            ),
            format!(
                "POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n1\r\n\n\r\n00\r\n\r\n{NEXT}"
            ),
            // These are for the HTTP parser to refuse.
            "nonsense\r\nmore of it\r\n\r\n".to_owned(),
            format!("GET / HTTP/1.1\r\nx: a\rb\r\n\r\n{NEXT}"),
            format!("GET / HTTP/1.1\r\ncontent-length : 5\r\n\r\n{NEXT}"),
        ];
        for text in table {
            assert_eq!(checked(&text), text);
        }
    }

    #[test]
    fn nothing_is_read_after_a_bare_line_feed() {
        let post = "POST / HTTP/1.1\r\nhost: a\r\n";
        let chunked = format!("{post}transfer-encoding: chunked\r\n\r\n");
        let table = [
            (String::new(), "\n"),
            ("GET / HTTP/1.1".to_owned(), "\nhost: a\r\n\r\n"),
            ("GET / HTTP/1.1\r\nhost: a".to_owned(), "\n\r\n"),
            ("GET / HTTP/1.1\r\nhost: a\r\n".to_owned(), "\n"),
            ("GET / HTTP/1.1\r\nx: a".to_owned(), "\ncontent-length: 5\r\n\r\n"),
            (NEXT.to_owned(), "\n"),
            (format!("{post}content-length: 1\r\n\r\n\nGET / HTTP/1.1"), "\n"),
            (format!("{chunked}5"), "\nhello\r\n"),
            (format!("{chunked}5;x"), "\nhello\r\n"),
            (format!("{chunked}5\r\nhello"), "\n0\r\n\r\n"),
            (format!("{chunked}5\r\nhello\r\n0\r\n"), "\n"),
            (format!("{chunked}5\r\nhello\r\n0\r\nx: y"), "\nz: 1\r\n\r\n"),
        ];
        for (valid, rest) in table {
            assert_eq!(checked(&format!("{valid}{rest}{NEXT}")), format!("{valid}\0"), "{valid:?} {rest:?}");
        }
    }

    #[test]
    fn a_framing_that_is_unclear_is_refused() {
        let post = "POST / HTTP/1.1\r\n";
        let chunked = format!("{post}transfer-encoding: chunked\r\n\r\n");
        for text in [
            format!("{post}content-length: 5x\r\n"),
            format!("{post}content-length:\r\n"),
            format!("{post}content-length: {}5\r\n", " ".repeat(MAX_KEPT_BYTES)),
            format!("{post}content-length: 5{}6\r\n", " ".repeat(MAX_KEPT_BYTES)),
            format!("{post}content-length: 99999999999999999999999\r\n"),
            format!("{chunked}\r\n"),
            format!("{chunked}x\r\n"),
            format!("{chunked}00000000000000005\r\n"),
            format!("{chunked}1\r\nab\r\n"),
        ] {
            let passed = checked(&format!("{text}{NEXT}"));
            assert_eq!(passed, format!("{}\0", &text[..text.len() - 1]), "{text:?}");
        }
    }
}
