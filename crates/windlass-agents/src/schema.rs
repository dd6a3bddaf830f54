//! Arguments against the schema of their tool.

use windlass_tools::schema::CompiledSchema as Compiled;
use windlass_value::Value;

use crate::text::escape_invisible;

/// As many problems as help a model to do better.
const MAX_SHOWN_PROBLEMS: usize = 5;

/// A schema that was understood.
pub(crate) struct ArgumentSchema(Compiled);

impl ArgumentSchema {
    pub(crate) fn new(schema: &Value) -> Result<ArgumentSchema, String> {
        Compiled::compile(schema, None).map(ArgumentSchema)
    }

    /// What does not fit, as sentences.
    pub(crate) async fn check(&self, arguments: &Value) -> Result<(), String> {
        match self.0.problems(arguments, MAX_SHOWN_PROBLEMS).await {
            None => Ok(()),
            Some(problems) => Err(escape_invisible(&problems)),
        }
    }
}
