//! `write`: a whole file.

use crate::ToolSpec;
use crate::builtin::{on_files, spec};
use crate::files::{Folder, Problem, Wanted};
use crate::tool::{AgentCall, AgentTool, AnswerFuture};

const BYTES_MAX: usize = 16 << 20;

/// Writes a file of the work folder.
pub(crate) struct Write;

impl AgentTool for Write {
    fn spec(&self) -> ToolSpec {
        spec(
            "write",
            "Writes a whole file of the work folder; what was in it is replaced. Missing folders are made.",
            r#"{"type": "object", "properties": {
                "path": {"type": "string", "description": "the file, from the work folder on"},
                "content": {"type": "string", "description": "all that the file is to hold"}
            }, "required": ["path", "content"], "additionalProperties": false}"#,
        )
    }

    fn call(&self, call: AgentCall) -> AnswerFuture {
        on_files(call, write)
    }
}

fn write(call: &AgentCall, folder: &Folder) -> Result<String, Problem> {
    let content = call.text("content").unwrap_or_default();
    if content.len() > BYTES_MAX {
        return Err(format!("the content has {} bytes; at most {BYTES_MAX} can be written at once", content.len()));
    }
    let place = folder.find(call.text("path").unwrap_or_default(), Wanted::Write)?;
    place.replace(content.as_bytes())?;
    let was = if place.kind.is_some() { "" } else { ", a new file" };
    Ok(format!("wrote {} bytes to `{}`{was}", content.len(), place.shown))
}
