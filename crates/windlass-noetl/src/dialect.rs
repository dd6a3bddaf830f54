//! Registers NoETL as a dialect.

use std::rc::Rc;
use std::sync::Arc;

use windlass_core::plan::Plan;
use windlass_dialect::{
    CompileContext, CompileProblems, CompiledDefinition, Detection, Dialect, InputWarning, ParsedSource, ParsedTree,
    unused_inputs, written_expressions,
};
use windlass_expr::jinja::JinjaLanguage;
use windlass_syntax::{ScalarRules, Span};
use windlass_value::{Language, Value};

use crate::{NoetlOptions, compile_tree, find_calls, recognise};

/// The NoETL dialect. Its own options are [`NoetlOptions`]; options that the context also has come from the context.
#[derive(Clone, Copy, Debug, Default)]
pub struct Noetl;

impl Dialect for Noetl {
    fn name(&self) -> &'static str {
        "noetl"
    }

    fn describe(&self) -> &'static str {
        "YAML with `apiVersion: noetl.io/v2` and a `workflow` of steps"
    }

    fn detect(&self, reading: &ParsedSource<'_>) -> Detection {
        let parsed = parse_reading(reading);
        let mentions = || reading.is_too_large() || reading.has_line(&["apiVersion:", "kind:", "workflow:"]);
        match &parsed.tree {
            Some(tree) if recognise(tree) => Detection::Yes,
            _ if !reading.looks_like_json() && parsed.diagnostics.has_errors() && mentions() => Detection::Broken,
            _ => Detection::No,
        }
    }

    fn compile(
        &self,
        reading: &ParsedSource<'_>,
        context: &CompileContext,
    ) -> Result<CompiledDefinition, CompileProblems> {
        let parsed = parse_reading(reading);
        match &parsed.tree {
            Some(tree) => Ok(compile_tree(reading.source, tree, parsed.diagnostics.clone(), &options(context))?),
            None => Err(parsed.diagnostics.clone().sorted().into()),
        }
    }

    fn calls(&self, reading: &ParsedSource<'_>, context: &CompileContext) -> Vec<(String, Span)> {
        find_calls(reading.source, &options(context))
    }

    fn languages(&self) -> Vec<Arc<dyn Language>> {
        vec![Arc::new(JinjaLanguage)]
    }

    /// Warns about unused inputs. A template may use an undeclared name, and one that reads the whole workload may read
    /// anything.
    fn check_input(&self, plan: &Plan, input: &Value) -> Vec<InputWarning> {
        let named = |key: &str| written_expressions(plan).any(|text| words(&text).any(|(word, _)| word == key));
        let unused = unused_inputs(plan, input, named);
        match unused.is_empty()
            || plan.parameters.is_empty()
            || written_expressions(plan).any(|text| reads_all_inputs(&text))
        {
            true => Vec::new(),
            false => unused,
        }
    }

    fn sample(&self) -> &'static str {
        "apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: hello}
workload: {name: world}
workflow:
  - step: start
    tool: {kind: noop, result: {greeting: 'Hello, {{ name }}'}}
"
    }
}

fn parse_reading(reading: &ParsedSource<'_>) -> Rc<ParsedTree> {
    match reading.looks_like_json() {
        true => reading.json(),
        false => reading.yaml(ScalarRules::Yaml11),
    }
}

fn options(context: &CompileContext) -> NoetlOptions {
    let own = context.options.get::<NoetlOptions>();
    let functions = own.map(|own| own.registered.functions.clone()).unwrap_or_default();
    let mut registered = context.registered.clone();
    registered.functions.extend(functions);
    NoetlOptions {
        limits: context.limits.clone(),
        name: context.name.clone(),
        tools: own.map_or(&context.tools, |own| &own.tools).clone(),
        aliases: own.and_then(|own| own.aliases.clone()),
        registered,
        mocked_steps: context.mocked_steps.clone(),
    }
}

/// Returns the words of an expression, each with the text after it.
fn words(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|letter| !part(letter));
        let end = rest.find(|letter| !part(letter)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        (!word.is_empty()).then_some((word, after))
    })
}

/// Reports whether an expression reads all inputs: `workload` or `payload` without a name after it.
fn reads_all_inputs(text: &str) -> bool {
    words(text).any(|(word, after)| matches!(word, "workload" | "payload") && !after.starts_with('.'))
}
