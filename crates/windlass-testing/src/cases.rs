//! Tests of dialects: a case is a file, and what comes out of it stands beside it.
//!
//! A case that compiles has what it became beside it, one that does not has what is said about it (`.txt`).
//! `UPDATE=1 cargo test` writes what came out; then read the difference.

use std::fs;
use std::path::{Path, PathBuf};

use windlass_core::plan::Plan;
use windlass_syntax::{Colour, Diagnostics, Source};

/// The cases of a crate: the folders below its `tests/cases`.
pub struct Cases {
    root: PathBuf,
    /// Every problem says what to do about it.
    hints: bool,
}

impl Cases {
    /// `manifest` is the crate's folder: `env!("CARGO_MANIFEST_DIR")`.
    pub fn of(manifest: &str) -> Cases {
        Cases { root: Path::new(manifest).join("tests/cases"), hints: true }
    }

    /// Some problems speak for themselves.
    #[must_use]
    pub fn without_required_hints(self) -> Cases {
        Cases { hints: false, ..self }
    }

    /// The files of a folder that are cases, in order. Folders in it are for what the cases need.
    pub fn each(&self, folder: &str) -> Vec<(PathBuf, Source)> {
        let folder = self.root.join(folder);
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
        let is_case = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "json" || ending == "yaml");
        paths.retain(|path| is_case(path) && path.is_file());
        paths.sort();
        paths.into_iter().map(|path| (path.clone(), source(&path))).collect()
    }

    /// Every case compiles; what `tell` makes of it is what stands beside it. An error is what was said instead.
    pub fn good(&self, folder: &str, ending: &str, mut tell: impl FnMut(&Path, &Source) -> Result<String, String>) {
        let mut failures = Vec::new();
        for (path, source) in self.each(folder) {
            match tell(&path, &source) {
                Ok(text) => compare(&path.with_extension(ending), &text, &mut failures),
                Err(said) => failures.push(format!("{} does not compile:\n{said}", path.display())),
            }
        }
        assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    }

    /// No case compiles, and every problem helps; `try_it` gives the problems, by file.
    pub fn bad(&self, folder: &str, mut try_it: impl FnMut(&Path, &Source) -> Option<Vec<(Source, Diagnostics)>>) {
        let mut failures = Vec::new();
        for (path, source) in self.each(folder) {
            match try_it(&path, &source) {
                None => failures.push(format!("{} compiles", path.display())),
                Some(problems) => {
                    problems.iter().for_each(|(source, problems)| every_problem_helps(problems, source, self.hints));
                    compare(&path.with_extension("txt"), &said(&problems), &mut failures);
                }
            }
        }
        assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    }

    /// Cut anywhere, a file is refused or compiled; nothing panics, and the same text says the same.
    pub fn halves(&self, folder: &str, step: usize, mut tell: impl FnMut(&Path, &Source) -> String) {
        for (path, source) in self.each(folder) {
            let whole = source.text;
            for end in whole.char_indices().map(|(at, _)| at).filter(|at| at % step == 0) {
                let half = Source::new(source.name.clone(), &whole[..end]);
                assert_eq!(tell(&path, &half), tell(&path, &half));
            }
        }
    }
}

/// A file under its bare name.
pub(crate) fn source(path: &Path) -> Source {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Source::new(path.file_name().unwrap_or_default().to_string_lossy(), text)
}

/// What is told of some files, as people read it.
pub fn said(problems: &[(Source, Diagnostics)]) -> String {
    let told = problems.iter().filter(|(_, found)| !found.is_empty());
    told.map(|(source, found)| found.render(source, Colour::Never) + "\n").collect()
}

/// Compares with the file beside the case, or writes it.
pub(crate) fn compare(beside: &Path, actual: &str, failures: &mut Vec<String>) {
    if std::env::var_os("UPDATE").is_some()
        && let Err(error) = fs::write(beside, actual)
    {
        failures.push(format!("{}: {error}", beside.display()));
    }
    let expected = fs::read_to_string(beside).unwrap_or_default();
    if expected != actual {
        failures.push(format!("{}\n--- expected\n{expected}\n--- actual\n{actual}", beside.display()));
    }
}

/// Every problem has a code and a place in its file, and says what to do.
fn every_problem_helps(problems: &Diagnostics, source: &Source, hints: bool) {
    for problem in problems.iter() {
        let own =
            problem.code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') && !problem.code.is_empty();
        assert!(problem.code.starts_with("WND-1") || own, "{problem:?}");
        assert!(problem.hint.is_some() || !hints, "{problem:?}");
        assert!(problem.span.start <= problem.span.end && problem.span.end <= source.text.len(), "{problem:?}");
    }
}

/// What the reducer takes for granted.
pub fn well_formed(plan: &Plan) {
    for (index, node) in plan.nodes.iter().enumerate() {
        for child in node.kind.children() {
            assert!(child.0 as usize > index, "parents come before their children");
            assert_eq!(plan.node(child).parent.map(|parent| parent.0 as usize), Some(index));
        }
        assert_eq!(node.parent.is_none(), plan.root.0 as usize == index);
    }
}
