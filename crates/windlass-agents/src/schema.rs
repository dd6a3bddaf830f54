//! Arguments against the schema of their tool.

use jsonschema::{PatternOptions, Validator};
use windlass_value::{Value, to_json};

use crate::text::{shortened, visible};

/// As many problems as help a model to do better.
const SHOWN: usize = 5;
const PROBLEM_CHARS_MAX: usize = 300;

/// A schema that was understood.
pub(crate) struct Schema(Validator);

impl Schema {
    pub(crate) fn new(schema: &Value) -> Result<Schema, String> {
        let schema = json(schema)?;
        // Patterns are matched in linear time, whoever wrote them.
        let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
        options.build(&schema).map(Schema).map_err(|error| error.to_string())
    }

    /// What does not fit, as sentences.
    pub(crate) fn check(&self, arguments: &Value) -> Result<(), String> {
        let arguments = json(arguments)?;
        let mut problems = self.0.iter_errors(&arguments).map(|error| {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() { String::new() } else { format!("{}: ", visible(&place)) };
            shortened(&visible(&format!("{place}{error}")), PROBLEM_CHARS_MAX)
        });
        let shown: Vec<String> = problems.by_ref().take(SHOWN).collect();
        let more = problems.count();
        match (shown.is_empty(), more) {
            (true, _) => Ok(()),
            (false, 0) => Err(shown.join("; ")),
            (false, more) => Err(format!("{}; and {more} more", shown.join("; "))),
        }
    }
}

fn json(value: &Value) -> Result<serde_json::Value, String> {
    serde_json::from_str(&to_json(value)).map_err(|error| error.to_string())
}
