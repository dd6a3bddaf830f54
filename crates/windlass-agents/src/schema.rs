//! Checks arguments against the schema of their tool.

use windlass_tools::schema::CompiledSchema as Compiled;
use windlass_value::Value;

use crate::text::escape_invisible;

/// Enough problems for a model to correct its call.
const MAX_SHOWN_PROBLEMS: usize = 5;

/// A compiled schema.
pub(crate) struct ArgumentSchema(Compiled);

impl ArgumentSchema {
    pub(crate) fn new(schema: &Value) -> Result<ArgumentSchema, String> {
        Compiled::compile(schema, None).map(ArgumentSchema)
    }

    /// Checks arguments. The error lists the problems as sentences.
    pub(crate) async fn check(&self, arguments: &Value) -> Result<(), String> {
        match self.0.problems(arguments, MAX_SHOWN_PROBLEMS).await {
            None => Ok(()),
            Some(problems) => Err(escape_invisible(&problems)),
        }
    }
}
