//! `write`: a whole file.

use windlass_core::ProcessLimits;

use crate::ToolSpec;
use crate::builtin::{spec, with_work_folder};
use crate::files::{AccessMode, FileToolProblem, WorkFolder};
use crate::tool::{AgentCall, AgentTool, ToolAnswerFuture};

/// Writes a file of the work folder.
pub(crate) struct WriteTool {
    max_bytes: usize,
}

impl WriteTool {
    pub(crate) fn new(limits: &ProcessLimits) -> WriteTool {
        WriteTool { max_bytes: limits.max_agent_write_bytes }
    }
}

impl AgentTool for WriteTool {
    fn spec(&self) -> ToolSpec {
        spec(
            "write",
            "Writes a whole file of the work folder and replaces its content. Missing folders are created.",
            r#"{"type": "object", "properties": {
                "path": {"type": "string", "description": "the file, from the work folder on"},
                "content": {"type": "string", "description": "the whole new content of the file"}
            }, "required": ["path", "content"], "additionalProperties": false}"#,
        )
    }

    fn call(&self, call: AgentCall) -> ToolAnswerFuture {
        let max_bytes = self.max_bytes;
        with_work_folder(call, move |call, folder| write(call, folder, max_bytes))
    }
}

fn write(call: &AgentCall, folder: &WorkFolder, max_bytes: usize) -> Result<String, FileToolProblem> {
    let content = call.text("content").unwrap_or_default();
    if content.len() > max_bytes {
        let rule = "`limits.max_agent_write_bytes` in windlass.toml";
        return Err(format!("the content has {} bytes; at most {max_bytes} can be written ({rule})", content.len()));
    }
    let file_path = folder.find(call.text("path").unwrap_or_default(), AccessMode::Write)?;
    file_path.replace(content.as_bytes())?;
    let was = if file_path.kind.is_some() { "" } else { ", a new file" };
    Ok(format!("wrote {} bytes to `{}`{was}", content.len(), file_path.display))
}
