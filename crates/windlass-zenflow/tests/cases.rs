//! A case is a file: `cases/good/*` with the expected document, `cases/bad/*` with the expected problems. Among the bad
//! ones, `text_*` cannot be parsed, `structure_*` are rejected by the schema of workflows too, and `meaning_*` only by
//! the checks of this crate. `check_*` are compiled with `strict_files` off. `UPDATE=1 cargo test` writes the actual
//! results; then review the difference.

use crate::support;

use std::path::Path;
use std::sync::Arc;

use windlass_core::Limits;
use windlass_syntax::{Diagnostics, SourceText, SyntaxNode, to_value};
use windlass_testing::cases::{Cases, assert_well_formed, render_problems};
use windlass_value::to_json;
use windlass_zenflow::{
    CheckedWorkflow, CompileProblems, DiskFiles, ModelPrice, ZenflowOptions, check, compile, read, recognise, schema,
};

fn cases() -> Cases {
    Cases::in_crate(env!("CARGO_MANIFEST_DIR"))
}

fn options(path: &Path) -> ZenflowOptions {
    let price = ModelPrice { input: 3_000_000, output: 15_000_000, ..ModelPrice::default() };
    ZenflowOptions {
        folder: path.parent().map(Path::to_owned),
        files: Arc::new(DiskFiles),
        tools: ["read", "write", "glob", "grep", "bash", "http"].map(str::to_owned).to_vec(),
        mcp: vec!["github".to_owned()],
        default_model: Some("small".to_owned()),
        prices: [("small", price), ("large", price)].map(|(model, price)| (model.to_owned(), price)).into(),
        strict_files: !path.file_name().unwrap().to_string_lossy().starts_with("check_"),
        ..ZenflowOptions::default()
    }
}

/// Reads and checks a case.
fn check_case(path: &Path, source: &SourceText) -> Result<CheckedWorkflow, CompileProblems> {
    let mut found = Diagnostics::new();
    match read(source, &Limits::default(), &mut found) {
        Some(tree) => check(source, &tree, found, &options(path)),
        None => Err(CompileProblems { own: found, included_files: Vec::new() }),
    }
}

fn all(
    source: &SourceText,
    own: Diagnostics,
    others: Vec<(SourceText, Diagnostics)>,
) -> Vec<(SourceText, Diagnostics)> {
    std::iter::once((source.clone(), own)).chain(others).collect()
}

#[test]
fn good_workflows_are_read_as_expected() {
    cases().assert_compiles("good", "document", |path, source| match check_case(path, source) {
        Ok(CheckedWorkflow { document, warnings, others }) => {
            assert_well_formed(&compile(source, &options(path)).unwrap().plan);
            Ok(support::summary(&document) + &render_problems(&all(source, warnings, others)))
        }
        Err(problems) => Err(render_problems(&all(source, problems.own, problems.included_files))),
    });
}

#[test]
fn bad_workflows_are_refused_with_their_reasons() {
    cases().assert_rejected("bad", |path, source| {
        check_case(path, source).err().map(|problems| all(source, problems.own, problems.included_files))
    });
}

#[test]
fn truncated_workflows_are_handled() {
    cases().assert_truncations_are_handled("good", 37, |path, source| match check_case(path, source) {
        Ok(good) => support::summary(&good.document),
        Err(problems) => render_problems(&all(source, problems.own, problems.included_files)),
    });
}

/// The schema of workflows and this crate agree on everything that a schema can express.
#[test]
fn the_schema_and_the_reader_agree() {
    let schema: serde_json::Value = serde_json::from_str(schema()).unwrap();
    let validator = jsonschema::draft202012::options().build(&schema).unwrap();
    let mut failures = Vec::new();
    for (folder, prefix, fits) in [("good", "", true), ("bad", "meaning_", true), ("bad", "structure_", false)] {
        for (path, source) in cases().load(folder) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let Some(tree) = tree(&source).filter(|_| name.starts_with(prefix)) else { continue };
            let document: serde_json::Value = serde_json::from_str(&to_json(&to_value(&tree))).unwrap();
            let errors: Vec<String> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
            if errors.is_empty() != fits {
                failures.push(format!("{name}: {errors:?}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn workflows_are_recognised() {
    for (path, source) in ["good", "bad"].into_iter().flat_map(|folder| cases().load(folder)) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if let Some(tree) = tree(&source) {
            assert_eq!(recognise(&tree), name != "structure_not_an_object.yaml", "{name}");
        }
    }
    for text in [
        "apiVersion: noetl.io/v2\nname: a\nsteps: []\n",
        "kind: Playbook\nname: a\n",
        "name: a\nworkflow:\n  - step: start\n",
        r#"{"name": "a", "definition": {"actions": {}}}"#,
        r#"{"name": "a", "type": "Http"}"#,
        "name: ci\non: push\njobs: {}\n",
        "steps:\n  - {name: gcr.io/x, args: []}\n",
        "a: 1\n",
        "- 1\n",
        "text\n",
    ] {
        let tree = tree(&SourceText::new("a.yaml", text)).unwrap();
        assert!(!recognise(&tree), "{text}");
    }
}

fn tree(source: &SourceText) -> Option<SyntaxNode> {
    read(source, &Limits::default(), &mut Diagnostics::new())
}
