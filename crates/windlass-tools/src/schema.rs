//! JSON Schema validation. Schemas come from files and untrusted parties, so none may block a caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value as Json;
use tokio::sync::oneshot;
use windlass_value::{Value, schema_width};

pub use jsonschema::Draft;

/// Maximum number of backtracking steps of one regular expression; beyond it the text does not match.
const MAX_PATTERN_STEPS: usize = 100_000;
/// Maximum lengths of one problem, and of the value shown in it.
const MAX_PROBLEM_CHARS: usize = 200;
const MAX_FOUND_CHARS: usize = 60;
/// Maximum time of one check. Every legitimate check takes milliseconds.
const MAX_CHECK_TIME: Duration = Duration::from_secs(5);
/// Maximum number of timed-out checks that still run. At this number no further value is checked.
const MAX_ABANDONED_CHECKS: usize = 4;
/// Deep values need more stack than threads usually have.
const STACK_BYTES: usize = 32 << 20;

static ABANDONED_CHECKS: AtomicUsize = AtomicUsize::new(0);

/// A valid schema of bounded size.
#[derive(Clone)]
pub struct CompiledSchema(Arc<Validator>);

impl CompiledSchema {
    /// Compiles a schema. Nothing is fetched: a `$ref` to another document is an error. Without `draft` the schema
    /// declares it itself. The error describes the problem of the schema.
    pub fn compile(schema: &Value, draft: Option<Draft>) -> Result<CompiledSchema, String> {
        schema_width(schema).map_err(|error| error.to_string())?;
        let schema = serde_json::to_value(schema).map_err(|error| error.to_string())?;
        let patterns = PatternOptions::fancy_regex().backtrack_limit(MAX_PATTERN_STEPS);
        let mut options = jsonschema::options().offline().with_pattern_options(patterns);
        if let Some(draft) = draft {
            options = options.with_draft(draft);
        }
        let built = options.build(&schema);
        let validator =
            built.map_err(|error| truncate(&format!("{}{error}", location_prefix(&error)), MAX_PROBLEM_CHARS))?;
        Ok(CompiledSchema(Arc::new(validator)))
    }

    /// Returns the problems as sentences: at most `max_problems`, and the number of further ones. The check runs on a
    /// separate thread that neither the runtime nor the end of the process waits for.
    pub async fn problems(&self, arguments: &Value, max_problems: usize) -> Option<String> {
        self.problems_within(MAX_CHECK_TIME, arguments, max_problems).await
    }

    /// Returns at most `max_violations` violations with their locations. The error says why the check was impossible.
    pub(crate) async fn violations(
        &self,
        value: &Value,
        max_violations: usize,
    ) -> Result<Vec<SchemaViolation>, String> {
        self.run_check(MAX_CHECK_TIME, value, move |validator, json| {
            collect_violations(validator, json, max_violations)
        })
        .await
    }

    async fn problems_within(&self, limit: Duration, arguments: &Value, max_problems: usize) -> Option<String> {
        let found = self
            .run_check(limit, arguments, move |validator, json| describe_problems(validator, json, max_problems))
            .await;
        found.unwrap_or_else(Some)
    }

    async fn run_check<T: Send + 'static>(
        &self,
        limit: Duration,
        arguments: &Value,
        check: impl FnOnce(&Validator, &Json) -> T + Send + 'static,
    ) -> Result<T, String> {
        let Ok(json) = serde_json::to_value(arguments) else {
            return Err("the value cannot be converted to JSON".to_owned());
        };
        if ABANDONED_CHECKS.load(Ordering::SeqCst) >= MAX_ABANDONED_CHECKS {
            return Err("validation unavailable: too many abandoned checks are still running".to_owned());
        }
        let validator = self.0.clone();
        let (done, receiver) = oneshot::channel();
        let abandoned = AbandonedCheck::default();
        let own_state = abandoned.clone();
        let task = move || {
            let result = check(&validator, &json);
            own_state.mark_ended();
            // The receiver is gone if the check was abandoned.
            let _ = done.send(result);
        };
        if std::thread::Builder::new().name("schema check".to_owned()).stack_size(STACK_BYTES).spawn(task).is_err() {
            return Err("validation unavailable: no thread could be started".to_owned());
        }
        match tokio::time::timeout(limit, receiver).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(_)) => Err("the check ended without a result".to_owned()),
            Err(_) => {
                abandoned.mark_abandoned();
                Err(format!("validation did not finish within {limit:?}"))
            }
        }
    }
}

