//! `write`: a whole file.

use windlass_core::ProcessLimits;

use crate::ToolSpec;
use crate::builtin::{on_files, spec};
use crate::files::{Folder, Problem, Wanted};
use crate::tool::{AgentCall, AgentTool, AnswerFuture};

/// Writes a file of the work folder.
pub(crate) struct Write {
    max_bytes: usize,
}

impl Write {
    pub(crate) fn new(limits: &ProcessLimits) -> Write {
        Write { max_bytes: limits.max_agent_write_bytes }
    }
}

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
        let max_bytes = self.max_bytes;
        on_files(call, move |call, folder| write(call, folder, max_bytes))
    }
}

fn write(call: &AgentCall, folder: &Folder, max_bytes: usize) -> Result<String, Problem> {
    let content = call.text("content").unwrap_or_default();
    if content.len() > max_bytes {
        let rule = "`limits.max_agent_write_bytes` in windlass.toml";
        return Err(format!("the content has {} bytes; at most {max_bytes} can be written ({rule})", content.len()));
    }
    let place = folder.find(call.text("path").unwrap_or_default(), Wanted::Write)?;
    place.replace(content.as_bytes())?;
    let was = if place.kind.is_some() { "" } else { ", a new file" };
    Ok(format!("wrote {} bytes to `{}`{was}", content.len(), place.shown))
}
