//! A case is a file: `cases/ok/*.json` with the plan beside it, `cases/bad/*.json` with what is said about it.
//! `UPDATE=1 cargo test` writes what came out; then read the difference.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use windlass_core::plan::Plan;
use windlass_core::{Limits, Program};
use windlass_expr::wdl;
use windlass_loom::{Activity, Compiled, Options, Registered, Target, compile};
use windlass_syntax::{Colour, Diagnostics, Source};
use windlass_value::Language;

fn options(path: &Path) -> Options {
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let registered = match name.as_deref() {
        Some("registered") => Registered {
            functions: vec!["price".to_owned()],
            definitions: ["orders", "shop/orders"].map(str::to_owned).to_vec(),
        },
        _ => Registered::default(),
    };
    let activity = |name: &str, target| Activity { name: name.to_owned(), target };
    Options {
        name,
        tools: ["http", "echo", "model"].map(str::to_owned).to_vec(),
        activities: vec![
            activity("search", Target::Tool),
            activity("calculator", Target::Tool),
            activity("processor", Target::Tool),
            activity("archive", Target::Workflow("archive-flow".to_owned())),
        ],
        registered,
        settings: [("base", "https://api.example.com"), ("batch", "20")]
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .into(),
        ..Options::default()
    }
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

/// The seed's use cases without anybody to do the work: each name is refused where it stands.
#[test]
fn activities_that_nobody_gives_are_refused() {
    let refused = |case: &str| {
        let path = cases("ok").into_iter().find(|path| path.ends_with(format!("{case}.json"))).unwrap();
        let source = read(&path);
        let tools = vec!["http".to_owned(), "model".to_owned()];
        let said = match compile(&source, &Options { tools, ..Options::default() }) {
            Ok(Compiled { warnings, .. }) => warnings,
            Err(problems) => problems,
        };
        let about = said.iter().filter(|problem| problem.code == "WND-1103" || problem.code == "WND-1199");
        about.map(|problem| source.text[problem.span.start..problem.span.end].to_owned()).collect::<Vec<_>>()
    };
    for (case, names) in [
        ("seed_why_1_retry_until_success", &[][..]),
        ("seed_why_2_queue_until_empty", &["\"processor\""]),
        ("seed_why_3_paginated_calls", &[]),
        ("seed_why_4_agent_loop", &["\"@body('think').action\""]),
        ("seed_example_1_polling", &[]),
        ("seed_example_2_react_agent", &["\"search\"", "\"calculator\""]),
        ("seed_example_3_batch_pages", &["\"processor\""]),
    ] {
        assert_eq!(refused(case), names, "{case}");
    }
}

fn every_problem_helps(problems: &Diagnostics, source: &Source) {
    for problem in problems.iter() {
        assert!(problem.code.starts_with("WND-1"), "{problem:?}");
        assert!(problem.span.start <= problem.span.end && problem.span.end <= source.text.len(), "{problem:?}");
    }
}

fn load(plan: &Plan) {
    let languages = wdl::languages();
    let languages: Vec<&dyn Language> = languages.iter().map(|language| &**language).collect();
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
