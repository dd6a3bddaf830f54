//! The tool `agent_files`: files for an agent's first message, text as text, pictures and documents as bytes.

use std::io::Read;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use windlass_core::{ErrorInfo, Limits, TaskOutcome};
use windlass_runtime::{Tool, ToolCall, ToolFuture};
use windlass_tools::{ToolInfo, field, required};
use windlass_value::{Map, Value};

use crate::files::{AccessMode, FileToolProblem, ProtectedPaths, WorkFolder};
use crate::text::{escape_invisible, truncate_chars};

/// Media types that models accept as they are, by file extension.
const MEDIA_TYPES: [(&str, &str); 6] = [
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("pdf", "application/pdf"),
];

pub const AGENT_FILES: ToolInfo = ToolInfo {
    name: "agent_files",
    description: "Reads files for an agent's prompt: text as text, png, jpg, gif, webp and pdf as base64.",
    inputs: &[
        required("folder", "text", "the folder of the workflow, an absolute path; paths cannot leave it"),
        required("paths", "array of text", "the files, from the folder on"),
        field("lenient", "boolean", "a file that cannot be read is a note, not a failure"),
    ],
    outputs: &[field(
        "(the result)",
        "array",
        "{path, text}, {path, media, data} or {path, problem}, in the order of the paths",
    )],
    errors: &[("files", "`ContextFiles`: names all files that cannot be read"), ("input", "the task itself is wrong")],
};

/// The tool `agent_files`: reads the context files of an agent.
#[derive(Clone, Copy)]
pub struct AgentFiles {
    max_file_bytes: u64,
}

impl Default for AgentFiles {
    fn default() -> AgentFiles {
        AgentFiles::with_limits(&Limits::default())
    }
}

impl AgentFiles {
    /// Creates the tool with the given limits.
    pub fn with_limits(limits: &Limits) -> AgentFiles {
        AgentFiles { max_file_bytes: limits.max_context_file_bytes }
    }
}

impl Tool for AgentFiles {
    fn call(&self, call: ToolCall) -> ToolFuture {
        let max_bytes = self.max_file_bytes;
        Box::pin(async move {
            let reading = tokio::task::spawn_blocking(move || read_files(&call.input, max_bytes));
            let broken = |_| Err(ErrorInfo::new("ContextFiles", "files", "reading the files was interrupted"));
            reading.await.unwrap_or_else(broken).map_or_else(TaskOutcome::failure, TaskOutcome::success)
        })
    }
}

fn read_files(input: &Value, max_bytes: u64) -> Result<Value, ErrorInfo> {
    let bad =
        |what: &str| ErrorInfo::new("BadInput", "input", format!("`{what}` of `agent_files` is missing or wrong"));
    let folder = input.get("folder").and_then(Value::as_str).ok_or_else(|| bad("folder"))?;
    let paths = input.get("paths").and_then(Value::as_list).ok_or_else(|| bad("paths"))?;
    let lenient = input.get("lenient").and_then(Value::as_bool).unwrap_or(false);
    let folder = WorkFolder::open(Path::new(folder), &ProtectedPaths::default())
        .map_err(|problem| ErrorInfo::new("ContextFiles", "files", problem))?;
    let (mut files, mut problems) = (Vec::with_capacity(paths.len()), Vec::new());
    for path in paths {
        let path = path.as_str().ok_or_else(|| bad("paths"))?;
        let mut file = Map::with_capacity(3);
        file.insert("path", path);
        match read_content(&folder, path, max_bytes) {
            Ok(FileContent::Text(text)) => {
                file.insert("text", text);
            }
            Ok(FileContent::Media(media, bytes)) => {
                file.insert("media", media);
                file.insert("data", STANDARD.encode(bytes));
            }
            Err(problem) => {
                problems.push(problem.clone());
                file.insert("problem", problem);
            }
        }
        files.push(Value::map(file));
    }
    if lenient || problems.is_empty() {
        return Ok(Value::list(files));
    }
    Err(ErrorInfo::new("ContextFiles", "files", format!("context files cannot be read: {}", problems.join("; "))).hint(
        "paths are relative to the workflow's folder; with `contextFiles: lenient` under `x-windlass` unreadable files become notes",
    ))
}

enum FileContent {
    Text(String),
    Media(&'static str, Vec<u8>),
}

/// Reads one file. Error messages name the file.
fn read_content(folder: &WorkFolder, path: &str, max_bytes: u64) -> Result<FileContent, FileToolProblem> {
    let shown = truncate_chars(&escape_invisible(path), 200);
    let resolved = folder.find(path, AccessMode::Read)?;
    let (file, size) = resolved.open()?;
    let too_large =
        || format!("`{shown}` has more than {max_bytes} bytes (`limits.max_context_file_bytes` in windlass.toml)");
    if size > max_bytes {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    // The file may grow while it is read.
    let read = file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| format!("`{shown}` cannot be read: {error}"))?;
    if bytes.len() as u64 > max_bytes {
        return Err(too_large());
    }
    let end = path.rsplit_once('.').map(|(_, end)| end.to_ascii_lowercase()).unwrap_or_default();
    if let Some((_, media)) = MEDIA_TYPES.iter().find(|(known, _)| *known == end) {
        return Ok(FileContent::Media(media, bytes));
    }
    if bytes.contains(&0) {
        return Err(format!("`{shown}` is a binary file, which cannot be inlined as text"));
    }
    Ok(FileContent::Text(String::from_utf8_lossy(&bytes).into_owned()))
}
