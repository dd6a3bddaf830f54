//! Whether arguments fit a JSON Schema of draft 2020-12.

use std::sync::Arc;

use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::Value as Json;
use windlass_core::ErrorInfo;
use windlass_value::Value;

/// Steps that one regular expression may go back; beyond it the text counts as no match.
const PATTERN_STEPS_MAX: usize = 100_000;
/// How much of all problems a model is told.
const PROBLEMS_SHOWN: usize = 20;
const PROBLEM_CHARS: usize = 200;

pub(super) struct Schema(Arc<Validator>);

impl Schema {
    /// Nothing is ever fetched: a `$ref` to another document is an error.
    pub(super) fn compile(schema: &Value) -> Result<Schema, ErrorInfo> {
        let problem = |message: String| {
            ErrorInfo::new("BadResultSchema", "input", format!("the schema of the result is not valid: {message}"))
                .hint("it is a JSON Schema of draft 2020-12")
        };
        let schema = serde_json::to_value(schema).map_err(|error| problem(error.to_string()))?;
        let options = jsonschema::options()
            .offline()
            .with_draft(Draft::Draft202012)
            .with_pattern_options(PatternOptions::fancy_regex().backtrack_limit(PATTERN_STEPS_MAX));
        let validator = options.build(&schema).map_err(|error| {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() { String::new() } else { format!("{place}: ") };
            problem(format!("{place}{}", short(&error.to_string(), PROBLEM_CHARS)))
        })?;
        Ok(Schema(Arc::new(validator)))
    }

    /// All that is wrong, in one text. Not on the async threads: a schema may make much work of little.
    pub(super) async fn check(&self, arguments: &Value) -> Option<String> {
        let Ok(json) = serde_json::to_value(arguments) else {
            return Some("the arguments cannot be checked".to_owned());
        };
        let validator = self.0.clone();
        let checking = tokio::task::spawn_blocking(move || problems(&validator, &json));
        // Only a runtime that is shutting down drops such a task.
        checking.await.unwrap_or_else(|_| Some("the arguments could not be checked".to_owned()))
    }
}

fn problems(validator: &Validator, json: &Json) -> Option<String> {
    if validator.is_valid(json) {
        return None;
    }
    let mut told: Vec<String> = validator.iter_errors(json).map(|error| problem(&error)).collect();
    let more = told.len().saturating_sub(PROBLEMS_SHOWN);
    told.truncate(PROBLEMS_SHOWN);
    let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
    Some(format!("the arguments do not fit the schema: {}{rest}", told.join("; ")))
}

fn problem(error: &ValidationError<'_>) -> String {
    let place = error.instance_path().to_string();
    let place = if place.is_empty() { String::new() } else { format!("{place}: ") };
    short(&format!("{place}{}", error.masked_with(found(error.instance()))), PROBLEM_CHARS)
}

/// The model knows what it has sent: the beginning is enough.
fn found(value: &Json) -> String {
    short(&value.to_string(), 60)
}

fn short(text: &str, most: usize) -> String {
    let mut shown: String = text.chars().take(most).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
