//! `@path`: a text that is read from a file. The file may refer to another one.

use std::path::PathBuf;

use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Span, SpannedText};

use super::DocumentReader;
use crate::codes;
use crate::paths::{self, PathError};
use windlass_dialect::FileReadProblem;

impl DocumentReader<'_> {
    /// Returns the text of the file. A file that consists of one `@path` refers to another file: then the text of that
    /// one.
    pub(crate) fn resolve_reference(
        &mut self,
        path: &str,
        written: &SpannedText,
        span: Span,
        what: &str,
    ) -> Option<String> {
        let limits = &self.options.limits;
        let (max_bytes, max_depth) = (limits.max_text_file_bytes, limits.max_text_file_depth);
        let (mut path, mut chain): (String, Vec<PathBuf>) = (path.trim().to_owned(), Vec::new());
        loop {
            let from = || match chain.last().and_then(|last| last.file_name()) {
                Some(name) => format!("the file `{}` refers to", name.to_string_lossy()),
                None => format!("`{what}` refers to"),
            };
            if path.is_empty() {
                let hint = "write `@path/to/file.md`; a text that begins with `@` itself needs a word before it";
                self.error(codes::FILE_REFERENCE, span, format!("{} no file: `@` has no path after it", from()), hint);
                return None;
            }
            if chain.len() == max_depth {
                let message = format!("`{what}` goes through more than {max_depth} files, each referring to the next");
                let hint = "refer to the last of them, or raise `limits.max_text_file_depth` in windlass.toml";
                self.error(codes::FILE_REFERENCE, span, message, hint);
                return None;
            }
            let Some(folder) = self.folder else {
                if let Err(why) = paths::normalize(&path) {
                    self.error(
                        codes::FILE_REFERENCE,
                        span,
                        format!("{} `{path}`, which {why}", from()),
                        paths::PATH_HINT,
                    );
                    return None;
                }
                return self.folder_unknown(&path, written, span);
            };
            let found = match folder.find(&path) {
                Ok(found) => found,
                Err(PathError::Invalid(why)) => {
                    self.error(
                        codes::FILE_REFERENCE,
                        span,
                        format!("{} `{path}`, which {why}", from()),
                        paths::PATH_HINT,
                    );
                    return None;
                }
                Err(PathError::Outside) => {
                    let message = format!("{} `{path}`, a link that leads out of the workflow's folder", from());
                    self.error(codes::FILE_REFERENCE, span, message, paths::PATH_HINT);
                    return None;
                }
                Err(PathError::File(FileReadProblem::Unavailable)) => return self.folder_unknown(&path, written, span),
                Err(PathError::File(problem)) => {
                    let message = format!("{} `{path}`: {problem}", from());
                    let hint = "the path is relative to the workflow's folder; a literal text must not begin with `@`";
                    self.missing_file(&problem, span, message, hint);
                    return Some(written.text.clone());
                }
            };
            if chain.contains(&found) {
                let message = format!("{} `{path}`, which refers back to a file of the same chain (cycle)", from());
                self.error(codes::FILE_REFERENCE, span, message, "write the text into one of the files");
                return None;
            }
            let text = match folder.files.read(&found, max_bytes).map(String::from_utf8) {
                Ok(Ok(text)) => text,
                Ok(Err(_)) => {
                    let message = format!("{} `{path}`, which is not UTF-8 text", from());
                    self.error(
                        codes::FILE_REFERENCE,
                        span,
                        message,
                        "only texts can be referred to; `contextFiles` may be anything",
                    );
                    return None;
                }
                Err(problem) => {
                    let message = format!("{} `{path}`: {problem}", from());
                    let hint = match problem {
                        FileReadProblem::TooLarge { .. } => {
                            "`contextFiles` may be larger; or raise `limits.max_text_file_bytes` in windlass.toml"
                        }
                        _ => "refer to a text file",
                    };
                    self.error(codes::FILE_REFERENCE, span, message, hint);
                    return None;
                }
            };
            let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
            match text.trim().strip_prefix('@').filter(|rest| !rest.contains('\n')) {
                Some(next) => {
                    chain.push(found);
                    path = next.trim().to_owned();
                }
                None => return Some(text),
            }
        }
    }

    /// Reports a missing file: an error before a run, a warning if the workflow is only checked, possibly without its
    /// files.
    pub(crate) fn missing_file(&mut self, problem: &FileReadProblem, span: Span, message: String, hint: &str) {
        match *problem == FileReadProblem::Missing && !self.options.strict_files {
            true => self.warning(codes::MISSING_FILE, span, message + "; `windlass run` rejects this", hint),
            false => self.error(codes::FILE_REFERENCE, span, message, hint),
        }
    }

    fn folder_unknown(&mut self, path: &str, written: &SpannedText, span: Span) -> Option<String> {
        let message = format!("the file `{path}` cannot be read: the folder of this workflow is not known");
        let hint = "run the workflow from a file, not from standard input";
        self.missing_file(&FileReadProblem::Missing, span, message, hint);
        Some(written.text.clone())
    }
}
