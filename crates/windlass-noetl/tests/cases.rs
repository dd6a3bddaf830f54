//! A case is a file: `cases/ok/*.yaml` with the plan beside it, `cases/bad/*.yaml` with what is said about it.
//! `UPDATE=1 cargo test` writes what came out; then read the difference.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use windlass_core::plan::Plan;
use windlass_core::{Limits, Program};
use windlass_expr::jinja::Jinja;
use windlass_noetl::{Compiled, Options, Registered, compile, read, recognise, tool_kinds};
use windlass_syntax::{Colour, Diagnostics, Source};
use windlass_value::Language;

fn options(path: &Path) -> Options {
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    Options {
        name,
        tools: ["http_call", "postgres", "sqlite", "python", "shell"].map(str::to_owned).to_vec(),
        aliases: Some(["pg_main", "postgres", "api"].map(str::to_owned).to_vec()),
        registered: Registered {
            functions: ["price", "score"].map(str::to_owned).to_vec(),
            definitions: vec!["orders".to_owned()],
        },
        ..Options::default()
    }
}

fn source(path: &Path) -> Source {
    let text = fs::read_to_string(path).unwrap();
    Source::new(path.file_name().unwrap().to_string_lossy(), text)
}

fn cases(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(folder);
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml" || extension == "json"));
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
fn good_playbooks_compile_to_their_plans() {
    let mut failures = Vec::new();
    for path in cases("ok") {
        let source = source(&path);
        let text = match compile(&source, &options(&path)) {
            Ok(Compiled { plan, warnings, calls }) => {
                well_formed(&plan);
                load(&plan);
                let calls: String = calls.iter().map(|(name, _)| format!("calls {name}\n")).collect();
                let said =
                    if warnings.is_empty() { String::new() } else { warnings.render(&source, Colour::Never) + "\n" };
                support::summary(&plan) + &calls + &said
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
fn bad_playbooks_are_refused_with_their_reasons() {
    let mut failures = Vec::new();
    for path in cases("bad") {
        let source = source(&path);
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
        assert!(problem.hint.is_some(), "{problem:?}");
        assert!(problem.span.start <= problem.span.end && problem.span.end <= source.text.len(), "{problem:?}");
    }
}

/// Cut anywhere, a playbook is refused or compiled; nothing panics, and the same text says the same.
#[test]
fn half_a_playbook_does_no_harm() {
    for path in cases("ok") {
        let whole = source(&path).text.to_string();
        let ends = whole.char_indices().map(|(at, _)| at).filter(|at| at % 53 == 0);
        for end in ends {
            let source = Source::new("half.yaml", &whole[..end]);
            let told = |result: Result<Compiled, Diagnostics>| {
                result.map(|good| good.plan.nodes.len()).map_err(|bad| bad.render(&source, Colour::Never))
            };
            assert_eq!(told(compile(&source, &options(&path))), told(compile(&source, &options(&path))));
        }
    }
}

#[test]
fn playbooks_are_recognised() {
    for (text, is) in [
        ("apiVersion: noetl.io/v2\n", true),
        ("kind: Playbook\n", true),
        ("workflow:\n  - step: start\n", true),
        (r#"{"workflow": [{"step": "start"}]}"#, true),
        ("kind: Deployment\napiVersion: apps/v1\n", false),
        ("workflow:\n  steps: []\n", false),
        ("- 1\n", false),
    ] {
        let source = Source::new("a.yaml", text);
        let tree = read(&source, &Limits::default(), &mut Diagnostics::new()).unwrap();
        assert_eq!(recognise(&tree), is, "{text}");
    }
}

#[test]
fn kinds_are_listed_once() {
    let mut kinds = tool_kinds();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), tool_kinds().len());
}

fn load(plan: &Plan) {
    let languages: [&dyn Language; 1] = [&Jinja];
    Program::load(plan.clone(), &languages, Limits::default()).unwrap();
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
