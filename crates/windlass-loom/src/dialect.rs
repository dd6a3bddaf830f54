//! Registers Loom as a dialect.

use std::rc::Rc;
use std::sync::Arc;

use windlass_core::plan::Plan;
use windlass_dialect::{
    CompileContext, CompileProblems, CompiledDefinition, Detection, Dialect, InputWarning, ParsedSource, ParsedTree,
    unused_inputs, written_expressions,
};
use windlass_expr::wdl;
use windlass_syntax::ScalarRules;
use windlass_value::{Language, Value, parse_json};

use crate::{LoomOptions, compile_tree, recognise};

/// The Loom dialect. Its own options are [`LoomOptions`]; options that the context also has come from the context.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loom;

impl Dialect for Loom {
    fn name(&self) -> &'static str {
        "loom"
    }

    fn describe(&self) -> &'static str {
        "a JSON object with `actions` (or `definition`), or one action with a `type`"
    }

    fn detect(&self, reading: &ParsedSource<'_>) -> Detection {
        let parsed = parse_reading(reading);
        match &parsed.tree {
            Some(tree) if recognise(tree) => Detection::Yes,
            _ if reading.looks_like_json() && parsed.diagnostics.has_errors() => Detection::Broken,
            _ => Detection::No,
        }
    }

    fn compile(
        &self,
        reading: &ParsedSource<'_>,
        context: &CompileContext,
    ) -> Result<CompiledDefinition, CompileProblems> {
        let mut parsed = parse_reading(reading);
        // The problems of YAML that is not a definition are reported as those of the JSON that it should be.
        if !parsed.tree.as_ref().is_some_and(recognise) {
            parsed = reading.json();
        }
        match &parsed.tree {
            Some(tree) => Ok(compile_tree(reading.source, tree, parsed.diagnostics.clone(), &options(context))?),
            None => Err(parsed.diagnostics.clone().sorted().into()),
        }
    }

    fn languages(&self) -> Vec<Arc<dyn Language>> {
        wdl::languages()
    }

    /// Warns about unused inputs only if the definition declares parameters and no expression reads the trigger, which
    /// could read any input.
    fn check_input(&self, plan: &Plan, input: &Value) -> Vec<InputWarning> {
        let unused = unused_inputs(plan, input, |_| false);
        let reads_trigger = || written_expressions(plan).any(|text| text.to_lowercase().contains("trigger"));
        match unused.is_empty() || !declares_parameters(plan) || reads_trigger() {
            true => Vec::new(),
            false => unused,
        }
    }

    fn sample(&self) -> &'static str {
        r#"{
  "parameters": { "name": { "type": "String", "defaultValue": "world" } },
  "actions": {
    "greet": { "type": "compose", "inputs": "@concat('Hello, ', parameters('name'))" }
  },
  "outputs": { "greeting": { "type": "String", "value": "@outputs('greet')" } }
}
"#
    }
}

/// Parses JSON, or YAML if the text does not look like JSON.
fn parse_reading(reading: &ParsedSource<'_>) -> Rc<ParsedTree> {
    match reading.looks_like_json() {
        true => reading.json(),
        false => reading.yaml(ScalarRules::Yaml11),
    }
}

fn options(context: &CompileContext) -> LoomOptions {
    let own = context.options.get::<LoomOptions>();
    LoomOptions {
        limits: context.limits.clone(),
        name: context.name.clone(),
        tools: own.map_or(&context.tools, |own| &own.tools).clone(),
        activities: own.map(|own| own.activities.clone()).unwrap_or_default(),
        registered: context.registered.clone(),
        settings: context.settings.clone(),
        parameters: context.parameters.clone(),
        mocked_actions: context.mocked_steps.clone(),
    }
}

/// Reports whether the definition declares parameters. A single action or bare actions take everything they read from
/// the input, including variables.
fn declares_parameters(plan: &Plan) -> bool {
    let whole = parse_json(plan.source.trim_start_matches('\u{feff}')).unwrap_or_default();
    let declared = |of: &Value| matches!(of.get("parameters"), Some(Value::Map(map)) if !map.is_empty());
    declared(&whole) || whole.get("definition").is_some_and(declared)
}
