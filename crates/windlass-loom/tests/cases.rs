//! Golden tests, one file per case: `cases/ok/*.json` with its plan, `cases/bad/*.json` with its diagnostics.
//! `UPDATE=1 cargo test` rewrites the expected files; review the difference.

#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;

use windlass_core::plan::Plan;
use windlass_core::{Limits, Program};
use windlass_expr::wdl;
use windlass_loom::{ActivityTarget, CompiledDefinition, LoomActivity, LoomOptions, RegisteredNames, compile};
use windlass_testing::cases::{Cases, assert_well_formed, render_problems};
use windlass_value::Language;

fn cases() -> Cases {
    Cases::in_crate(env!("CARGO_MANIFEST_DIR"))
}

fn options(path: &Path) -> LoomOptions {
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let registered = match name.as_deref() {
        Some("registered") => RegisteredNames {
            functions: vec!["price".to_owned()],
            definitions: ["orders", "shop/orders"].map(str::to_owned).to_vec(),
        },
        _ => RegisteredNames::default(),
    };
    let activity = |name: &str, target| LoomActivity { name: name.to_owned(), target };
    LoomOptions {
        name,
        tools: ["http", "echo", "model"].map(str::to_owned).to_vec(),
        activities: vec![
            activity("search", ActivityTarget::Tool),
            activity("calculator", ActivityTarget::Tool),
            activity("processor", ActivityTarget::Tool),
            activity("archive", ActivityTarget::Workflow("archive-flow".to_owned())),
        ],
        registered,
        settings: [("base", "https://api.example.com"), ("batch", "20")]
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .into(),
        ..LoomOptions::default()
    }
}

#[test]
fn good_definitions_compile_to_their_plans() {
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
fn bad_definitions_are_refused_with_their_reasons() {
    cases().without_required_hints().assert_rejected("bad", |path, source| {
        compile(source, &options(path)).err().map(|problems| vec![(source.clone(), problems)])
    });
}

/// Loom's use cases without any configured activity: each name is refused at its position.
#[test]
fn activities_without_a_provider_are_refused() {
    let refused = |case: &str| {
        let found = cases().load("ok").into_iter().find(|(path, _)| path.ends_with(format!("{case}.json")));
        let (_, source) = found.unwrap();
        let tools = vec!["http".to_owned(), "model".to_owned()];
        let reported = match compile(&source, &LoomOptions { tools, ..LoomOptions::default() }) {
            Ok(CompiledDefinition { warnings, .. }) => warnings,
            Err(problems) => problems,
        };
        let missing_activity =
            reported.iter().filter(|problem| problem.code == "WND-1103" || problem.code == "WND-1199");
        missing_activity.map(|problem| source.text[problem.span.start..problem.span.end].to_owned()).collect::<Vec<_>>()
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

fn load(plan: &Plan) {
    let languages = wdl::languages();
    let languages: Vec<&dyn Language> = languages.iter().map(|language| &**language).collect();
    Program::load(plan.clone(), &languages, Limits::default()).unwrap();
}
