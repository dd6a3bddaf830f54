//! The built-in tools: `read`, `write`, `glob`, `grep`, `bash`, `http`.

mod bash;
mod glob;
mod grep;
mod http;
mod read;
mod write;

use windlass_core::ProcessLimits;
use windlass_value::{Value, parse_json};

use crate::ToolSpec;
use crate::files::{FileToolProblem, WalkEnd, WorkFolder};
use crate::tool::{AgentCall, ToolAnswer, ToolAnswerFuture};

pub use bash::BashOptions;
pub(crate) use bash::BashTool;
pub(crate) use glob::GlobTool;
pub(crate) use grep::GrepTool;
pub(crate) use http::AgentHttpTool;
pub(crate) use read::ReadTool;
pub(crate) use write::WriteTool;

fn spec(name: &str, description: &str, parameters: &str) -> ToolSpec {
    // A schema that is not valid JSON would be a mistake in this crate, which its tests find.
    let parameters = parse_json(parameters).unwrap_or(Value::Null);
    ToolSpec { name: name.to_owned(), description: description.to_owned(), parameters }
}

/// Runs work on files on a blocking thread instead of a shared runtime thread.
fn with_work_folder(
    call: AgentCall,
    work: impl FnOnce(&AgentCall, &WorkFolder) -> Result<String, FileToolProblem> + Send + 'static,
) -> ToolAnswerFuture {
    Box::pin(async move {
        let working = tokio::task::spawn_blocking(move || {
            let folder = WorkFolder::open(&call.folder, &call.protected)?;
            work(&call, &folder)
        });
        match working.await {
            Ok(result) => result.into(),
            Err(_) => ToolAnswer::error("the file operation was interrupted"),
        }
    })
}

/// Formats a number of bytes for people.
fn format_bytes(bytes: usize) -> String {
    match bytes {
        0 => "0 bytes".to_owned(),
        bytes if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        bytes if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} bytes"),
    }
}

/// The limits of the parameter `timeout`, in seconds, which a model may pass to a call.
#[derive(Clone, Copy, Debug)]
struct ToolTimeouts {
    default: f64,
    max: f64,
}

impl ToolTimeouts {
    fn from_limits(limits: &ProcessLimits) -> ToolTimeouts {
        let max = limits.max_agent_tool_time.to_std().as_secs_f64();
        ToolTimeouts { default: limits.default_agent_tool_time.to_std().as_secs_f64().min(max), max }
    }

    /// Returns the schema of the parameter.
    fn schema(self) -> String {
        let ToolTimeouts { default, max } = self;
        format!(
            r#"{{"type": "number", "exclusiveMinimum": 0, "maximum": {max}, "description": "seconds; {default} if not given"}}"#
        )
    }
}

/// Returns the note for a search that has not visited everything.
fn incomplete_note(found: WalkEnd, limit: usize) -> Option<String> {
    match found {
        WalkEnd::Complete => None,
        WalkEnd::LimitReached => {
            Some(format!("… there may be more: only the first {limit} are shown; narrow the search"))
        }
        WalkEnd::TooManyEntries => {
            Some("… there are too many files: not everything was searched; narrow the search".to_owned())
        }
        WalkEnd::Stopped => Some("… the search was cancelled".to_owned()),
    }
}

/// The bytes of a file that are inspected to detect binary content.
const SNIFF_BYTES: usize = 8 << 10;

fn is_binary(start: &[u8]) -> bool {
    start.iter().take(SNIFF_BYTES).any(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::AgentTool;

    #[test]
    fn every_tool_has_a_schema() {
        let http = windlass_tools::HttpTool::new(windlass_tools::HttpOptions::default());
        let limits = &ProcessLimits::default();
        let all: [&dyn AgentTool; 6] = [
            &ReadTool::new(limits),
            &WriteTool::new(limits),
            &GlobTool::new(limits),
            &GrepTool::new(limits),
            &BashTool::new(BashOptions::default(), limits),
            &AgentHttpTool::new(http, limits),
        ];
        for tool in all {
            let spec = tool.spec();
            assert_eq!(spec.parameters.get("type").and_then(Value::as_str), Some("object"), "{}", spec.name);
            assert!(crate::schema::ArgumentSchema::new(&spec.parameters).is_ok(), "{}", spec.name);
        }
    }
}
