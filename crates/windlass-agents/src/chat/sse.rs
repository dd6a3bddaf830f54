//! Parses server-sent events from bytes in pieces of any size.

/// One event. Its name is empty if the service sends none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SseEvent {
    pub(super) name: String,
    pub(super) data: String,
}

/// The bytes are not UTF-8.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotUtf8;

/// Assembles events. It buffers at most the bytes it was given, so the limit of the reply applies to it too.
#[derive(Default)]
pub(super) struct SseParser {
    line: Vec<u8>,
    name: String,
    data: Option<String>,
}

impl SseParser {
    /// Returns the events that are complete after this piece.
    pub(super) fn push(&mut self, piece: &[u8]) -> Result<Vec<SseEvent>, NotUtf8> {
        let mut events = Vec::new();
        let mut rest = piece;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.line.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            events.extend(self.end_line()?);
        }
        self.line.extend_from_slice(rest);
        Ok(events)
    }

    /// Returns the event left at the end: not every service terminates its last event.
    pub(super) fn finish(mut self) -> Result<Option<SseEvent>, NotUtf8> {
        let last = if self.line.is_empty() { None } else { self.end_line()? };
        Ok(last.or_else(|| self.end_event()))
    }

    fn end_line(&mut self) -> Result<Option<SseEvent>, NotUtf8> {
        let line = std::mem::take(&mut self.line);
        let line = std::str::from_utf8(line.strip_suffix(b"\r").unwrap_or(&line)).map_err(|_| NotUtf8)?;
        let line = line.trim_start_matches('\u{feff}');
        if line.is_empty() {
            return Ok(self.end_event());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            // Comments, ids and the reconnection time.
            _ => {}
        }
        Ok(None)
    }

    fn end_event(&mut self) -> Option<SseEvent> {
        let name = std::mem::take(&mut self.name);
        self.data.take().map(|data| SseEvent { name, data })
    }
}

/// Returns whether a body is an event stream, whatever its content type.
pub(super) fn looks_like_sse(body: &[u8]) -> bool {
    let start = body.trim_ascii_start();
    [&b"data:"[..], b"event:", b": ", b"id:", b"retry:"].iter().any(|field| start.starts_with(field))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pieces: &[&[u8]]) -> Result<Vec<(String, String)>, NotUtf8> {
        let mut events = SseParser::default();
        let mut found = Vec::new();
        for piece in pieces {
            found.extend(events.push(piece)?);
        }
        found.extend(events.finish()?);
        Ok(found.into_iter().map(|event| (event.name, event.data)).collect())
    }

    #[test]
    fn events_are_parsed_from_any_pieces() {
        let text = "\u{feff}: hello\r\nevent: a\r\ndata: {\"x\":\r\ndata: \"ü\"}\r\n\r\nid: 3\n\ndata:y\n\nevent: none\n\ndata: [DONE]";
        let whole = all(&[text.as_bytes()]).unwrap();
        let pair = |name: &str, data: &str| (name.to_owned(), data.to_owned());
        assert_eq!(whole, [pair("a", "{\"x\":\n\"ü\"}"), pair("", "y"), pair("", "[DONE]")]);
        for size in 1..8 {
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            assert_eq!(all(&pieces).unwrap(), whole, "in pieces of {size}");
        }
        assert_eq!(all(&[b"data: \xff\n\n"]), Err(NotUtf8));
    }
}
