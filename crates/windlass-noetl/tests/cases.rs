//! Golden tests, one file per case: `cases/ok/*.yaml` with its plan, `cases/bad/*.yaml` with its diagnostics.
//! `UPDATE=1 cargo test` rewrites the expected files; review the difference.

use crate::support;

use std::path::Path;

use windlass_core::plan::Plan;
use windlass_core::{Limits, Program};
use windlass_expr::jinja::JinjaLanguage;
use windlass_noetl::{CompiledDefinition, NoetlOptions, RegisteredNames, compile, read, recognise, tool_kinds};
use windlass_syntax::{Diagnostics, SourceText};
use windlass_testing::cases::{Cases, assert_well_formed, render_problems};
use windlass_value::Language;

fn cases() -> Cases {
    Cases::in_crate(env!("CARGO_MANIFEST_DIR"))
}

fn options(path: &Path) -> NoetlOptions {
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    NoetlOptions {
        name,
        tools: ["http_call", "postgres", "sqlite", "python", "shell"].map(str::to_owned).to_vec(),
        aliases: Some(["pg_main", "postgres", "api"].map(str::to_owned).to_vec()),
        registered: RegisteredNames {
            functions: ["price", "score"].map(str::to_owned).to_vec(),
            definitions: vec!["orders".to_owned()],
        },
        ..NoetlOptions::default()
    }
}

#[test]
fn good_playbooks_compile_to_their_plans() {
    cases().assert_compiles("ok", "plan", |path, source| match compile(source, &options(path)) {
        Ok(CompiledDefinition { plan, warnings, calls, .. }) => {
            assert_well_formed(&plan);
            load(&plan);
            let calls: String = calls.iter().map(|(name, _)| format!("calls {name}\n")).collect();
            Ok(support::summary(&plan) + &calls + &render_problems(&[(source.clone(), warnings)]))
        }
        Err(problems) => Err(render_problems(&[(source.clone(), problems)])),
    });
}

#[test]
fn bad_playbooks_are_refused_with_their_reasons() {
    cases().assert_rejected("bad", |path, source| {
        compile(source, &options(path)).err().map(|problems| vec![(source.clone(), problems)])
    });
}

#[test]
fn half_a_playbook_does_no_harm() {
    cases().assert_truncations_are_handled("ok", 53, |path, source| match compile(source, &options(path)) {
        Ok(good) => good.plan.nodes.len().to_string(),
        Err(problems) => render_problems(&[(source.clone(), problems)]),
    });
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
        let source = SourceText::new("a.yaml", text);
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
    let languages: [&dyn Language; 1] = [&JinjaLanguage];
    Program::load(plan.clone(), &languages, Limits::default()).unwrap();
}
