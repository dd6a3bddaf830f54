//! A case is a file: `cases/ok/*.json` with the plan beside it, `cases/bad/*.json` with what is said about it.
//! `UPDATE=1 cargo test` writes what came out; then read the difference.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use windlass_core::plan::Plan;
use windlass_core::{Limits, Program};
use windlass_expr::wdl::Wdl;
use windlass_loom::{Compiled, Options, compile};
use windlass_syntax::{Colour, Diagnostics, Source};

fn options(path: &Path) -> Options {
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    Options { name, tools: vec!["http".into(), "echo".into(), "search".into()], ..Options::default() }
}

fn read(path: &Path) -> Source {
    let text = fs::read_to_string(path).unwrap();
    Source::new(path.file_name().unwrap().to_string_lossy(), text)
}

fn cases(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(folder);
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    paths
}

/// Compares with the file beside the case, or writes it.
fn check(path: &Path, extension: &str, actual: &str, failures: &mut Vec<String>) {
    let expected_path = path.with_extension(extension);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&expected_path, actual).unwrap();
    }
    let expected = fs::read_to_string(&expected_path).unwrap_or_default();
    if expected != actual {
        failures.push(format!("{}\n--- expected\n{expected}\n--- actual\n{actual}", path.display()));
    }
}

#[test]
fn good_definitions_compile_to_their_plans() {
    let mut failures = Vec::new();
    for path in cases("ok") {
        let source = read(&path);
        let text = match compile(&source, &options(&path)) {
            Ok(Compiled { plan, warnings }) => {
                well_formed(&plan);
                Program::load(plan.clone(), &[&Wdl], Limits::default()).unwrap();
                let said =
                    if warnings.is_empty() { String::new() } else { warnings.render(&source, Colour::Never) + "\n" };
                support::summary(&plan) + &said
            }
            Err(problems) => problems.render(&source, Colour::Never) + "\n",
        };
        if text.contains("error[") {
            failures.push(format!("{} does not compile:\n{text}", path.display()));
            continue;
        }
        check(&path, "plan", &text, &mut failures);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn bad_definitions_are_refused_with_their_reasons() {
    let mut failures = Vec::new();
    for path in cases("bad") {
        let source = read(&path);
        match compile(&source, &options(&path)) {
            Ok(_) => failures.push(format!("{} compiles", path.display())),
            Err(problems) => {
                every_problem_helps(&problems, &source);
                check(&path, "txt", &(problems.render(&source, Colour::Never) + "\n"), &mut failures);
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

fn every_problem_helps(problems: &Diagnostics, source: &Source) {
    for problem in problems.iter() {
        assert!(problem.code.starts_with("WND-1"), "{problem:?}");
        assert!(problem.span.start <= problem.span.end && problem.span.end <= source.text.len(), "{problem:?}");
    }
}

/// What the reducer takes for granted.
fn well_formed(plan: &Plan) {
    for (index, node) in plan.nodes.iter().enumerate() {
        for child in node.kind.children() {
            assert!(child.0 as usize > index, "parents come before their children");
            assert_eq!(plan.node(child).parent.map(|parent| parent.0 as usize), Some(index));
        }
        assert_eq!(node.parent.is_none(), plan.root.0 as usize == index);
    }
}
