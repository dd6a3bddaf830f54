//! `read`: the lines of a text file.

use std::io::{BufRead, BufReader};

use windlass_core::ProcessLimits;

use crate::ToolSpec;
use crate::builtin::{format_bytes, is_binary, spec, with_work_folder};
use crate::files::{AccessMode, FileToolProblem, WorkFolder};
use crate::tool::{AgentCall, AgentTool, ToolAnswerFuture};

/// Reads a file of the work folder.
pub(crate) struct ReadTool {
    max_bytes: usize,
}

impl ReadTool {
    pub(crate) fn new(limits: &ProcessLimits) -> ReadTool {
        ReadTool { max_bytes: limits.max_agent_answer_bytes }
    }
}

impl AgentTool for ReadTool {
    fn spec(&self) -> ToolSpec {
        spec(
            "read",
            &format!("Reads a text file of the work folder, at most {} at a time.", format_bytes(self.max_bytes)),
            r#"{"type": "object", "properties": {
                "path": {"type": "string", "description": "the file, from the work folder on"},
                "offset": {"type": "integer", "minimum": 1, "description": "the first line to read; 1 if not given"},
                "limit": {"type": "integer", "minimum": 1, "description": "how many lines to read; all if not given"}
            }, "required": ["path"], "additionalProperties": false}"#,
        )
    }

    fn call(&self, call: AgentCall) -> ToolAnswerFuture {
        let max_bytes = self.max_bytes;
        with_work_folder(call, move |call, folder| read(call, folder, max_bytes))
    }
}

fn read(call: &AgentCall, folder: &WorkFolder, max_bytes: usize) -> Result<String, FileToolProblem> {
    let file_path = folder.find(call.text("path").unwrap_or_default(), AccessMode::Read)?;
    let (file, size) = file_path.open()?;
    let cannot = |error: std::io::Error| format!("`{}` cannot be read: {error}", file_path.display);
    let mut reader = BufReader::new(file);
    if is_binary(reader.fill_buf().map_err(cannot)?) {
        return Err(format!("`{}` is a binary file of {size} bytes, which cannot be read as text", file_path.display));
    }
    let first = call.number("offset").unwrap_or(1).max(1);
    let limit = call.number("limit").unwrap_or(u64::MAX);
    let (mut text, mut line, mut last) = (Vec::new(), 0, None);
    loop {
        if call.call.cancelled.is_cancelled() {
            return Err("the call was cancelled".to_owned());
        }
        if line + 1 >= first.saturating_add(limit) {
            break;
        }
        let room = if line + 1 < first { 0 } else { max_bytes - text.len() };
        let Some(read) = next_line(&mut reader, room).map_err(cannot)? else { break };
        line += 1;
        if line < first {
            continue;
        }
        if read.is_cut {
            // The line does not fit. Only if it is the first one is its beginning shown.
            if text.is_empty() {
                text = read.bytes;
                last = Some(format!("… line {line} is longer than {}: the rest is omitted", format_bytes(max_bytes)));
            } else {
                last = Some(format!("… cut after {}: continue with offset {line}", format_bytes(max_bytes)));
            }
            break;
        }
        text.extend_from_slice(&read.bytes);
    }
    if line < first && first > 1 {
        return Err(format!("`{}` has only {line} lines", file_path.display));
    }
    let mut text = String::from_utf8_lossy(&text).into_owned();
    if let Some(last) = last {
        text.push_str(if text.ends_with('\n') { "" } else { "\n" });
        text.push_str(&last);
    }
    Ok(if text.is_empty() { "(the file is empty)".to_owned() } else { text })
}

struct TruncatedLine {
    bytes: Vec<u8>,
    is_cut: bool,
}

/// Reads one line and keeps at most `room` bytes of it.
fn next_line(reader: &mut impl BufRead, room: usize) -> std::io::Result<Option<TruncatedLine>> {
    let mut line = TruncatedLine { bytes: Vec::new(), is_cut: false };
    let mut any = false;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(any.then_some(line));
        }
        any = true;
        let end = buffer.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
        let part = &buffer[..end.unwrap_or(buffer.len())];
        let kept = part.len().min(room - line.bytes.len());
        line.bytes.extend_from_slice(&part[..kept]);
        line.is_cut |= kept < part.len();
        let used = part.len();
        reader.consume(used);
        if end.is_some() {
            return Ok(Some(line));
        }
    }
}
