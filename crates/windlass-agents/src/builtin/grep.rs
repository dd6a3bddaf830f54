//! `grep`: lines of files by a regular expression.

use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;

use globset::GlobMatcher;
use regex::{Regex, RegexBuilder};
use windlass_core::ProcessLimits;

use crate::ToolSpec;
use crate::builtin::glob::{matcher, matches_hidden_names};
use crate::builtin::{format_bytes, incomplete_note, is_binary, spec, with_work_folder};
use crate::files::{AccessMode, FileToolProblem, FileTree, TreeEntry, WorkFolder};
use crate::text::{escape_invisible, truncate_chars};
use crate::tool::{AgentCall, AgentTool, ToolAnswerFuture};

/// The default of the parameter `limit`.
const DEFAULT_LINES: usize = 200;
const MAX_LINE_CHARS: usize = 500;
const MAX_PATTERN_BYTES: usize = 4096;
const MAX_REGEX_BYTES: usize = 1 << 20;

/// Searches the files of the work folder.
#[derive(Clone, Copy)]
pub(crate) struct GrepTool {
    max_lines: usize,
    /// Larger files are hardly hand-written text and are skipped.
    max_file_bytes: u64,
    max_entries: usize,
}

impl GrepTool {
    pub(crate) fn new(limits: &ProcessLimits) -> GrepTool {
        GrepTool {
            max_lines: limits.max_agent_search_results,
            max_file_bytes: limits.max_agent_search_file_bytes,
            max_entries: limits.max_agent_search_entries,
        }
    }
}

impl AgentTool for GrepTool {
    fn spec(&self) -> ToolSpec {
        spec(
            "grep",
            &format!(
                "Finds lines in the files of the work folder by a regular expression (no look-around, no back-references). \
                 Gives `path:line:text`. Binary files, files over {} and hidden ones are left out.",
                format_bytes(usize::try_from(self.max_file_bytes).unwrap_or(usize::MAX))
            ),
            &r#"{"type": "object", "properties": {
                "pattern": {"type": "string", "minLength": 1, "description": "the regular expression"},
                "path": {"type": "string", "description": "the folder or file to search; the work folder if not given"},
                "glob": {"type": "string", "description": "only files whose names match, such as `*.rs` or `src/**/*.rs`"},
                "ignore_case": {"type": "boolean"},
                "limit": {"type": "integer", "minimum": 1, "maximum": MAX, "description": "how many lines at most; USUAL if not given"}
            }, "required": ["pattern"], "additionalProperties": false}"#
                .replace("MAX", &self.max_lines.to_string())
                .replace("USUAL", &self.max_lines.min(DEFAULT_LINES).to_string()),
        )
    }

    fn call(&self, call: AgentCall) -> ToolAnswerFuture {
        let grep = *self;
        with_work_folder(call, move |call, folder| grep.search(call, folder))
    }
}

impl GrepTool {
    fn search(self, call: &AgentCall, folder: &WorkFolder) -> Result<String, FileToolProblem> {
        let regex = regex(call)?;
        let names = call.text("glob").map(NameFilter::new).transpose()?;
        let requested = call.number("limit").and_then(|limit| usize::try_from(limit).ok());
        let limit = requested.unwrap_or(DEFAULT_LINES).min(self.max_lines);
        let start = folder.find(call.text("path").unwrap_or("."), AccessMode::Read)?;
        let cancelled = call.call.cancelled.clone();
        let hidden = call.text("glob").is_some_and(matches_hidden_names);
        let stop = || cancelled.is_cancelled();
        let tree =
            FileTree { guard: folder.guard(), includes_hidden: hidden, max_entries: self.max_entries, stop: &stop };
        let mut lines = Vec::new();
        let found = tree.walk(&start, |entry| match names.as_ref().is_none_or(|names| names.matches(entry)) {
            true => search_file(entry, &regex, (limit, self.max_file_bytes), &mut lines, &stop),
            false => ControlFlow::Continue(()),
        })?;
        if lines.is_empty() {
            lines.push(format!("no line matches `{}`", truncate_chars(&escape_invisible(regex.as_str()), 200)));
        }
        lines.extend(incomplete_note(found, limit));
        Ok(lines.join("\n"))
    }
}

fn regex(call: &AgentCall) -> Result<Regex, FileToolProblem> {
    let pattern = call.text("pattern").unwrap_or_default();
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(format!("the pattern has {} bytes; at most {MAX_PATTERN_BYTES} are allowed", pattern.len()));
    }
    let mut builder = RegexBuilder::new(pattern);
    builder.case_insensitive(call.flag("ignore_case")).size_limit(MAX_REGEX_BYTES);
    builder.build().map_err(|error| format!("the pattern is not a valid regular expression: {error}"))
}

/// Selects the files to search: by name alone, or by path if the pattern has a `/`.
struct NameFilter {
    matcher: GlobMatcher,
    by_path: bool,
}

impl NameFilter {
    fn new(pattern: &str) -> Result<NameFilter, FileToolProblem> {
        Ok(NameFilter { matcher: matcher(pattern)?, by_path: pattern.contains('/') })
    }

    fn matches(&self, entry: &TreeEntry<'_>) -> bool {
        self.matcher.is_match(if self.by_path { entry.relative } else { entry.name })
    }
}

/// Searches one file. A line that cannot be read ends the file, not the search.
fn search_file(
    entry: &TreeEntry<'_>,
    regex: &Regex,
    (limit, max_file_bytes): (usize, u64),
    lines: &mut Vec<String>,
    stop: &dyn Fn() -> bool,
) -> ControlFlow<()> {
    let Some((file, size)) = entry.open() else { return ControlFlow::Continue(()) };
    if size > max_file_bytes {
        return ControlFlow::Continue(());
    }
    // The file may grow while it is read.
    let mut reader = BufReader::new(std::io::Read::take(file, max_file_bytes));
    if reader.fill_buf().map_or(true, is_binary) {
        return ControlFlow::Continue(());
    }
    let (mut raw, mut number) = (Vec::new(), 0u64);
    while matches!(reader.read_until(b'\n', &mut raw), Ok(1..)) {
        number += 1;
        let line = String::from_utf8_lossy(&raw);
        let line = line.trim_end_matches(['\n', '\r']);
        if regex.is_match(line) {
            if lines.len() == limit {
                return ControlFlow::Break(());
            }
            lines.push(format!("{}:{number}:{}", escape_invisible(entry.path), truncate_chars(line, MAX_LINE_CHARS)));
        }
        if number.is_multiple_of(4096) && stop() {
            return ControlFlow::Break(());
        }
        raw.clear();
    }
    ControlFlow::Continue(())
}
