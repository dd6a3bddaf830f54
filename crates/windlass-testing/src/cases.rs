//! Snapshot tests of dialects: a case is a file, and its expected output is the file next to it.
//!
//! Next to a case that compiles is its compiled form; next to one that does not are its problems (`.txt`).
//! `UPDATE=1 cargo test` writes the actual output; then review the diff.

use std::fs;
use std::path::{Path, PathBuf};

use windlass_core::plan::Plan;
use windlass_syntax::{Colour, Diagnostics, SourceText};

/// The cases of a crate: the folders below its `tests/cases`.
pub struct Cases {
    root: PathBuf,
    /// Requires a hint for every problem.
    hints: bool,
}

impl Cases {
    /// Opens the cases of a crate; `manifest` is its folder: `env!("CARGO_MANIFEST_DIR")`.
    pub fn in_crate(manifest: &str) -> Cases {
        Cases { root: Path::new(manifest).join("tests/cases"), hints: true }
    }

    /// Accepts problems without a hint.
    #[must_use]
    pub fn without_required_hints(self) -> Cases {
        Cases { hints: false, ..self }
    }

    /// Returns the cases of a folder in order. Folders in it contain files that the cases need.
    pub fn load(&self, folder: &str) -> Vec<(PathBuf, SourceText)> {
        let folder = self.root.join(folder);
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
        let is_case = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "json" || ending == "yaml");
        paths.retain(|path| is_case(path) && path.is_file());
        paths.sort();
        paths.into_iter().map(|path| (path.clone(), read_source(&path))).collect()
    }

    /// Asserts that every case compiles and that the output of `render` equals the file next to it. An error of
    /// `render` contains the problems.
    pub fn assert_compiles(
        &self,
        folder: &str,
        ending: &str,
        mut render: impl FnMut(&Path, &SourceText) -> Result<String, String>,
    ) {
        let mut failures = Vec::new();
        for (path, source) in self.load(folder) {
            match render(&path, &source) {
                Ok(text) => compare_or_update(&path.with_extension(ending), &text, &mut failures),
                Err(problems) => failures.push(format!("{} does not compile:\n{problems}", path.display())),
            }
        }
        assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    }

    /// Asserts that no case compiles and that every problem is well-formed; `compile` returns the problems by file.
    pub fn assert_rejected(
        &self,
        folder: &str,
        mut compile: impl FnMut(&Path, &SourceText) -> Option<Vec<(SourceText, Diagnostics)>>,
    ) {
        let mut failures = Vec::new();
        for (path, source) in self.load(folder) {
            match compile(&path, &source) {
                None => failures.push(format!("{} compiles", path.display())),
                Some(problems) => {
                    problems.iter().for_each(|(source, problems)| check_problems(problems, source, self.hints));
                    compare_or_update(&path.with_extension("txt"), &render_problems(&problems), &mut failures);
                }
            }
        }
        assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    }

    /// Asserts that a file truncated anywhere is rejected or compiled without a panic, and deterministically.
    pub fn assert_truncations_are_handled(
        &self,
        folder: &str,
        step: usize,
        mut render: impl FnMut(&Path, &SourceText) -> String,
    ) {
        for (path, source) in self.load(folder) {
            let whole = source.text;
            for end in whole.char_indices().map(|(at, _)| at).filter(|at| at % step == 0) {
                let half = SourceText::new(source.name.clone(), &whole[..end]);
                assert_eq!(render(&path, &half), render(&path, &half));
            }
        }
    }
}

/// Reads a file and names it by its bare name.
pub(crate) fn read_source(path: &Path) -> SourceText {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    SourceText::new(path.file_name().unwrap_or_default().to_string_lossy(), text)
}

/// Renders the problems of some files as users see them.
pub fn render_problems(problems: &[(SourceText, Diagnostics)]) -> String {
    let reported = problems.iter().filter(|(_, found)| !found.is_empty());
    reported.map(|(source, found)| found.render(source, Colour::Never) + "\n").collect()
}

/// Compares the output with the expected file, or writes it.
pub(crate) fn compare_or_update(expected_path: &Path, actual: &str, failures: &mut Vec<String>) {
    if std::env::var_os("UPDATE").is_some()
        && let Err(error) = fs::write(expected_path, actual)
    {
        failures.push(format!("{}: {error}", expected_path.display()));
    }
    let expected = fs::read_to_string(expected_path).unwrap_or_default();
    if expected != actual {
        failures.push(format!("{}\n--- expected\n{expected}\n--- actual\n{actual}", expected_path.display()));
    }
}

/// Asserts that every problem has a code, a span inside its file, and a hint.
fn check_problems(problems: &Diagnostics, source: &SourceText, hints: bool) {
    for problem in problems.iter() {
        let own =
            problem.code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') && !problem.code.is_empty();
        assert!(problem.code.starts_with("WND-1") || own, "{problem:?}");
        assert!(problem.hint.is_some() || !hints, "{problem:?}");
        assert!(problem.span.start <= problem.span.end && problem.span.end <= source.text.len(), "{problem:?}");
    }
}

/// Asserts the invariants of a plan that the reducer relies on.
pub fn assert_well_formed(plan: &Plan) {
    for (index, node) in plan.nodes.iter().enumerate() {
        for child in node.kind.children() {
            assert!(child.0 as usize > index, "parents come before their children");
            assert_eq!(plan.node(child).parent.map(|parent| parent.0 as usize), Some(index));
        }
        assert_eq!(node.parent.is_none(), plan.root.0 as usize == index);
    }
}
