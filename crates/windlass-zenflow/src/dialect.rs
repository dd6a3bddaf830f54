//! The zenflow dialect in the registry of dialects.

use std::rc::Rc;
use std::sync::Arc;

use windlass_core::plan::Plan;
use windlass_dialect::{
    CompileContext, CompileProblems, CompiledDefinition, Detection, Dialect, InputWarning, ParsedSource, ParsedTree,
    ReportDetail, ReportEntry, ReportSection, unused_inputs,
};
use windlass_expr::cel::CelLanguage;
use windlass_syntax::YamlRules;
use windlass_value::{Language, Value};

use crate::{ZenflowOptions, compile_tree, is_json, recognise, schema, with_conformance_names};

/// The zenflow dialect. Its own options are [`ZenflowOptions`]; those shared with the context come from the context.
#[derive(Clone, Copy, Debug, Default)]
pub struct Zenflow;

impl Dialect for Zenflow {
    fn name(&self) -> &'static str {
        "zenflow"
    }

    fn describe(&self) -> &'static str {
        "YAML or JSON with a `name` and `steps`"
    }

    fn detect(&self, reading: &ParsedSource<'_>) -> Detection {
        let parsed = parse_raw(reading);
        let mentions = || !reading.looks_like_json() && reading.has_line(&["steps:", "agents:"]);
        match &parsed.tree {
            Some(tree) if recognise(tree) => Detection::Yes,
            _ if parsed.diagnostics.has_errors() && mentions() => Detection::Broken,
            _ => Detection::No,
        }
    }

    fn compile(
        &self,
        reading: &ParsedSource<'_>,
        context: &CompileContext,
    ) -> Result<CompiledDefinition, CompileProblems> {
        let ParsedTree { tree, diagnostics: found } = parse_normalized(reading);
        match tree {
            Some(tree) => compile_tree(reading.source, &tree, found, &options(context)),
            None => Err(found.into()),
        }
    }

    /// Returns only CEL: the caller that provides agents adds the language of agents.
    fn languages(&self) -> Vec<Arc<dyn Language>> {
        vec![Arc::new(CelLanguage)]
    }

    /// Warns about undeclared inputs, which no step sees. `context` is set by the command line.
    fn check_input(&self, plan: &Plan, input: &Value) -> Vec<InputWarning> {
        let mut unused = unused_inputs(plan, input, |key| key == "context");
        if plan.parameters.is_empty() && input.as_map().is_some() {
            let hint = "it has no inputs: declare them under `x-windlass: {inputs: {name: default}}`";
            unused.iter_mut().for_each(|warning| warning.hint = hint.to_owned());
        }
        unused
    }

    /// Reports the answers of agents: that of the last completed step in full, earlier ones shortened.
    fn report(&self, _: &Plan, output: &Value) -> Vec<ReportSection> {
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let Some(steps) = output.get("steps").and_then(Value::as_map) else { return Vec::new() };
        let completed = steps.iter().filter(|(_, step)| text(step, "status").as_deref() == Some("completed"));
        let completed: Vec<(&Arc<str>, &Value)> = completed.collect();
        let content = |step: &Value| step.get("content").filter(|content| content.as_str() != Some("")).cloned();
        let result = |step: &Value| step.get("result").filter(|result| !result.is_null()).cloned();
        let entry = |name: &Arc<str>, value, detail| ReportEntry { name: name.to_string(), value, detail };
        let mut sections = Vec::new();
        if let Some(((name, last), before)) = completed.split_last() {
            let glance = |(name, step): &(&Arc<str>, &Value)| {
                Some(entry(name, content(step).or_else(|| result(step))?, ReportDetail::OneLine))
            };
            let whole = [content(last), result(last)].into_iter().flatten();
            let whole = whole.map(|value| entry(name, value, ReportDetail::FullText));
            let entries: Vec<_> = before.iter().filter_map(glance).chain(whole).collect();
            sections.extend((!entries.is_empty()).then_some(ReportSection { heading: Some("answers"), entries }));
        }
        if text(output, "status").as_deref() == Some("partial") {
            let of = if steps.len() == 1 { "1 step".to_owned() } else { format!("{} steps", steps.len()) };
            let partial = format!("{} of {of} completed", completed.len());
            sections.push(ReportSection::single("partial", partial, ReportDetail::Full));
        }
        let summary = text(output, "summary");
        sections.extend(summary.map(|summary| ReportSection::single("summary", summary, ReportDetail::FullText)));
        sections
    }

    fn has_agents(&self) -> bool {
        true
    }

    fn includes_files(&self) -> bool {
        true
    }

    fn sample(&self) -> &'static str {
        "name: hello
steps:
  - id: greet
    instructions: Say hello to the world in one sentence.
"
    }

    fn schema(&self) -> Option<&'static str> {
        Some(schema())
    }
}

/// Parses with this dialect's YAML rules, which differ from those of other dialects.
fn parse_raw(reading: &ParsedSource<'_>) -> Rc<ParsedTree> {
    match is_json(reading.source) {
        true => reading.json(),
        false => reading.yaml(YamlRules::GO),
    }
}

fn parse_normalized(reading: &ParsedSource<'_>) -> ParsedTree {
    let parsed = parse_raw(reading);
    ParsedTree { tree: parsed.tree.clone(), diagnostics: with_conformance_names(parsed.diagnostics.clone()) }
}

fn options(context: &CompileContext) -> ZenflowOptions {
    let own = context.options.get::<ZenflowOptions>().cloned().unwrap_or_default();
    ZenflowOptions {
        limits: context.limits.clone(),
        folder: context.folder.clone(),
        files: context.files.clone(),
        registered: context.registered.clone(),
        mocked_steps: context.mocked_steps.clone(),
        ..own
    }
}