/// One violation of a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaViolation {
    /// The location in the value as a JSON pointer; empty for the whole value.
    pub pointer: String,
    pub message: String,
}

fn collect_violations(validator: &Validator, json: &Json, max_violations: usize) -> Vec<SchemaViolation> {
    let found = validator.iter_errors(json).take(max_violations);
    let to_violation = |error: ValidationError<'_>| {
        let found = truncate(&error.instance().to_string(), MAX_FOUND_CHARS);
        let message = truncate(&error.masked_with(found).to_string(), MAX_PROBLEM_CHARS);
        SchemaViolation { pointer: error.instance_path().to_string(), message }
    };
    found.map(to_violation).collect()
}

/// Counts a check as abandoned from its timeout until it ends.
#[derive(Clone, Default)]
struct AbandonedCheck(Arc<AtomicUsize>);

impl AbandonedCheck {
    const ABANDONED: usize = 1;
    const HAS_ENDED: usize = 2;

    fn mark_abandoned(&self) {
        ABANDONED_CHECKS.fetch_add(1, Ordering::SeqCst);
        if self.0.swap(AbandonedCheck::ABANDONED, Ordering::SeqCst) == AbandonedCheck::HAS_ENDED {
            ABANDONED_CHECKS.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn mark_ended(&self) {
        if self.0.swap(AbandonedCheck::HAS_ENDED, Ordering::SeqCst) == AbandonedCheck::ABANDONED {
            ABANDONED_CHECKS.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

fn describe_problems(validator: &Validator, json: &Json, max_problems: usize) -> Option<String> {
    if validator.is_valid(json) {
        return None;
    }
    let mut found = validator.iter_errors(json);
    let shown: Vec<String> = found.by_ref().take(max_problems).map(|error| describe_problem(&error)).collect();
    let more = found.count();
    let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
    Some(format!("{}{rest}", shown.join("; ")))
}

fn describe_problem(error: &ValidationError<'_>) -> String {
    // The caller knows its arguments: the beginning is enough.
    let found = truncate(&error.instance().to_string(), MAX_FOUND_CHARS);
    truncate(&format!("{}{}", location_prefix(error), error.masked_with(found)), MAX_PROBLEM_CHARS)
}

fn location_prefix(error: &ValidationError<'_>) -> String {
    let pointer = error.instance_path().to_string();
    if pointer.is_empty() { pointer } else { format!("{pointer}: ") }
}

fn truncate(text: &str, max_chars: usize) -> String {
    let mut shown: String = text.chars().take(max_chars).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_value::parse_json;

    #[tokio::test]
    async fn a_check_that_does_not_end_times_out() {
        // Two branches per level of the value: no schema is small enough for a value that is deep enough.
        let schema = r##"{"anyOf": [{"required": ["b"]}, {"properties": {"a": {"$ref": "#"}}, "required": ["a"]},
            {"properties": {"a": {"$ref": "#"}}, "required": ["a"]}]}"##;
        let schema = CompiledSchema::compile(&parse_json(schema).unwrap(), None).unwrap();
        let deep = |levels| parse_json(&(r#"{"a":"#.repeat(levels) + "{}" + &"}".repeat(levels))).unwrap();
        assert!(schema.problems(&deep(3), 5).await.unwrap().contains("is not valid under any"));
        let late = schema.problems_within(Duration::from_millis(20), &deep(60), 5).await.unwrap();
        assert_eq!(late, "validation did not finish within 20ms");
    }

    #[test]
    fn a_schema_that_is_too_large_is_rejected() {
        let link = |at: usize| {
            let to = at + 1;
            format!(r##""d{at}": {{"anyOf": [{{"$ref": "#/$defs/d{to}"}}, {{"$ref": "#/$defs/d{to}"}}]}}"##)
        };
        let links: Vec<String> = (0..40).map(link).collect();
        let text = format!(r##"{{"$ref": "#/$defs/d0", "$defs": {{{}, "d40": {{}}}}}}"##, links.join(", "));
        let problem = CompiledSchema::compile(&parse_json(&text).unwrap(), Some(Draft::Draft202012)).err().unwrap();
        assert!(problem.contains("more than 10000 subschemas"), "{problem}");
    }
}
