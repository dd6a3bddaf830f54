//! `@path`: a text that stands in a file. The file may refer to another one.

use std::path::PathBuf;

use windlass_dialect::Findings;
use windlass_syntax::{Span, Text};

use super::Reader;
use crate::codes;
use crate::paths::{self, Trouble};
use windlass_dialect::FileProblem;

impl Reader<'_> {
    /// The text of the file, or of the file that it refers to.
    pub(crate) fn referred(&mut self, path: &str, written: &Text, span: Span, what: &str) -> Option<String> {
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
                self.error(codes::VALIDATION, span, format!("{} no file: `@` stands alone", from()), hint);
                return None;
            }
            if chain.len() == max_depth {
                let message = format!("`{what}` goes through more than {max_depth} files, each referring to the next");
                let hint = "refer to the last of them, or raise `limits.max_text_file_depth` in windlass.toml";
                self.error(codes::VALIDATION, span, message, hint);
                return None;
            }
            let Some(folder) = self.folder else {
                if let Err(why) = paths::tidied(&path) {
                    self.error(codes::VALIDATION, span, format!("{} `{path}`, which {why}", from()), paths::HINT);
                    return None;
                }
                return self.cannot_look(&path, written, span);
            };
            let found = match folder.find(&path) {
                Ok(found) => found,
                Err(Trouble::Written(why)) => {
                    self.error(codes::VALIDATION, span, format!("{} `{path}`, which {why}", from()), paths::HINT);
                    return None;
                }
                Err(Trouble::Outside) => {
                    let message = format!("{} `{path}`, a link that leads out of the workflow's folder", from());
                    self.error(codes::VALIDATION, span, message, paths::HINT);
                    return None;
                }
                Err(Trouble::File(FileProblem::NobodyLooks)) => return self.cannot_look(&path, written, span),
                Err(Trouble::File(problem)) => {
                    let message = format!("{} `{path}`: {problem}", from());
                    let hint =
                        "the path is relative to the workflow's folder; a text that is meant does not begin with `@`";
                    self.not_there(&problem, span, message, hint);
                    return Some(written.text.clone());
                }
            };
            if chain.contains(&found) {
                let message = format!("{} `{path}`, which leads back to it", from());
                self.error(codes::VALIDATION, span, message, "write the text into one of the files");
                return None;
            }
            let text = match folder.files.read(&found, max_bytes).map(String::from_utf8) {
                Ok(Ok(text)) => text,
                Ok(Err(_)) => {
                    let message = format!("{} `{path}`, which is not UTF-8 text", from());
                    self.error(
                        codes::VALIDATION,
                        span,
                        message,
                        "only texts can be referred to; `contextFiles` may be anything",
                    );
                    return None;
                }
                Err(problem) => {
                    let message = format!("{} `{path}`: {problem}", from());
                    let hint = match problem {
                        FileProblem::TooLarge { .. } => {
                            "`contextFiles` may be larger; or raise `limits.max_text_file_bytes` in windlass.toml"
                        }
                        _ => "refer to a text file",
                    };
                    self.error(codes::VALIDATION, span, message, hint);
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

    /// A file that is not there stops a run; whoever only checks may have the workflow without its files.
    pub(crate) fn not_there(&mut self, problem: &FileProblem, span: Span, message: String, hint: &str) {
        match *problem == FileProblem::Missing && !self.options.strict_files {
            true => self.warning(codes::MISSING_FILE, span, message + "; a run would stop here", hint),
            false => self.error(codes::VALIDATION, span, message, hint),
        }
    }

    fn cannot_look(&mut self, path: &str, written: &Text, span: Span) -> Option<String> {
        let message = format!("the file `{path}` cannot be read: the folder of this workflow is not known");
        let hint = "run the workflow from a file, not from standard input";
        self.not_there(&FileProblem::Missing, span, message, hint);
        Some(written.text.clone())
    }
}
