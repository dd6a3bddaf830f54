//! `glob`: names of files by a pattern.

use std::ops::ControlFlow;

use globset::{GlobBuilder, GlobMatcher};

use windlass_core::ProcessLimits;

use crate::ToolSpec;
use crate::builtin::{incomplete_note, spec, with_work_folder};
use crate::files::{AccessMode, FileToolProblem, FileTree, WorkFolder};
use crate::text::{escape_invisible, truncate_chars};
use crate::tool::{AgentCall, AgentTool, ToolAnswerFuture};

const MAX_PATTERN_BYTES: usize = 1000;

/// Finds files of the work folder by name.
pub(crate) struct GlobTool {
    max_paths: usize,
    max_entries: usize,
}

impl GlobTool {
    pub(crate) fn new(limits: &ProcessLimits) -> GlobTool {
        GlobTool { max_paths: limits.max_agent_search_results, max_entries: limits.max_agent_search_entries }
    }
}

impl AgentTool for GlobTool {
    fn spec(&self) -> ToolSpec {
        spec(
            "glob",
            "Lists files of the work folder whose paths match a pattern: `*` and `?` within a name, `**` over folders, \
             `{a,b}`, `[abc]`. Names that begin with a dot match only if the pattern has such a name.",
            r#"{"type": "object", "properties": {
                "pattern": {"type": "string", "minLength": 1, "description": "such as `src/**/*.rs`"},
                "path": {"type": "string", "description": "the folder to look in; the work folder if not given"}
            }, "required": ["pattern"], "additionalProperties": false}"#,
        )
    }

    fn call(&self, call: AgentCall) -> ToolAnswerFuture {
        let GlobTool { max_paths, max_entries } = *self;
        with_work_folder(call, move |call, folder| glob(call, folder, max_paths, max_entries))
    }
}

fn glob(
    call: &AgentCall,
    folder: &WorkFolder,
    max_paths: usize,
    max_entries: usize,
) -> Result<String, FileToolProblem> {
    let pattern = call.text("pattern").unwrap_or_default();
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    let matcher = matcher(pattern)?;
    let start = folder.find(call.text("path").unwrap_or("."), AccessMode::Read)?;
    let cancelled = call.call.cancelled.clone();
    let hidden = matches_hidden_names(pattern);
    let tree =
        FileTree { guard: folder.guard(), includes_hidden: hidden, max_entries, stop: &|| cancelled.is_cancelled() };
    let mut paths = Vec::new();
    let found = tree.walk(&start, |entry| {
        if matcher.is_match(entry.relative) {
            if paths.len() == max_paths {
                return ControlFlow::Break(());
            }
            paths.push(escape_invisible(entry.path));
        }
        ControlFlow::Continue(())
    })?;
    if paths.is_empty() {
        paths.push(format!("no file matches `{}`", truncate_chars(&escape_invisible(pattern), 200)));
    }
    paths.extend(incomplete_note(found, max_paths));
    Ok(paths.join("\n"))
}

pub(super) fn matcher(pattern: &str) -> Result<GlobMatcher, FileToolProblem> {
    let problem =
        |why: &str| format!("`{}` is not a valid glob pattern: {why}", truncate_chars(&escape_invisible(pattern), 200));
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(problem("it is too long"));
    }
    let built = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build();
    Ok(built.map_err(|error| problem(&error.kind().to_string()))?.compile_matcher())
}

/// Returns whether a pattern names files that begin with a dot.
pub(super) fn matches_hidden_names(pattern: &str) -> bool {
    pattern.split(['/', '{', ',']).any(|part| part.starts_with('.') && part != "." && part != "..")
}
