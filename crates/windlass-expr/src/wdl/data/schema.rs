//! JSON Schema. Only this module uses the `jsonschema` crate, because that crate's interface changes often.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::Value as Json;

use super::cost::{ValidationCost, validation_cost};

/// The backtracking limit of one regular expression; beyond it the text counts as no match.
const MAX_PATTERN_STEPS: usize = 100_000;
/// The maximum number of problems that a message lists.
const MAX_PROBLEMS_SHOWN: usize = 5;
const MAX_TEXT_CHARS: usize = 120;
/// Above this number of possible problems none are collected: the crate creates all of them before it returns the
/// first.
const MAX_PROBLEMS: u64 = 500_000;

pub(super) struct WdlSchema {
    validator: Validator,
    source: Json,
}

/// The reason why a schema is invalid, and its location in the schema as a JSON pointer.
pub(super) struct BadSchema {
    pub message: String,
    pub pointer: String,
}

impl WdlSchema {
    /// Compiles a schema. Nothing is ever fetched: a `$ref` to another document is an error.
    pub(crate) fn compile(schema: &Json) -> Result<WdlSchema, BadSchema> {
        let mut options = jsonschema::options()
            .offline()
            .with_pattern_options(PatternOptions::fancy_regex().backtrack_limit(MAX_PATTERN_STEPS));
        if let Some(draft) = draft(schema) {
            options = options.with_draft(draft);
        }
        let validator = options.build(schema).map_err(|error| BadSchema {
            message: format!("the schema is not valid: {}", describe_error(&error)),
            pointer: error.instance_path().to_string(),
        })?;
        Ok(WdlSchema { validator, source: schema.clone() })
    }

    /// Estimates the cost of validating this value; None if it exceeds `max_steps`.
    pub(crate) fn validation_cost(&self, value: &Json, max_steps: u64) -> Option<ValidationCost> {
        validation_cost(&self.source, value, max_steps)
    }

    /// Validates a value. On failure returns the first problems and the number of further ones. `effort` is the cost of
    /// this value.
    pub(crate) fn check(&self, value: &Json, effort: ValidationCost) -> Result<(), String> {
        if self.validator.is_valid(value) {
            return Ok(());
        }
        if effort.problems > MAX_PROBLEMS {
            return Err(format!("found {}, which is too large to report each violation", describe_value(value)));
        }
        // Sorted, because a replay must report the same problems, whatever order the crate finds them in.
        let mut errors: Vec<(Vec<InstanceStep>, ValidationError)> =
            self.validator.iter_errors(value).map(|error| (instance_path(&error), error)).collect();
        errors.sort_by_cached_key(|(places, error)| (places.clone(), error.schema_path().to_string()));
        let shown: Vec<String> = errors.iter().take(MAX_PROBLEMS_SHOWN).map(|(_, error)| problem(error)).collect();
        let more = errors.len() - shown.len();
        let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
        Err(format!("{}{rest}", shown.join("; ")))
    }
}

/// A step towards a value; items sort by number, not by its text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum InstanceStep {
    Item(usize),
    Property(String),
}

fn instance_path(error: &ValidationError) -> Vec<InstanceStep> {
    let path = error.instance_path().to_string();
    let steps = path.split('/').skip(1);
    steps
        .map(|step| step.parse().map_or_else(|_| InstanceStep::Property(step.to_owned()), InstanceStep::Item))
        .collect()
}

/// Returns the draft to assume for a schema that does not declare one; None if it declares one. Most keywords mean the
/// same in all drafts, so draft 7 applies, unless the schema is valid only in draft 4: `"exclusiveMinimum": true`.
fn draft(schema: &Json) -> Option<Draft> {
    match schema.get("$schema") {
        Some(_) => None,
        None if has_old_bounds(schema) => Some(Draft::Draft4),
        None => Some(Draft::Draft7),
    }
}

fn has_old_bounds(schema: &Json) -> bool {
    match schema {
        Json::Object(map) => map.iter().any(|(key, value)| {
            let bound = matches!(key.as_str(), "exclusiveMinimum" | "exclusiveMaximum");
            (bound && value.is_boolean()) || has_old_bounds(value)
        }),
        Json::Array(items) => items.iter().any(has_old_bounds),
        _ => false,
    }
}

fn problem(error: &ValidationError) -> String {
    let path = error.instance_path().to_string();
    let location = if path.is_empty() { "the content" } else { &path };
    format!("{location}: {}", describe_error(error))
}

fn describe_error(error: &ValidationError) -> String {
    match error.kind() {
        ValidationErrorKind::Type { kind } => {
            format!("found {}, expected {}", describe_value(error.instance()), type_names(kind))
        }
        ValidationErrorKind::Required { property } => {
            format!("the property {property} is missing, found {}", describe_value(error.instance()))
        }
        ValidationErrorKind::Enum { options } => {
            format!("found {}, expected one of {}", describe_value(error.instance()), truncate(&options.to_string()))
        }
        ValidationErrorKind::Constant { expected_value } => {
            format!("found {}, expected {}", describe_value(error.instance()), truncate(&expected_value.to_string()))
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            format!("the properties {} are not allowed", truncate(&unexpected.join(", ")))
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            let choices: Vec<String> =
                context.iter().filter_map(|errors| errors.first()).map(describe_choice).collect();
            format!("found {}, expected {}", describe_value(error.instance()), truncate(&choices.join(", or ")))
        }
        _ => truncate(&error.masked_with(describe_value(error.instance())).to_string()),
    }
}

/// Describes what one of several schemas expected.
fn describe_choice(error: &ValidationError) -> String {
    match error.kind() {
        ValidationErrorKind::Type { kind } => type_names(kind),
        ValidationErrorKind::Enum { options } => format!("one of {options}"),
        ValidationErrorKind::Constant { expected_value } => expected_value.to_string(),
        ValidationErrorKind::Required { property } => format!("the property {property}"),
        _ => format!("a value that matches ({})", describe_error(error)),
    }
}

fn type_names(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => one.to_string(),
        TypeKind::Multiple(many) => many.iter().map(|one| one.to_string()).collect::<Vec<_>>().join(" or "),
    }
}

/// Describes a value by its kind and its beginning.
fn describe_value(value: &Json) -> String {
    let kind = match value {
        Json::Null => return "null".to_owned(),
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(items) => return format!("an array of {}", items.len()),
        Json::Object(map) if map.is_empty() => return "an empty object".to_owned(),
        Json::Object(map) => {
            let names: Vec<&str> = map.keys().take(8).map(String::as_str).collect();
            return format!("an object with {}", truncate(&names.join(", ")));
        }
    };
    format!("{kind} {}", truncate(&value.to_string()))
}

fn truncate(text: &str) -> String {
    match text.chars().count() <= MAX_TEXT_CHARS {
        true => text.to_owned(),
        false => text.chars().take(MAX_TEXT_CHARS - 1).chain(['…']).collect(),
    }
}
