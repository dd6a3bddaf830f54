//! The dialects: text to plan.

use std::sync::Arc;

use windlass_core::{Limits, Program};
use windlass_dialect::{CompileContext, Dialect, ParsedSource};
use windlass_runtime::codec::{decode_plan, encode_plan};
use windlass_syntax::{Colour, Diagnostics, SourceText};
use windlass_value::Language;

pub(crate) fn loom(data: &[u8]) {
    compile(&windlass_loom::Loom, data);
}

pub(crate) fn noetl(data: &[u8]) {
    compile(&windlass_noetl::Noetl, data);
}

pub(crate) fn zenflow(data: &[u8]) {
    compile(&windlass_zenflow::Zenflow, data);
}

/// Compiling twice gives the same plan or the same problems; a plan survives its encoding, and loads.
fn compile(dialect: &dyn Dialect, data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let tools = ["http", "http_call", "model", "agent_model", "agent_tool", "agent_files", "noop", "shell", "python"];
    let sql = ["postgres", "sqlite", "duckdb"];
    let tools = tools.into_iter().chain(sql).map(str::to_owned).collect();
    let context = CompileContext { tools, ..CompileContext::default() };
    let source = SourceText::new("fuzz", text);
    let reading = ParsedSource::new(&source, &context.limits);
    dialect.detect(&reading);
    let once = || match dialect.compile(&reading, &context) {
        Ok(compiled) => Ok((encode_plan(&compiled.plan), compiled.warnings.render(&source, Colour::Never))),
        Err(problems) => Err(render(&problems.own, &source)),
    };
    let first = once();
    assert!(first == once(), "the second compilation differs");
    if let Ok((bytes, _)) = first {
        let plan = decode_plan(&bytes).unwrap_or_else(|error| panic!("the plan cannot be decoded: {error}"));
        assert!(encode_plan(&plan) == bytes, "the plan changes when it is decoded and encoded");
        if plan.pins.is_empty() {
            let languages = languages(dialect);
            let languages: Vec<&dyn Language> = languages.iter().map(|language| &**language).collect();
            Program::load(plan, &languages, Limits::default()).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

fn render(problems: &Diagnostics, source: &SourceText) -> String {
    assert!(problems.has_errors(), "it is refused without a reason");
    problems.render(source, Colour::Never)
}

/// Returns all languages that plans of a dialect use.
fn languages(dialect: &dyn Dialect) -> Vec<Arc<dyn Language>> {
    let mut languages = dialect.languages();
    languages.push(Arc::new(windlass_expr::steps::StepsLanguage));
    languages.push(Arc::new(windlass_agents::language::AgentLanguage));
    languages
}
