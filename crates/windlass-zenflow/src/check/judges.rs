//! Checks agents that end loops: their result must have a boolean `done`.

use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Diagnostic, Span};
use windlass_value::Value;

use crate::codes;
use crate::document::{LoopMode, WorkflowDocument, ZenflowStep};
use crate::read::DocumentReader;

const EXPECTED_SCHEMA: &str =
    "write `resultSchema: {type: object, required: [done], properties: {done: {type: boolean}}}`";

impl DocumentReader<'_> {
    pub(crate) fn check_judge(&mut self, step: &ZenflowStep, document: &WorkflowDocument) {
        let Some(LoopMode::Repeat { until_agent: Some(name), .. }) = step.repeat.as_ref().map(|repeat| &repeat.mode)
        else {
            return;
        };
        let Some(agent) = document.agent(name) else {
            let hint = self.suggestion(name, document.agents.iter().map(|agent| agent.name.as_str()));
            let message = format!("there is no agent `{}` to judge this loop", name.value);
            self.error(codes::UNTIL_AGENT, name.span, message, hint);
            return;
        };
        let mut wrong = |span: Span, why: &str| {
            let message = format!("the agent `{}` cannot judge a loop: {why}", name.value);
            let problem = Diagnostic::error(codes::JUDGE, span, message);
            self.found.push(problem.with_label(name.span, "judges this loop").with_hint(EXPECTED_SCHEMA));
        };
        let Some(schema) = &agent.result_schema else {
            return wrong(agent.name.span, "it has no `resultSchema`");
        };
        let object = schema.value.as_map();
        let part = |name: &str| object.and_then(|object| object.get(name));
        match part("properties").map(Value::as_map) {
            None => wrong(schema.span, "its `resultSchema` has no `properties`"),
            Some(None) => wrong(schema.span, "the `properties` of its `resultSchema` are not an object"),
            Some(Some(properties)) => match properties.get("done") {
                None => wrong(schema.span, "its `resultSchema` has no property `done`"),
                Some(done) => match done.as_map().map(|done| done.get("type").and_then(Value::as_str)) {
                    None => wrong(schema.span, "the property `done` of its `resultSchema` is not an object"),
                    Some(Some("boolean")) => {}
                    Some(_) => {
                        wrong(schema.span, "the property `done` of its `resultSchema` is not of `type: boolean`")
                    }
                },
            },
        }
        match part("required").map(Value::as_list) {
            None => wrong(schema.span, "its `resultSchema` does not require `done`"),
            Some(None) => wrong(schema.span, "`required` of its `resultSchema` is not a list"),
            Some(Some(names)) if names.iter().any(|name| name.as_str() == Some("done")) => {}
            Some(Some(_)) => wrong(schema.span, "its `resultSchema` does not require `done`"),
        }
    }
}
