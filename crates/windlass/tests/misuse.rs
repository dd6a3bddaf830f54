//! Misuse of the macros does not compile, and the compiler's message at the author's own code says what to do.
//!
//! A case is a file in `misuse`, next to the expected messages. `UPDATE=1 cargo test -p windlass --test misuse` rewrites
//! them; review the difference. Parts of them are the wording of the compiler (1.95), which may differ in another
//! version.
//!
//! The cases are compiled by `rustc` against the library that this test is linked with. The crate `trybuild` would
//! check all dependencies once more for its own project, which takes two minutes on two cores.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A program that uses the macros correctly: it must compile, or the failures of the others prove nothing.
const CORRECT_USE: &str = "tests/misuse/correct/correct.rs";

#[test]
fn misuse_does_not_compile() {
    let compiler = CaseCompiler::find();
    let mut cases: Vec<PathBuf> =
        std::fs::read_dir("tests/misuse").unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    cases.sort();
    assert!(!cases.is_empty(), "tests/misuse has no cases");
    let wrong: Vec<String> = cases.iter().filter_map(|case| compiler.difference(case)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The compiler, with the libraries that the cases use.
struct CaseCompiler {
    libraries: PathBuf,
    windlass: PathBuf,
    serde: PathBuf,
}

impl CaseCompiler {
    /// Finds the libraries next to this test program. Builds with other features leave libraries of the same name
    /// there: the newest pair that compiles a correct program is used.
    fn find() -> CaseCompiler {
        let program = std::env::current_exe().unwrap();
        let libraries = program.parent().unwrap().to_owned();
        let (windlass, serde) = (newest_first(&libraries, "libwindlass-"), newest_first(&libraries, "libserde-"));
        let mut last = None;
        for windlass in &windlass {
            for serde in &serde {
                let compiler =
                    CaseCompiler { libraries: libraries.clone(), windlass: windlass.clone(), serde: serde.clone() };
                let output = compiler.compile(Path::new(CORRECT_USE));
                if output.status.success() {
                    return compiler;
                }
                last = Some(String::from_utf8_lossy(&output.stderr).into_owned());
            }
        }
        panic!("{CORRECT_USE} does not compile with any library in {}: {last:?}", libraries.display());
    }

    fn compile(&self, case: &Path) -> Output {
        let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        command.args(["--edition=2024", "--crate-type=bin", "--emit=metadata", "--error-format=json"]);
        command.args(["--out-dir", env!("CARGO_TARGET_TMPDIR")]);
        for (name, library) in [("windlass", &self.windlass), ("serde", &self.serde)] {
            command.arg("--extern").arg(format!("{name}={}", library.display()));
        }
        command.arg("-L").arg(format!("dependency={}", self.libraries.display()));
        command.arg(case).output().unwrap()
    }

    /// Compares the messages about a case with the expected ones.
    fn difference(&self, case: &Path) -> Option<String> {
        let output = self.compile(case);
        if output.status.success() {
            return Some(format!("{} compiles", case.display()));
        }
        let messages = messages(&String::from_utf8_lossy(&output.stderr));
        let file = case.with_extension("stderr");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&file, messages).unwrap();
            return None;
        }
        let expected = std::fs::read_to_string(&file).unwrap_or_default();
        (messages != expected).then(|| format!("{}:\n{messages}--- expected:\n{expected}", case.display()))
    }
}

/// Returns the libraries of this name, the newest first.
fn newest_first(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let named = entries.filter(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with(prefix) && name.to_string_lossy().ends_with(".rlib")
    });
    let mut found: Vec<_> = named.map(|entry| (entry.metadata().unwrap().modified().unwrap(), entry.path())).collect();
    found.sort();
    found.into_iter().rev().map(|(_, path)| path).collect()
}

/// Formats the compiler's messages: the position in the case, the text, the labels, and the notes and hints.
fn messages(diagnostics: &str) -> String {
    let mut text = String::new();
    for line in diagnostics.lines() {
        let diagnostic: Value = serde_json::from_str(line).unwrap();
        let spans = diagnostic["spans"].as_array().unwrap();
        // Lines without a position only count the errors and name `rustc --explain`.
        let Some(primary) = spans.iter().find(|span| span["is_primary"] == true) else { continue };
        let level = diagnostic["level"].as_str().unwrap();
        text += &format!("{level} at {}: {}\n", position(primary), diagnostic["message"].as_str().unwrap());
        for span in spans.iter().filter(|span| span["label"].is_string()) {
            text += &format!("  {}: {}\n", position(span), span["label"].as_str().unwrap());
        }
        for child in diagnostic["children"].as_array().unwrap() {
            text += &format!("  {}: {}\n", child["level"].as_str().unwrap(), child["message"].as_str().unwrap());
        }
    }
    text
}

fn position(span: &Value) -> String {
    let file = span["file_name"].as_str().unwrap();
    match file.starts_with("tests/misuse/") {
        true => format!("{}:{}", span["line_start"], span["column_start"]),
        // The library's own lines move with every change.
        false => file.to_owned(),
    }
}
